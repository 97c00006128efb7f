//! What a worker may call, and with which keys.

use punctual_worker::{Guard, MailServer, Places, Sending};

use super::{Config, Origin};
use crate::exit::usage;

pub(super) fn read(config: &Config) -> anyhow::Result<Sending> {
    let bots = config.telegram_bots()?.reached_at(&config.telegram_api()?);
    Ok(Sending {
        guard: Guard::new(config.http_allow()?, config.http_deny()?),
        webhook_keys: config.webhook_keys()?,
        slack_webhooks: config.slack_webhooks()?,
        telegram_bots: bots.map_err(|reason| config.refused("telegram_api", reason))?,
        mail: mail(config)?,
    })
}

/// What tasks may call in `punctual dev`: also this machine, unless the settings say what is allowed.
pub(crate) fn guard_in_dev(config: &Config) -> anyhow::Result<Guard> {
    let allow = match config.value("http_allow").origin {
        Origin::Default => Places::parse(Places::LOOPBACK).map_err(anyhow::Error::msg)?,
        _ => config.http_allow()?,
    };
    Ok(Guard::new(allow, config.http_deny()?))
}

fn mail(config: &Config) -> anyhow::Result<Option<MailServer>> {
    let (password, from) = (config.smtp_password()?, config.smtp_from()?);
    let Some(url) = config.smtp_url()? else {
        // Half of it would look as if mails could be sent.
        for (key, text) in [("smtp_from", &from), ("smtp_password", &password)] {
            if !text.is_empty() {
                return Err(usage(format!("{key} is set and smtp_url is not"), "set smtp_url too, or neither"));
            }
        }
        return Ok(None);
    };
    let server = MailServer::parse(&url, Some(&password), &from);
    server.map(Some).map_err(|reason| config.refused("smtp_url", reason))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::tests::shown;
    use super::super::{Sources, Untrusted, WorkerSettings};
    use super::*;

    const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const HOOK: &str = "https://hooks.slack.com/services/T0/B0/s3cret";

    fn load(environment: &[(&str, &str)]) -> Config {
        let lookup =
            |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let written = tempfile::NamedTempFile::new().unwrap();
        let file = Some(written.path().to_owned());
        Config::load(&Sources { flags: &[], environment: &lookup, file, untrusted: Untrusted::Refuse }).unwrap()
    }

    #[test]
    fn secrets_are_read_from_settings_and_files_and_never_shown() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        write!(file, "# channels\nops={HOOK}\n").unwrap();
        let hooks = format!("@{}", file.path().display());
        let keys = format!("ci={KEY}, shop={KEY}");
        let config = load(&[
            ("PUNCTUAL_WEBHOOK_KEYS", &keys),
            ("PUNCTUAL_SLACK_WEBHOOKS", &hooks),
            ("PUNCTUAL_SMTP_URL", "smtp://me@mail.example"),
            ("PUNCTUAL_SMTP_PASSWORD", "s3cret"),
            ("PUNCTUAL_SMTP_FROM", "jobs@example.com"),
        ]);
        let settings = WorkerSettings::new(&config).unwrap();
        assert!(settings.sending.mail.is_some());
        let debugged = format!("{settings:?}");
        assert!(!debugged.contains("s3cret") && !debugged.contains(&KEY[6..]), "{debugged}");
        assert!(debugged.contains(r#"{"ops"}"#) && debugged.contains(r#"{"ci", "shop"}"#), "{debugged}");
        assert_eq!(shown(&config, "webhook_keys"), "ci=***,shop=***");
        assert_eq!(shown(&config, "slack_webhooks"), hooks);
        assert_eq!(shown(&config, "smtp_password"), "***");
        assert_eq!(shown(&config, "smtp_url"), "smtp://me@mail.example");
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_setting_and_without_its_secret() {
        for (variable, value, answer) in [
            ("PUNCTUAL_HTTP_ALLOW", "10.0.0.1/8", "setting http_allow (environment PUNCTUAL_HTTP_ALLOW): `10.0.0.1/8`"),
            ("PUNCTUAL_HTTP_DENY", "a b", "neither a range"),
            ("PUNCTUAL_WEBHOOK_KEYS", "s3cret", "number 1 is not written as name=value"),
            ("PUNCTUAL_WEBHOOK_KEYS", "a=s3cret", "does not begin with whsec_"),
            ("PUNCTUAL_SLACK_WEBHOOKS", "ops=s3cret", "the webhook ops is not an address"),
            ("PUNCTUAL_SLACK_WEBHOOKS", "@/nowhere", "cannot read /nowhere"),
            ("PUNCTUAL_TELEGRAM_BOTS", "ops=s3cret", "the token of the bot ops"),
            ("PUNCTUAL_TELEGRAM_API", "api.telegram.org", "must begin with https://"),
            ("PUNCTUAL_SMTP_PASSWORD", "s3cret", "smtp_password is set and smtp_url is not"),
            ("PUNCTUAL_SMTP_URL", "smtp://me:s3cret@h", "put it into smtp_password"),
            ("PUNCTUAL_SMTP_URL", "smtp://mail.example", "smtp_from must be an address"),
        ] {
            let config = load(&[(variable, value)]);
            let refused = WorkerSettings::new(&config).unwrap_err().to_string();
            assert!(refused.contains(answer) && !refused.contains("s3cret"), "{refused}");
            assert!(!shown(&config, &variable.to_ascii_lowercase()["punctual_".len()..]).contains("s3cret"));
        }
    }

    #[test]
    fn what_is_usual_holds_only_until_the_settings_say_something() {
        let allows_loopback = |config: &Config| format!("{:?}", guard_in_dev(config).unwrap()).contains("127.0.0.0/8");
        assert!(allows_loopback(&load(&[])));
        assert!(!allows_loopback(&load(&[("PUNCTUAL_HTTP_ALLOW", "")])));
        assert!(!allows_loopback(&load(&[("PUNCTUAL_HTTP_ALLOW", "10.0.0.0/8")])));
    }
}
