//! What a job runs, for people and programs that look at it: the definition of its task, without secrets.

use punctual_api::{RetryCount, TaskDefinition};
use punctual_core::attempt::Ending;
use punctual_core::retry::RetryPolicy;
use punctual_core::task::{Run, Task, TaskSpec};
use punctual_core::{Counters, JobState, Timestamp};
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

/// How a job ended, and its last attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastAttempt {
    pub(crate) state: JobState,
    pub(crate) ending: Ending,
}

/// Retries after failures of the task, and after losses of workers. No retry followed the `last` attempt of a finished job,
/// whatever it was counted as.
pub(crate) fn retries(spec: &TaskSpec, counters: Counters, last: Option<LastAttempt>) -> (RetryCount, RetryCount) {
    let Counters { mut failures, mut node_failures, .. } = counters;
    // An attempt in doubt counts as a loss, also if it reported a failure.
    let is_in_doubt = |state: JobState| failures == 0 || matches!(state, JobState::Lost | JobState::Quarantined);
    match last.map(|LastAttempt { state, ending }| (ending, is_in_doubt(state))) {
        None | Some((Ending::Succeeded | Ending::Cancelled | Ending::NotStarted, _)) => {}
        Some((Ending::WorkerLost, _) | (Ending::Failed | Ending::TimedOut, true)) => {
            node_failures = node_failures.saturating_sub(1);
        }
        Some((Ending::Failed | Ending::TimedOut, false)) => failures -= 1,
    }
    let count = |policy: &RetryPolicy, failures: u16| RetryCount { used: failures.min(policy.max), max: policy.max };
    (count(&spec.retry, failures), count(&spec.node_retry, node_failures))
}

fn without_secrets(mut spec: TaskSpec) -> TaskSpec {
    let hidden = || HIDDEN.to_owned();
    match &mut spec.run {
        Run::Binary(binary) => binary.env.values_mut().for_each(|value| *value = hidden()),
        Run::Http(call) => {
            call.url = without_secrets_in_url(&call.url);
            for (name, value) in &mut call.headers {
                if names_a_secret(name) {
                    *value = hidden();
                }
            }
        }
        Run::Slack(message) if message.is_address() => message.webhook = hidden(),
        Run::Command(command) => {
            command.environment.values_mut().for_each(|value| *value = hidden());
            command.stdin.iter_mut().for_each(|stdin| *stdin = hidden());
        }
        Run::Slack(_) | Run::Telegram(_) | Run::Email(_) | Run::Probe(_) | Run::Handler(_) | Run::Workflow(_) => {}
    }
    spec
}

/// Leaves what a task is and by which rules it runs, and nothing of what it is given.
pub(crate) fn without_inputs(spec: &mut TaskSpec) {
    let hide = |text: &mut String| HIDDEN.clone_into(text);
    match &mut spec.run {
        Run::Binary(binary) => {
            binary.args.iter_mut().for_each(hide);
            binary.env.values_mut().for_each(hide);
        }
        Run::Http(call) => {
            hide(&mut call.url);
            call.headers.values_mut().for_each(hide);
            call.body.iter_mut().for_each(hide);
            call.expect_body.iter_mut().for_each(hide);
        }
        Run::Email(mail) => {
            let lists = [&mut mail.to, &mut mail.cc, &mut mail.bcc];
            lists.into_iter().flatten().for_each(hide);
            hide(&mut mail.subject);
            [&mut mail.reply_to, &mut mail.text, &mut mail.html].into_iter().flatten().for_each(hide);
        }
        Run::Slack(message) => {
            hide(&mut message.webhook);
            message.text.iter_mut().for_each(hide);
        }
        Run::Telegram(message) => {
            hide(&mut message.chat);
            message.text.iter_mut().for_each(hide);
        }
        Run::Command(command) => {
            hide(&mut command.line);
            command.environment.values_mut().for_each(hide);
            [&mut command.name, &mut command.stdin, &mut command.directory].into_iter().flatten().for_each(hide);
        }
        Run::Probe(probe) => [&mut probe.output, &mut probe.witness].into_iter().flatten().for_each(hide),
        Run::Handler(_) | Run::Workflow(_) => {}
    }
}

fn without_secrets_in_url(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else { return text.to_owned() };
    let has_secret_parameter = url.query_pairs().any(|(name, _)| names_a_secret(&name));
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
            let value: std::borrow::Cow<'_, str> = if names_a_secret(&name) { HIDDEN.into() } else { value };
            (name.into_owned(), value.into_owned())
        };
        let pairs: Vec<(String, String)> = url.query_pairs().map(shown).collect();
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }
    url.to_string()
}

