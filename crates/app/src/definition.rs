//! What a job runs, for people and programs that look at it: the definition of its task, without secrets.

use punctual_api::{RetryCount, TaskDefinition};
use punctual_core::retry::RetryPolicy;
use punctual_core::task::{Run, Task, TaskSpec};
use punctual_core::{Counters, Timestamp};
use url::Url;

use crate::title::hides_path;

const HIDDEN: &str = "***";

/// `last_start` is when the job's last attempt began, if there was one.
pub(crate) fn view(task: &Task, last_start: Option<Timestamp>) -> TaskDefinition {
    TaskDefinition {
        revision: task.revision,
        changed_since: last_start.is_some_and(|at| task.updated_at > at),
        spec: without_secrets(task.spec.clone()),
    }
}

/// After failures of the task, and after losses of workers.
pub(crate) fn retries(spec: &TaskSpec, counters: Counters) -> (RetryCount, RetryCount) {
    // The failure that ended the job was not followed by a retry.
    let count = |policy: &RetryPolicy, failures: u16| RetryCount { used: failures.min(policy.max), max: policy.max };
    (count(&spec.retry, counters.failures), count(&spec.node_retry, counters.node_failures))
}

fn without_secrets(mut spec: TaskSpec) -> TaskSpec {
    let hidden = || HIDDEN.to_owned();
    match &mut spec.run {
        Run::Binary(binary) => binary.env.values_mut().for_each(|value| *value = hidden()),
        Run::Http(call) => {
            call.url = without_secrets_in_url(&call.url);
            for (name, value) in &mut call.headers {
                if is_secret(name) {
                    *value = hidden();
                }
            }
        }
        Run::Slack(message) if message.is_address() => message.webhook = hidden(),
        Run::Command(command) => {
            command.environment.values_mut().for_each(|value| *value = hidden());
            command.stdin.iter_mut().for_each(|stdin| *stdin = hidden());
        }
        Run::Slack(_) | Run::Telegram(_) | Run::Email(_) | Run::Probe(_) | Run::Handler(_) => {}
    }
    spec
}

fn without_secrets_in_url(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else { return text.to_owned() };
    let has_secret_parameter = url.query_pairs().any(|(name, _)| is_secret(&name));
    if url.username().is_empty() && url.password().is_none() && !hides_path(&url) && !has_secret_parameter {
        // As it was written.
        return text.to_owned();
    }
    if url.password().is_some() || !url.username().is_empty() {
        // A URL with user info has a host, and takes another.
        let _ = url.set_username(HIDDEN);
        let _ = url.set_password(None);
    }
    if hides_path(&url) {
        url.set_path(HIDDEN);
    }
    if has_secret_parameter {
        let shown = |(name, value): (_, _)| {
            let name: std::borrow::Cow<'_, str> = name;
            let value: std::borrow::Cow<'_, str> = if is_secret(&name) { HIDDEN.into() } else { value };
            (name.into_owned(), value.into_owned())
        };
        let pairs: Vec<(String, String)> = url.query_pairs().map(shown).collect();
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }
    url.to_string()
}

/// Whether what has this name is usually a secret.
fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 9] =
        ["auth", "token", "secret", "password", "passwd", "key", "cookie", "signature", "credential"];
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(run: &str) -> String {
        let spec = TaskSpec::new(serde_json::from_str(run).unwrap());
        serde_json::to_string(&without_secrets(spec).run).unwrap()
    }

    #[test]
    fn secrets_of_a_definition_are_not_shown() {
        for run in [
            r#"{"http":{"url":"https://me:s3cret@example.com/x","headers":{"Authorization":"Bearer s3cret","X-Api-Key":"s3cret"}}}"#,
            r#"{"http":{"url":"https://example.com/x?access_token=s3cret"}}"#,
            r#"{"http":{"url":"https://hooks.slack.com/services/s3cret"}}"#,
            r#"{"slack":{"webhook":"https://hooks.slack.com/services/s3cret"}}"#,
            r#"{"command":{"line":"psql","stdin":"s3cret","environment":{"PGPASSWORD":"s3cret"}}}"#,
            r#"{"binary":{"artifact":"artifact_01m7et433kee4803yssgvaf2fh","env":{"DB":"s3cret"}}}"#,
        ] {
            let shown = shown(run);
            assert!(!shown.contains("s3cret") && shown.contains("***"), "{shown}");
        }
    }

    #[test]
    fn everything_else_is_shown_as_it_was_written() {
        for run in [
            r#"{"http":{"url":"https://example.com/a/?day=1","method":"GET","headers":{"Accept":"*/*"},"timeout":"30s"}}"#,
            r#"{"slack":{"webhook":"ops","text":"hi"}}"#,
            r#"{"command":{"line":"df -h | mail root","grace":"10s"}}"#,
        ] {
            assert_eq!(shown(run), run);
        }
    }

    #[test]
    fn used_retries_do_not_exceed_the_limit() {
        let spec = TaskSpec::new(serde_json::from_str(r#"{"probe":{}}"#).unwrap());
        let max = spec.retry.max;
        let (retries_used, node) = retries(&spec, Counters { failures: max + 1, node_failures: 1, ..Counters::NEW });
        assert_eq!(retries_used, RetryCount { used: max, max });
        assert_eq!(node.used, 1);
    }
}
