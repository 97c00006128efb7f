//! Checks of what users send. Each refusal says where and what to do.

mod binary;
mod command;
mod environment;
mod http;
mod messages;

use punctual_api::{FieldCode, limits};
use punctual_core::json::depth;
use punctual_core::run::{FACT_NAMES, WorkflowRun, check_placeholders, secrets_in};
use punctual_core::secret::TASK_SECRETS_MAX;
use punctual_core::task::{Handler, Probe, Run, TaskSpec};
use punctual_core::{Span, characters};

use crate::faults::Faults;
use crate::{AppError, Result, TaskLimits};

pub use messages::check_mail_to;

/// An attempt that needs longer than this is several jobs.
const TIMEOUT_MAX: Span = Span::from_secs(30 * 86_400);

pub(crate) fn name(pointer: &str, value: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let detail = || format!("must be 1 to {} letters, digits, dots, dashes or underscores", limits::NAME_CHARS_MAX);
    if let Some(character) = value.chars().find(|character| !is_allowed(*character)) {
        let detail = format!("{}; {} is none of them", detail(), characters::named(character));
        return Err(AppError::field(pointer, detail).code(FieldCode::ForbiddenCharacter));
    }
    if value.is_empty() || value.len() > limits::NAME_CHARS_MAX {
        let code = if value.is_empty() { FieldCode::InvalidValue } else { FieldCode::TooLong };
        return Err(AppError::field(pointer, detail()).code(code));
    }
    if value.starts_with('.') {
        return Err(AppError::field(pointer, "must not begin with a dot"));
    }
    Ok(())
}

/// A job that every worker gives back must not go round as fast as the store can write.
const START_RETRY_INITIAL_MIN: Span = Span::from_millis(100);

pub(crate) fn spec(spec: &TaskSpec) -> Result<()> {
    let mut faults = Faults::default();
    faults.check(name("/queue", &spec.queue));
    faults.check(labels(spec));
    retries(spec, &mut faults);
    if spec.timeout == Span::ZERO || spec.timeout > TIMEOUT_MAX {
        let error = AppError::field("/timeout", "must be more than 0 and at most 30 days");
        faults.check(Err(error.code(FieldCode::OutOfRange)));
    }
    if spec.queue_timeout == Some(Span::ZERO) {
        let error = AppError::field("/queue_timeout", "must be more than 0; leave it out for no limit");
        faults.check(Err(error.code(FieldCode::OutOfRange)));
    }
    spec.run.clone().each_text(|pointer, _, text| faults.check(placeholders(pointer, text)));
    faults.check(secrets(&spec.run));
    faults.check(match &spec.run {
        Run::Binary(call) => binary::check(call),
        Run::Http(call) => http::check(call),
        Run::Email(mail) => messages::email(mail),
        Run::Slack(message) => messages::slack(message),
        Run::Telegram(message) => messages::telegram(message),
        Run::Probe(settings) => probe(settings),
        Run::Handler(Handler { name: handler }) => name("/run/handler/name", handler),
        Run::Workflow(WorkflowRun { name: workflow, version: _ }) => name("/run/workflow/name", workflow),
        Run::Command(line) => command::check(line),
    });
    if faults.is_empty() {
        faults.check(size(spec));
    }
    faults.finish()
}

/// Secrets go where only the program and the receiver see them.
fn secrets(run: &Run) -> Result<()> {
    const ARGUMENTS: &str = "/run/binary/args";
    let places = run.secret_places();
    if let Some((place, name)) = places.iter().find(|(place, _)| place == ARGUMENTS) {
        let detail = format!("must not refer to the secret {name}: all users of a machine see arguments of processes");
        return Err(AppError::field(place.clone(), detail).hint("put it into `env`"));
    }
    if run.secrets().len() > TASK_SECRETS_MAX {
        let detail = format!("must refer to at most {TASK_SECRETS_MAX} secrets");
        return Err(
            AppError::too_long("/run", detail).hint("keep what belongs together as one secret, such as in JSON")
        );
    }
    Ok(())
}

