//! A task in flags, for `task apply` and one-off jobs.

mod binary;
mod message;
mod request;
mod sparse;
mod target;

use std::path::Path;

use clap::Args;
use punctual_api::not_json;
use punctual_client::ClientError;
use punctual_core::Span;
use punctual_core::attempt::FailureClass;
use punctual_core::retry::FailureClasses;
use punctual_core::run::{Command, WorkflowRun};
use punctual_core::task::{DeliveryMode, Handler, OnLost, Priority, Probe, Run, TaskSpec};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::exit::usage;
use crate::input::{misfit, text_or_file};
use crate::when::{parse_span, whole};
use message::MessageFlags;
use request::{Means, RequestFlags};

pub(crate) use binary::BinaryFlags;
pub(crate) use sparse::{Unset, sparse, with_inline};
pub(crate) use target::{Target, TargetFlags, nothing_to_run, read_input};

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "What to run")]
pub(crate) struct SpecFlags {
    /// Call this address
    #[arg(long, value_name = "URL", groups = ["what", "request"])]
    http: Option<String>,
    /// GET this address, and nothing more
    #[arg(long, value_name = "URL", groups = ["what", "request"])]
    ping: Option<String>,
    /// POST the body or the job's input to this address
    #[arg(long, value_name = "URL", groups = ["what", "request"])]
    webhook: Option<String>,
    /// Send a mail to this address; may be repeated
    #[arg(long, value_name = "ADDRESS", groups = ["what", "message"], requires = "subject")]
    email: Vec<String>,
    /// Post to a Slack channel: a name from the worker's settings, or the address of a webhook
    #[arg(long, value_name = "NAME", groups = ["what", "message"])]
    slack: Option<String>,
    /// Send a message by a Telegram bot to this chat: its id, or the name of a public channel, such as @news
    #[arg(long, value_name = "CHAT", groups = ["what", "message"], allow_hyphen_values = true)]
    telegram: Option<String>,
    /// Sleep, print or fail on demand, for trying things out: '{"sleep":"1s","output":"hi"}'.
    /// Fields: sleep (a time), fail_times (the first so many attempts fail), output (a text),
    /// report_time (true: output the worker's clock), witness (a file to append to), crash (true: kill
    /// the whole worker process, and in `punctual dev` the server with it)
    #[arg(long, value_name = "JSON", group = "what")]
    probe: Option<String>,
    /// Call this function of a worker of your own
    #[arg(long, value_name = "NAME", group = "what")]
    handler: Option<String>,
    /// Have a shell run this on the worker's own machine, outside of the sandbox, as the worker's user: a line, @file,
    /// or - for stdin. Only workers with --allow-commands do
    #[arg(long, value_name = "LINE", group = "what")]
    command: Option<String>,
    /// Run this workflow. It is not tried again when it fails, unless --retries says so
    #[arg(long, value_name = "NAME", group = "what")]
    workflow: Option<String>,
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    message: MessageFlags,
    #[command(flatten)]
    rules: Rules,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Rules")]
struct Rules {
    /// Attempts after the first [default: 3]
    #[arg(long, value_name = "N", value_parser = whole::<u16, 0, 1000>)]
    retries: Option<u16>,
    /// The wait before the first retry; it doubles each time [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    retry_wait: Option<Span>,
    /// Failures that are not retried: task, network, limit, timeout or environment; several with commas
    #[arg(long, value_name = "CLASSES", value_delimiter = ',', value_parser = word::<FailureClass>)]
    retry_except: Vec<FailureClass>,
    /// The longest time that an attempt may run [default: 20m]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    timeout: Option<Span>,
    /// Fail a job that has not started this long after it was due
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    queue_timeout: Option<Span>,
    /// The queue that workers serve [default: default]
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// A label that a worker must carry, as key=value; may be repeated
    #[arg(long = "label", value_name = "LABEL")]
    labels: Vec<String>,
    /// at_least_once, at_most_once or exactly_once [default: at_least_once]
    #[arg(long, value_name = "MODE", value_parser = word::<DeliveryMode>)]
    delivery: Option<DeliveryMode>,
    /// What becomes of an exactly_once job in doubt: hold, fail or rerun [default: hold]
    #[arg(long, value_name = "POLICY", value_parser = word::<OnLost>)]
    on_lost: Option<OnLost>,
}

/// Whether the job comes with an input, which a request without a body would drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobInput {
    None,
    Given,
}

