//! Checks of mails and messages. What becomes a header is one line of printable text; no refusal
//! repeats the address of a webhook, which is a secret.

use lettre::message::Mailbox;
use punctual_api::limits;
use punctual_core::run::{Email, Slack, Telegram, begins_with_secret};

use super::{http, line, name};
use crate::{AppError, Faults, Result};

/// To, cc and bcc together. More are a mailing list.
const ADDRESSES_MAX: usize = 100;
const ADDRESS_CHARS_MAX: usize = 512;
const SUBJECT_CHARS_MAX: usize = 500;
/// Slack cuts what is longer.
const SLACK_TEXT_CHARS_MAX: usize = 40_000;

pub(super) fn email(mail: &Email) -> Result<()> {
    let mut faults = Faults::default();
    faults.check(addresses(&mail.to, &mail.cc, &mail.bcc));
    if let Some(written) = &mail.reply_to {
        faults.check(address("/run/email/reply_to", written));
    }
    faults.check(match mail.subject.trim() {
        "" => Err(AppError::field("/run/email/subject", "must not be empty")),
        _ => line("/run/email/subject", &mail.subject, SUBJECT_CHARS_MAX),
    });
    for (pointer, body) in [("/run/email/text", &mail.text), ("/run/email/html", &mail.html)] {
        if body.as_ref().is_some_and(|body| body.len() > limits::HTTP_BODY_BYTES_MAX) {
            let detail = format!("must be at most {} bytes", limits::HTTP_BODY_BYTES_MAX);
            faults.check(Err(AppError::too_long(pointer, detail)));
        }
    }
    faults.finish()
}

/// Whether a mail could go to these, by the rules for tasks and notifications.
pub fn check_mail_to(to: &[String]) -> Result<()> {
    addresses(to, &[], &[])
}

fn addresses(to: &[String], cc: &[String], bcc: &[String]) -> Result<()> {
    if to.is_empty() {
        return Err(AppError::field("/run/email/to", "must have at least one address"));
    }
    if to.len() + cc.len() + bcc.len() > ADDRESSES_MAX {
        let detail = format!("must be at most {ADDRESSES_MAX} addresses, with cc and bcc");
        return Err(AppError::too_long("/run/email/to", detail).hint("use the address of a mailing list"));
    }
    let mut faults = Faults::default();
    for (field, addresses) in [("to", to), ("cc", cc), ("bcc", bcc)] {
        for (at, written) in addresses.iter().enumerate() {
            faults.check(address(&format!("/run/email/{field}/{at}"), written));
        }
    }
    faults.finish()
}

fn address(pointer: &str, written: &str) -> Result<()> {
    const HINT: &str = "write it like ops@example.com or Ops <ops@example.com>";
    line(pointer, written, ADDRESS_CHARS_MAX)?;
    let mailbox: Mailbox =
        written.parse().map_err(|_| AppError::field(pointer, "is not an email address").hint(HINT))?;
    if !mailbox.email.to_string().is_ascii() {
        return Err(AppError::field(pointer, "has letters around the @ that not every mail server knows")
            .hint("write the domain in its ASCII form, xn--…; the name before <> may have any letters"));
    }
    Ok(())
}

pub(super) fn slack(message: &Slack) -> Result<()> {
    let mut faults = Faults::default();
    faults.check(webhook(message));
    faults.check(match &message.text {
        Some(text) if text.trim().is_empty() => {
            Err(AppError::field("/run/slack/text", "must not be empty").hint("leave it out to post the job's input"))
        }
        Some(text) if text.chars().count() > SLACK_TEXT_CHARS_MAX => {
            Err(AppError::too_long("/run/slack/text", format!("must be at most {SLACK_TEXT_CHARS_MAX} characters")))
        }
        None | Some(_) => Ok(()),
    });
    faults.finish()
}

fn webhook(message: &Slack) -> Result<()> {
    const POINTER: &str = "/run/slack/webhook";
    if begins_with_secret(&message.webhook) {
        return http::url(POINTER, &message.webhook).map_err(|_| not_slack());
    }
    if message.is_address() {
        http::url(POINTER, &message.webhook).map_err(|_| not_slack())?;
        let url = url::Url::parse(&message.webhook).map_err(|_| not_slack())?;
        let is_slack = matches!(url.host_str(), Some("hooks.slack.com" | "hooks.slack-gov.com"));
        if url.scheme() != "https" || !is_slack || url.port().is_some() {
            return Err(not_slack());
        }
        return Ok(());
    }
    name(POINTER, &message.webhook)
}

pub(super) fn telegram(message: &Telegram) -> Result<()> {
    const POINTER: &str = "/run/telegram/text";
    let mut faults = Faults::default();
    let bot = name("/run/telegram/bot", &message.bot);
    let advice = "name a bot of the worker's setting telegram_bots; its token is in no task";
    faults.check(bot.map_err(|error| error.hint(advice)));
    if !Telegram::is_chat(&message.chat) {
        let error = AppError::field("/run/telegram/chat", "must be the id of a chat or the name of a public channel");
        faults.check(Err(error.hint("write it like -1001234567890 or @news")));
    }
    faults.check(match &message.text {
        None if message.parse_mode.is_some() => {
            Err(AppError::field("/run/telegram/parse_mode", "needs `text`: an input is sent as plain text"))
        }
        Some(text) if text.trim().is_empty() => {
            Err(AppError::field(POINTER, "must not be empty").hint("leave it out to send the job's input"))
        }
        Some(text) if Telegram::units(text) > Telegram::TEXT_UNITS_MAX => {
            Err(AppError::too_long(POINTER, format!("must be at most {} characters", Telegram::TEXT_UNITS_MAX)))
        }
        None | Some(_) => Ok(()),
    });
    faults.finish()
}