fn retries(spec: &TaskSpec, faults: &mut Faults) {
    let policies = [("/retry", &spec.retry), ("/node_retry", &spec.node_retry), ("/start_retry", &spec.start_retry)];
    for (pointer, policy) in policies {
        faults.check(policy.check().map_err(|detail| AppError::field(pointer, detail).code(FieldCode::OutOfRange)));
    }
    let without_classes = [
        ("/node_retry/except", &spec.node_retry, "must be empty: the loss of a worker is no failure of a class"),
        ("/start_retry/except", &spec.start_retry, "must be empty: a job that was given back has not failed"),
    ];
    for (pointer, policy, detail) in without_classes {
        if !policy.except.is_empty() {
            faults.check(Err(AppError::field(pointer, detail).hint("write it into retry")));
        }
    }
    if spec.start_retry.initial < START_RETRY_INITIAL_MIN {
        let detail = format!("must be at least {START_RETRY_INITIAL_MIN}");
        faults.check(Err(AppError::field("/start_retry/initial", detail).code(FieldCode::OutOfRange)));
    }
}

/// What this server's settings limit, beside what holds everywhere.
pub(crate) fn within(spec: &TaskSpec, limits: TaskLimits) -> Result<()> {
    let TaskLimits { retries_max, timeout_max } = limits;
    let mut faults = Faults::default();
    for (pointer, policy) in [("/retry/max", &spec.retry), ("/node_retry/max", &spec.node_retry)] {
        if policy.max > retries_max {
            let error = AppError::field(pointer, format!("must be at most {retries_max}"));
            faults.check(Err(error.code(FieldCode::OutOfRange).hint("the server's setting retries_max limits it")));
        }
    }
    if spec.timeout > timeout_max {
        let error = AppError::field("/timeout", format!("must be at most {timeout_max}"));
        faults.check(Err(error.code(FieldCode::OutOfRange).hint("the server's setting timeout_max limits it")));
    }
    faults.finish()
}

/// The parts have limits of their own; escapes can make the whole larger than their sum.
fn size(spec: &TaskSpec) -> Result<()> {
    let json = serde_json::to_vec(spec).expect("a task spec is JSON");
    if json.len() > limits::SPEC_BYTES_MAX {
        let detail = format!("the definition must be at most {} bytes of JSON", limits::SPEC_BYTES_MAX);
        return Err(AppError::too_long("/run", detail).hint("pass large data as the job's input, or by its address"));
    }
    Ok(())
}

fn labels(spec: &TaskSpec) -> Result<()> {
    if spec.labels.len() > limits::LABELS_MAX {
        return Err(AppError::too_long("/labels", format!("must be at most {}", limits::LABELS_MAX)));
    }
    let mut faults = Faults::default();
    for (key, value) in &spec.labels {
        faults.check(name("/labels", key));
        faults.check(text("/labels", value, limits::LABEL_CHARS_MAX));
    }
    faults.finish()
}

/// One line of text that looks like what it is, such as a name: no two of them look alike.
pub(crate) fn text(pointer: &str, value: &str, chars_max: usize) -> Result<()> {
    without(pointer, value, chars_max, characters::misleading(value))
}

/// One line of text that hides nothing, such as what a program is started with.
pub(crate) fn argument(pointer: &str, value: &str, chars_max: usize) -> Result<()> {
    without(pointer, value, chars_max, value.chars().find(|character| characters::is_misleading(*character)))
}

fn without(pointer: &str, value: &str, chars_max: usize, misleading: Option<char>) -> Result<()> {
    if value.chars().count() > chars_max {
        let error = AppError::field(pointer, format!("must be at most {chars_max} characters"));
        return Err(error.code(FieldCode::TooLong));
    }
    match misleading {
        Some(character) => {
            let detail = format!("must not contain {}", characters::named(character));
            Err(AppError::field(pointer, detail).code(FieldCode::ForbiddenCharacter))
        }
        None => Ok(()),
    }
}