/// Reads one of the words that the wire format knows. Hyphens are taken for underscores: flags have them.
pub(crate) fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let written = Value::String(text.replace('-', "_"));
    serde_json::from_value(written).map_err(|error| {
        // `unknown variant `a`, expected one of `b`, `c``
        let message = error.to_string();
        let known: Vec<String> = message.split('`').skip(3).step_by(2).map(str::to_owned).collect();
        match &known[..] {
            [] => message,
            [only] => format!("`{text}` is not known; write {only}"),
            [others @ .., last] => format!("`{text}` is not known; write {} or {last}", others.join(", ")),
        }
    })
}

/// Reads a priority, from -100 to 100.
pub(crate) fn priority(text: &str) -> Result<Priority, String> {
    text.parse().ok().and_then(Priority::new).ok_or_else(|| format!("must be {}", Priority::EXPECTED))
}

impl SpecFlags {
    /// Whether any of them was written.
    pub(crate) fn are_given(&self) -> bool {
        self.name_a_run() || self.rules.are_given()
    }

    /// Whether it is a line for a shell.
    pub(crate) fn is_command(&self) -> bool {
        self.command.is_some()
    }

    pub(crate) fn name_a_run(&self) -> bool {
        let Self { http, ping, webhook, email, slack, telegram, probe, handler, command, workflow, .. } = self;
        let texts = [http, ping, webhook, slack, telegram, probe, handler, command, workflow];
        texts.into_iter().any(Option::is_some) || !email.is_empty()
    }

    /// Names the flag that was typed for an address in place of `--http`, of which the others are short forms.
    pub(crate) fn in_typed(&self, mut error: ClientError) -> ClientError {
        let typed = match (&self.ping, &self.webhook) {
            (Some(_), _) => "--ping",
            (None, Some(_)) => "--webhook",
            (None, None) => return error,
        };
        if let ClientError::Problem(problem) = &mut error {
            for field in problem.errors.iter_mut().filter(|field| field.pointer == "--http") {
                typed.clone_into(&mut field.pointer);
            }
        }
        error
    }

    /// The task that the flags describe; `None` when they do not say what to run.
    pub(crate) fn spec(&self, input: JobInput) -> anyhow::Result<Option<TaskSpec>> {
        let run = if let Some(url) = &self.http {
            Run::Http(self.request.call(url, Means::AsTold, input)?)
        } else if let Some(url) = &self.ping {
            Run::Http(self.request.call(url, Means::Ping, input)?)
        } else if let Some(url) = &self.webhook {
            Run::Http(self.request.call(url, Means::Webhook, input)?)
        } else if !self.email.is_empty() {
            Run::Email(self.message.email(&self.email)?)
        } else if let Some(webhook) = &self.slack {
            Run::Slack(self.message.slack(webhook)?)
        } else if let Some(chat) = &self.telegram {
            Run::Telegram(self.message.telegram(chat)?)
        } else if let Some(probe) = &self.probe {
            Run::Probe(read_probe(&text_or_file(probe)?)?)
        } else if let Some(name) = &self.handler {
            Run::Handler(Handler { name: name.clone() })
        } else if let Some(line) = &self.command {
            Run::Command(Command { name: script_name(line), ..Command::new(text_or_file(line)?) })
        } else if let Some(name) = &self.workflow {
            Run::Workflow(WorkflowRun { name: name.clone(), version: None })
        } else {
            return Ok(None);
        };
        self.task_of(run).map(Some)
    }

    /// The rules that no flag sets. Those after the loss of a worker have none.
    pub(crate) fn unset(&self) -> Unset {
        let Rules { retries, retry_wait, retry_except, timeout, .. } = &self.rules;
        let retry = retries.is_none() && retry_wait.is_none() && retry_except.is_empty() && self.workflow.is_none();
        Unset { timeout: timeout.is_none(), retry, node_retry: true, priority: true }
    }

    /// A task that runs `run` by the rules of these flags.
    pub(crate) fn task_of(&self, run: Run) -> anyhow::Result<TaskSpec> {
        let mut spec = TaskSpec::new(run);
        if self.workflow.is_some() {
            spec.retry.max = 0;
        }
        self.rules.apply(&mut spec)?;
        Ok(spec)
    }
}

/// A script is called by its file: its first line is mostly that of its interpreter.
fn script_name(argument: &str) -> Option<String> {
    let name = Path::new(argument.strip_prefix('@')?).file_name()?.to_str()?;
    (!name.is_empty() && !name.chars().any(char::is_control)).then(|| name.to_owned())
}

fn read_probe(text: &str) -> anyhow::Result<Probe> {
    const HINT: &str = "write it like '{\"sleep\":\"1s\",\"output\":\"hi\"}'; the fields are sleep, fail_times, \
                        output, report_time, witness and crash";
    let value: Value = serde_json::from_str(text)
        .map_err(|error| usage(format!("--probe is not JSON ({}): {}", not_json(&error), text.trim()), HINT))?;
    if !value.is_object() {
        return Err(usage(format!("--probe is not a JSON object: {}", text.trim()), HINT));
    }
    serde_json::from_value(value).map_err(|error| usage(format!("--probe: {}", misfit(&error)), HINT))
}