fn not_slack() -> AppError {
    AppError::field("/run/slack/webhook", "must be an address that begins with https://hooks.slack.com/, or a name")
        .hint("put other addresses into the worker's setting slack_webhooks, and use the name they have there")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail() -> Email {
        Email {
            to: vec!["ops@example.com".to_owned()],
            cc: Vec::new(),
            bcc: Vec::new(),
            reply_to: None,
            subject: "done".to_owned(),
            text: Some("a\r\nb\0".to_owned()),
            html: None,
        }
    }

    fn pointer(result: Result<()>) -> std::result::Result<(), String> {
        result.map_err(|error| error.errors[0].pointer.clone())
    }

    #[test]
    fn addresses_are_read_and_what_is_none_is_refused_where_it_stands() {
        for good in
            ["ops@example.com", "Ops <ops@example.com>", "\"Ops, all\" <a+b@mail.example.com>", "Jürgen <j@x.de>"]
        {
            assert_eq!(pointer(email(&Email { to: vec![good.to_owned()], ..mail() })), Ok(()), "{good}");
        }
        for bad in ["", "ops", "ops@", "@example.com", "a b@example.com", "a@b@c", "ops@exämple.com", "<a@b.c> x"] {
            let cc = vec!["ok@example.com".to_owned(), bad.to_owned()];
            assert_eq!(pointer(email(&Email { cc, ..mail() })), Err("/run/email/cc/1".to_owned()), "{bad}");
        }
    }

    #[test]
    fn no_field_that_becomes_a_header_takes_control_characters() {
        for evil in ["\r\nBcc: evil@example.com", "\n", "\r", "\0", "\u{7f}", "\t", "\u{85}"] {
            let with = |text: &str| format!("{text}{evil}");
            let address = || with("ops@example.com");
            for (case, place) in [
                (Email { to: vec![address()], ..mail() }, "/run/email/to/0"),
                (Email { cc: vec![address()], ..mail() }, "/run/email/cc/0"),
                (Email { bcc: vec![address()], ..mail() }, "/run/email/bcc/0"),
                (Email { to: vec![format!("Ops{evil} <ops@example.com>")], ..mail() }, "/run/email/to/0"),
                (Email { reply_to: Some(address()), ..mail() }, "/run/email/reply_to"),
                (Email { subject: with("hello"), ..mail() }, "/run/email/subject"),
            ] {
                assert_eq!(pointer(email(&case)), Err(place.to_owned()), "{evil:?}");
            }
            for webhook in [with("ops"), with("https://hooks.slack.com/services/T/B/x")] {
                let refused = pointer(slack(&Slack { webhook, text: None }));
                assert_eq!(refused, Err("/run/slack/webhook".to_owned()), "{evil:?}");
            }
        }
    }

    #[test]
    fn a_mail_to_too_many_or_without_a_subject_is_refused() {
        let many = |count| vec!["ops@example.com".to_owned(); count];
        assert_eq!(pointer(email(&Email { to: many(50), bcc: many(50), ..mail() })), Ok(()));
        assert_eq!(pointer(email(&Email { to: many(50), bcc: many(51), ..mail() })), Err("/run/email/to".to_owned()));
        assert_eq!(pointer(email(&Email { to: Vec::new(), ..mail() })), Err("/run/email/to".to_owned()));
        assert_eq!(pointer(email(&Email { subject: " ".to_owned(), ..mail() })), Err("/run/email/subject".to_owned()));
        let long = Some("x".repeat((256 << 10) + 1));
        assert_eq!(pointer(email(&Email { html: long, ..mail() })), Err("/run/email/html".to_owned()));
    }

    #[test]
    fn a_webhook_is_an_address_of_slack_or_a_name() {
        let check = |webhook: &str| slack(&Slack { webhook: webhook.to_owned(), text: Some("hi".to_owned()) });
        for good in ["ops", "team.alerts-2", "https://hooks.slack.com/services/T0/B0/s3cret"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "two words",
            "http://hooks.slack.com/services/s3cret",
            "https://hooks.slack.com.evil.example/s3cret",
            "https://evil.example/hooks.slack.com/s3cret",
            "https://hooks.slack.com:444/s3cret",
            "https://s3cret@hooks.slack.com/",
            "https://s3cret",
        ] {
            let refused = check(bad).unwrap_err();
            assert_eq!(refused.errors[0].pointer, "/run/slack/webhook", "{bad}");
            assert!(!format!("{refused:?}").contains("s3cret"), "{bad}: {refused:?}");
        }
        let empty = Slack { webhook: "ops".to_owned(), text: Some(" ".to_owned()) };
        assert_eq!(pointer(slack(&empty)), Err("/run/slack/text".to_owned()));
    }

    #[test]
    fn a_telegram_message_names_a_bot_and_a_chat() {
        let check = |json: &str| pointer(telegram(&serde_json::from_str(json).unwrap()));
        assert_eq!(check(r#"{"chat":"@news","text":"hi","parse_mode":"html"}"#), Ok(()));
        assert_eq!(check(r#"{"bot":"ops","chat":-100}"#), Ok(()));
        for (bad, place) in [
            (r#"{"bot":"123:s3cret","chat":"@news"}"#, "bot"),
            (r#"{"chat":"news"}"#, "chat"),
            (r#"{"chat":"@news","text":" "}"#, "text"),
            (r#"{"chat":"@news","parse_mode":"html"}"#, "parse_mode"),
        ] {
            assert_eq!(check(bad), Err(format!("/run/telegram/{place}")), "{bad}");
        }
        let long = Telegram { text: Some("😀".repeat(2049)), ..Telegram::new("@news") };
        assert_eq!(pointer(telegram(&long)), Err("/run/telegram/text".to_owned()));
    }
}
