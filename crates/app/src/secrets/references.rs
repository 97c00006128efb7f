//! Where definitions of tasks refer to secrets, and where they hold credentials in plain text instead.

use std::collections::BTreeSet;

use punctual_api::Warning;
use punctual_core::namespace::NamespaceId;
use punctual_core::run::secrets_in;
use punctual_core::task::{Run, TaskSpec};

use crate::definition::names_a_secret;
use crate::{App, AppError, Faults, Result};

impl App {
    /// Refuses a definition that refers to secrets that do not exist. `under` is where the definition stands.
    pub(crate) async fn check_secrets(&self, namespace: NamespaceId, spec: &TaskSpec, under: &str) -> Result<()> {
        if !spec.run.has_placeholders() {
            return Ok(());
        }
        let places = spec.run.secret_places();
        let names: BTreeSet<&String> = places.iter().map(|(_, name)| name).collect();
        if names.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = names.into_iter().cloned().collect();
        let mut known: BTreeSet<String> = self.known_secrets(namespace, &names).await?;
        if names.iter().any(|name| !known.contains(name)) {
            // It may have been made at another server a moment ago.
            names.iter().for_each(|name| self.0.vault.forget(namespace, name));
            known = self.known_secrets(namespace, &names).await?;
        }
        let mut faults = Faults::default();
        for (place, name) in places.iter().filter(|(_, name)| !known.contains(name)) {
            let error = AppError::field(place.clone(), format!("refers to the secret {name}, which does not exist"));
            faults.check(Err(error.hint(format!("create it with PUT /v1/secrets/{name}")).under(under)));
        }
        faults.finish()
    }

    async fn known_secrets(&self, namespace: NamespaceId, names: &[String]) -> Result<BTreeSet<String>> {
        Ok(self.secret_rows(namespace, names).await?.into_iter().map(|row| row.name.clone()).collect())
    }
}

/// What looks like a credential in plain text. Its place is named, and never its value.
pub(crate) fn plain_credentials(spec: &TaskSpec) -> Vec<Warning> {
    let mut places = Vec::new();
    let mut named = |pointer: &str, name: &str, value: &str| {
        if names_a_secret(name) && !value.trim().is_empty() && secrets_in(value).is_empty() {
            places.push(format!("{pointer}/{name}"));
        }
    };
    match &spec.run {
        Run::Http(call) => call.headers.iter().for_each(|(name, value)| named("/run/http/headers", name, value)),
        Run::Binary(binary) => binary.env.iter().for_each(|(name, value)| named("/run/binary/env", name, value)),
        Run::Command(command) => {
            command.environment.iter().for_each(|(name, value)| named("/run/command/environment", name, value));
        }
        Run::Slack(message) if message.is_address() && secrets_in(&message.webhook).is_empty() => {
            places.push("/run/slack/webhook".to_owned());
        }
        Run::Slack(_) | Run::Email(_) | Run::Telegram(_) | Run::Probe(_) | Run::Handler(_) | Run::Workflow(_) => {}
    }
    if let Run::Http(call) = &spec.run
        && let Ok(url) = url::Url::parse(&call.url)
    {
        let pairs = url.query_pairs().filter(|(name, value)| names_a_secret(name) && secrets_in(value).is_empty());
        places.extend(pairs.map(|(name, _)| format!("/run/http/url?{name}")));
    }
    let warn = |place: String| Warning {
        code: Warning::PLAIN_TEXT_CREDENTIAL.to_owned(),
        detail: format!(
            "{place} looks like a credential in plain text, which everybody reads who may see the task; \
             keep it as a secret (`punctual secret set NAME`) and write {{{{ secret.NAME }}}} instead"
        ),
    };
    places.into_iter().map(warn).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(run: &str) -> Vec<String> {
        let spec = TaskSpec::new(serde_json::from_str(run).unwrap());
        let warnings = plain_credentials(&spec);
        assert!(warnings.iter().all(|warning| !warning.detail.contains("s3cret")), "{warnings:?}");
        warnings.into_iter().map(|warning| warning.detail.split(' ').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn credentials_in_plain_text_are_noticed_and_references_are_not() {
        assert_eq!(
            places(
                r#"{"http":{"url":"https://h.example/?api_key=s3cret&page=1","headers":{"authorization":"Bearer s3cret","x-a":"1"}}}"#
            ),
            ["/run/http/headers/authorization", "/run/http/url?api_key"]
        );
        assert_eq!(
            places(
                r#"{"http":{"url":"https://h.example/?api_key={{ secret.a }}","headers":{"authorization":"Bearer {{ secret.a }}"}}}"#
            ),
            Vec::<String>::new()
        );
        assert_eq!(
            places(r#"{"command":{"line":"psql","environment":{"PGPASSWORD":"s3cret","LANG":"C"}}}"#),
            ["/run/command/environment/PGPASSWORD"]
        );
        assert_eq!(
            places(r#"{"slack":{"webhook":"https://hooks.slack.com/services/s3cret"}}"#),
            ["/run/slack/webhook"]
        );
        assert_eq!(places(r#"{"slack":{"webhook":"ops"}}"#), Vec::<String>::new());
    }
}