/// Whether what has this name is usually a secret.
pub(crate) fn names_a_secret(name: &str) -> bool {
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
    fn without_the_right_to_inputs_none_is_shown() {
        let file = "artifact_01m7et433kee4803yssgvaf2fh";
        for run in [
            r#"{"http":{"url":"https://in.example/in","method":"POST","headers":{"X":"in"},"body":"in","expect_body":"in"}}"#,
            r#"{"email":{"to":["in@in"],"cc":["in"],"bcc":["in"],"reply_to":"in","subject":"in","text":"in","html":"in"}}"#,
            r#"{"slack":{"webhook":"in","text":"in"}}"#,
            r#"{"telegram":{"chat":"in","text":"in"}}"#,
            r#"{"command":{"line":"in","stdin":"in","environment":{"A":"in"}}}"#,
            &format!(r#"{{"binary":{{"artifact":"{file}","args":["in"],"env":{{"A":"in"}}}}}}"#),
        ] {
            let mut spec = TaskSpec::new(serde_json::from_str(run).unwrap());
            without_inputs(&mut spec);
            let shown: serde_json::Value = serde_json::to_value(&spec.run).unwrap();
            assert!(!values(&shown).any(|text| text.contains("in")), "{shown}");
        }
    }

    /// Every text that is a value, kinds of tasks and names of fields aside.
    fn values(json: &serde_json::Value) -> Box<dyn Iterator<Item = &str> + '_> {
        match json {
            serde_json::Value::String(text) => Box::new(std::iter::once(text.as_str())),
            serde_json::Value::Array(all) => Box::new(all.iter().flat_map(values)),
            serde_json::Value::Object(all) => Box::new(all.values().flat_map(values)),
            _ => Box::new(std::iter::empty()),
        }
    }

    #[test]
    fn everything_else_is_shown_as_it_was_written() {
        for run in [
            r#"{"http":{"url":"https://example.com/a/?day=1","method":"GET","headers":{"Accept":"*/*"},"timeout":"PT30S"}}"#,
            r#"{"slack":{"webhook":"ops","text":"hi"}}"#,
            r#"{"command":{"line":"df -h | mail root","grace":"PT10S"}}"#,
        ] {
            assert_eq!(shown(run), run);
        }
    }

    #[test]
    fn a_retry_is_used_when_an_attempt_follows_a_failure() {
        let spec = TaskSpec::new(serde_json::from_str(r#"{"probe":{}}"#).unwrap());
        let max = spec.retry.max;
        let used = |failures: u16, node_failures: u16, last: Option<(JobState, Ending)>| {
            let last = last.map(|(state, ending)| LastAttempt { state, ending });
            let (task, node) = retries(&spec, Counters { failures, node_failures, ..Counters::NEW }, last);
            assert_eq!((task.max, node.max), (max, spec.node_retry.max));
            (task.used, node.used)
        };
        assert_eq!(used(0, 0, None), (0, 0), "new");
        assert_eq!(used(1, 1, None), (1, 1), "it waits for its retry");
        assert_eq!(used(1, 0, Some((JobState::Succeeded, Ending::Succeeded))), (1, 0));
        assert_eq!(used(1, 0, Some((JobState::Failed, Ending::Failed))), (0, 0), "a permanent failure");
        assert_eq!(used(2, 0, Some((JobState::Failed, Ending::TimedOut))), (1, 0));
        assert_eq!(used(max + 1, 0, Some((JobState::Failed, Ending::Failed))), (max, 0), "all are used");
        assert_eq!(used(1, 0, Some((JobState::Cancelled, Ending::Failed))), (0, 0), "cancelled before the retry");
        assert_eq!(used(1, 0, Some((JobState::Failed, Ending::NotStarted))), (1, 0), "the retry could not be started");
        assert_eq!(used(1, 1, Some((JobState::Lost, Ending::WorkerLost))), (1, 0));
        assert_eq!(used(1, 1, Some((JobState::Lost, Ending::TimedOut))), (1, 0), "in doubt");
        assert_eq!(used(0, 1, Some((JobState::Failed, Ending::Failed))), (0, 0), "in doubt, and `on_lost` is `fail`");
        assert_eq!(
            used(0, 0, Some((JobState::Deleted, Ending::Failed))),
            (0, 0),
            "deleted after a rerun was asked for"
        );
    }
}