impl Rules {
    fn are_given(&self) -> bool {
        self.retries.is_some()
            || self.retry_wait.is_some()
            || !self.retry_except.is_empty()
            || self.timeout.is_some()
            || self.queue_timeout.is_some()
            || self.queue.is_some()
            || !self.labels.is_empty()
            || self.delivery.is_some()
            || self.on_lost.is_some()
    }

    fn apply(&self, spec: &mut TaskSpec) -> anyhow::Result<()> {
        spec.retry.max = self.retries.unwrap_or(spec.retry.max);
        spec.retry.initial = self.retry_wait.unwrap_or(spec.retry.initial);
        spec.retry.except = FailureClasses::from(self.retry_except.clone());
        spec.timeout = self.timeout.unwrap_or(spec.timeout);
        spec.queue_timeout = self.queue_timeout;
        spec.delivery = self.delivery.unwrap_or_default();
        spec.on_lost = self.on_lost.unwrap_or_default();
        if let Some(queue) = &self.queue {
            spec.queue.clone_from(queue);
        }
        for label in &self.labels {
            let (key, value) = label
                .split_once('=')
                .ok_or_else(|| usage(format!("--label: `{label}` has no equals sign"), "write it like zone=eu"))?;
            spec.labels.insert(key.to_owned(), value.to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_flags::{OF_JOBS, in_flags};
    use clap::Parser;
    use punctual_core::task::Method;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        flags: SpecFlags,
    }

    fn spec(args: &[&str]) -> Result<Value, String> {
        let parsed = Only::try_parse_from([&["x"], args].concat()).map_err(|error| error.to_string())?;
        let spec = parsed.flags.spec(JobInput::None).map_err(|error| error.to_string())?;
        Ok(serde_json::to_value(spec).unwrap())
    }

    #[test]
    fn flags_become_the_task_that_they_describe() {
        let args = "--http http://h/ --method put -H A:b --expect-status 200,404 --retries 5 --timeout 30s \
                    --retry-except timeout,network --queue q --label zone=eu --delivery exactly-once --queue-timeout 1d";
        let spec = spec(&args.split_whitespace().collect::<Vec<_>>()).unwrap();
        insta::assert_snapshot!(serde_json::to_string_pretty(&spec).unwrap());
    }

    #[test]
    fn a_call_with_a_body_is_a_post() {
        let spec = spec(&["--http", "http://h/", "--body", "hello"]).unwrap();
        assert_eq!(spec["run"]["http"]["method"], "POST");
        assert_eq!(spec["run"]["http"]["body"], "hello");
    }

    #[test]
    fn an_error_in_an_address_names_the_flag_that_was_typed() {
        for (typed, named) in [("--http", "--http"), ("--ping", "--ping"), ("--webhook", "--webhook")] {
            let flags = Only::parse_from(["x", typed, "http://h/{{ punctual.nope }}"]).flags;
            let problem: punctual_api::Problem = serde_json::from_value(serde_json::json!({
                "type": "", "title": "", "status": 400, "detail": "", "code": "invalid_request", "request_id": "",
                "retryable": false, "errors": [{ "pointer": "/inline/run/http/url", "detail": "is wrong" }],
            }))
            .unwrap();
            let error = in_flags(ClientError::Problem(Box::new(problem)), OF_JOBS);
            let ClientError::Problem(problem) = flags.in_typed(error) else { panic!("it is a problem") };
            assert_eq!(problem.errors[0].pointer, named);
        }
    }

    #[test]
    fn what_is_sent_has_flags_of_its_own() {
        for (args, run) in [
            (&["--ping", "http://h/"][..], r#"{"http":{"method":"GET","timeout":"PT30S","url":"http://h/"}}"#),
            (
                &["--webhook", "http://h/", "--body", "x", "--sign-with", "ci"],
                r#"{"http":{"body":"x","method":"POST","sign_with":"ci","timeout":"PT30S","url":"http://h/"}}"#,
            ),
            (
                &["--http", "http://h/", "--expect-body", "ok", "--follow-redirects", "3", "--retry-status", "404,503"],
                r#"{"http":{"expect_body":"ok","follow_redirects":3,"method":"GET","retry_status":[404,503],"timeout":"PT30S","url":"http://h/"}}"#,
            ),
            (
                &["--email", "a@x.de", "--email", "b@x.de", "--cc", "c@x.de", "--subject", "s", "--text", "t"],
                r#"{"email":{"cc":["c@x.de"],"subject":"s","text":"t","to":["a@x.de","b@x.de"]}}"#,
            ),
            (&["--slack", "ops", "--text", "t"], r#"{"slack":{"text":"t","webhook":"ops"}}"#),
            (
                &["--telegram", "-100", "--bot", "ops", "--text", "t", "--parse-mode", "markdown_v2", "--silent"],
                r#"{"telegram":{"bot":"ops","chat":"-100","parse_mode":"markdown_v2","silent":true,"text":"t"}}"#,
            ),
            (
                &["--command", "pg_dump shop | gzip > shop.gz"],
                r#"{"command":{"grace":"PT10S","line":"pg_dump shop | gzip > shop.gz"}}"#,
            ),
        ] {
            assert_eq!(spec(args).unwrap()["run"].to_string(), run);
        }
    }

    #[test]
    fn a_script_is_called_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("sc.sh");
        std::fs::write(&script, "#!/bin/sh\necho hi\n").unwrap();
        let spec = spec(&["--command", &format!("@{}", script.display())]).unwrap();
        assert_eq!(spec["run"]["command"]["name"], "sc.sh");
        assert_eq!(spec["run"]["command"]["line"], "#!/bin/sh\necho hi\n");
    }

    #[test]
    fn an_input_is_sent_or_the_command_is_refused() {
        let flags = |method: &[&str]| Only::parse_from([&["x", "--http", "http://h/"], method].concat()).flags;
        let method = |spec: TaskSpec| match spec.run {
            Run::Http(call) => call.method,
            run => panic!("{run:?}"),
        };
        let spec = flags(&[]).spec(JobInput::Given).unwrap().unwrap();
        assert_eq!(method(spec), Method::Post);
        let spec = flags(&[]).spec(JobInput::None).unwrap().unwrap();
        assert_eq!(method(spec), Method::Get);
        let spec = flags(&["--method", "put"]).spec(JobInput::Given).unwrap().unwrap();
        assert_eq!(method(spec), Method::Put);
        let refused = flags(&["--method", "get"]).spec(JobInput::Given).unwrap_err().to_string();
        assert_eq!(refused, "a GET request has no body, so --input would not be sent");
    }

    #[test]
    fn flags_that_make_no_task_are_refused_with_a_reason() {
        for (args, reason) in [
            (&["--http", "u", "--probe", "{}"][..], "cannot be used with"),
            (&["--method", "GET"], "--http"),
            (&["--ping", "u", "--method", "POST"], "cannot be used with"),
            (&["--probe", "{}", "--body", "x"], "cannot be used with"),
            (&["--ping", "u", "--body", "x"], "a ping is a GET request, which has no body"),
            (&["--ping", "u", "--webhook", "u"], "cannot be used with"),
            (&["--email", "a@x.de"], "--subject"),
            (&["--slack", "ops", "--subject", "s", "--text", "t"], "cannot be used with"),
            (&["--http", "u", "--text", "t"], "cannot be used with"),
            (&["--text", "t"], "--email"),
            (&["--http", "u", "--follow-redirects", "11"], "it is not a whole number from 0 to 10"),
            (&["--http", "u", "--method", "SHOUT"], "there is no `SHOUT`"),
            (&["--http", "u", "-H", "nonsense"], "has no colon"),
            (&["--probe", "{\"slep\":\"1s\"}"], "slep"),
            (&["--probe", "hello"], "--probe is not JSON"),
            (&["--probe", "\"hello\""], "--probe is not a JSON object"),
            (&["--http", "u", "--method", "get", "--body", "x"], "a GET request has no body, so --body"),
            (&["--probe", "@/nowhere"], "cannot read /nowhere"),
            (&["--command", "@/nowhere"], "cannot read /nowhere"),
            (&["--command", "date", "--handler", "h"], "cannot be used with"),
            (&["--command", "date", "--body", "x"], "cannot be used with"),
            (&["--command", "date", "--method", "PUT"], "cannot be used with"),
            (&["--command", "date", "--text", "t"], "cannot be used with"),
            (&["--command", "date", "--subject", "s"], "cannot be used with"),
            (&["--http", "u", "--label", "eu"], "has no equals sign"),
            (
                &["--http", "u", "--delivery", "maybe"],
                "`maybe` is not known; write at_least_once, at_most_once or exactly_once",
            ),
            (&["--http", "u", "--retry-except", "task,luck"], "`luck` is not known; write task, "),
            (&["--http", "u", "--timeout", "soon"], "is not a duration"),
        ] {
            let refused = spec(args).expect_err(&args.join(" "));
            assert!(refused.contains(reason), "{refused}");
        }
        assert_eq!(spec(&[]), Ok(Value::Null));
    }
}