/// One line of text for people, such as the subject of a mail: emoji and some scripts need joiners and marks.
pub(crate) fn line(pointer: &str, value: &str, chars_max: usize) -> Result<()> {
    let without_joiners: String = value.chars().filter(|c| !('\u{200c}'..='\u{200f}').contains(c)).collect();
    argument(pointer, &without_joiners, chars_max)
}

/// The name of a file, with spaces of any kind: some systems write a narrow one into the names that they make.
pub(crate) fn file_name(pointer: &str, value: &str, chars_max: usize) -> Result<()> {
    let is_space = |c: char| characters::is_blank(c) && c != characters::BRAILLE_BLANK;
    let plain: String = value.chars().map(|c| if is_space(c) { ' ' } else { c }).collect();
    text(pointer, &plain, chars_max)
}

fn probe(probe: &Probe) -> Result<()> {
    if probe.output.as_ref().is_some_and(|output| output.len() > limits::HTTP_BODY_BYTES_MAX) {
        let detail = format!("must be at most {} bytes", limits::HTTP_BODY_BYTES_MAX);
        return Err(AppError::too_long("/run/probe/output", detail));
    }
    Ok(())
}

/// A job's input: any JSON, within limits of size and depth.
pub(crate) fn input(json: &str) -> Result<()> {
    if json.len() > limits::INPUT_BYTES_MAX {
        let detail = format!("must be at most {} bytes", limits::INPUT_BYTES_MAX);
        return Err(AppError::too_long("/input", detail).hint("put large data into a file and pass its address"));
    }
    placeholders("/input", json)?;
    if let Some(name) = secrets_in(json).first() {
        let detail = format!("must not refer to the secret {name}: only definitions of tasks may");
        return Err(AppError::field("/input", detail).hint("whoever submits jobs would get the secret"));
    }
    if depth(json.as_bytes()) > limits::JSON_DEPTH_MAX {
        let detail = format!("must be nested at most {} deep", limits::JSON_DEPTH_MAX);
        return Err(AppError::too_long("/input", detail));
    }
    Ok(())
}

fn placeholders(pointer: &str, text: &str) -> Result<()> {
    check_placeholders(text).map_err(|detail| {
        AppError::field(pointer, detail).hint(format!("known are punctual.{}", FACT_NAMES.join(", punctual.")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::attempt::FailureClass;
    use punctual_core::task::HttpCall;

    #[test]
    fn names_that_would_be_trouble_in_paths_and_lists_are_refused() {
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "ä", "a\n", &"x".repeat(129)] {
            assert!(name("/name", bad).is_err(), "{bad:?}");
        }
        for good in ["a", "nightly-report", "etl.v2_x", &"x".repeat(128)] {
            assert!(name("/name", good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn only_failures_have_classes_that_are_not_retried() {
        let mut task = TaskSpec::new(Run::Http(HttpCall::new("https://example.com/hook")));
        task.retry.except = vec![FailureClass::Limit].into();
        assert!(spec(&task).is_ok());
        task.node_retry.except = vec![FailureClass::Limit].into();
        let refused = spec(&task).unwrap_err();
        assert_eq!(refused.errors[0].pointer, "/node_retry/except");
    }

    #[test]
    fn waits_after_a_give_back_have_a_least() {
        let mut task = TaskSpec::new(Run::Http(HttpCall::new("https://example.com/hook")));
        task.start_retry.max = 0;
        assert!(spec(&task).is_ok());
        task.start_retry.initial = Span::from_millis(99);
        assert_eq!(spec(&task).unwrap_err().errors[0].pointer, "/start_retry/initial");
        task.start_retry = Default::default();
        task.start_retry.except = vec![FailureClass::Environment].into();
        assert_eq!(spec(&task).unwrap_err().errors[0].pointer, "/start_retry/except");
    }
}
