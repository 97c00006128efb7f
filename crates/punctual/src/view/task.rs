//! What a task looks like in a table and in detail.

use std::fmt::Write as _;

use comfy_table::Cell;
use punctual_api::{TaskView, make_durations_friendly};
use punctual_core::Timestamp;
use punctual_core::attempt::FailureClass;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{Command, Email, WorkflowRun, default_grace};
use punctual_core::task::{HttpCall, Probe, Run, TaskSpec, default_http_timeout};

use super::{Detail, one_line, quoted, word};
use crate::output::{Format, Output, Row, counted};
use crate::table::Yield;

impl Row for TaskView {
    const HEADER: &'static [&'static str] = &["NAME", "KIND", "QUEUE", "REVISION", "UPDATED", "RUNS"];
    const YIELDS: &'static [Yield] = &[
        Yield::Cut("RUNS", 30),
        Yield::ShortTimes,
        Yield::Drop("KIND"),
        Yield::Drop("REVISION"),
        Yield::Cut("RUNS", 16),
        Yield::Drop("UPDATED"),
        Yield::Drop("QUEUE"),
        Yield::Drop("RUNS"),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(self.spec.run.kind()),
            Cell::new(&self.spec.queue),
            Cell::new(self.revision),
            Cell::new(out.time(self.updated_at)),
            Cell::new(one_line(&run_summary(&self.spec.run))),
        ]
    }
}

/// What a task runs, in a few words.
pub(crate) fn run_summary(run: &Run) -> String {
    match run {
        Run::Binary(binary) => {
            let args = binary.args.iter().map(|arg| quoted(arg));
            std::iter::once(binary.artifact.to_string()).chain(args).collect::<Vec<_>>().join(" ")
        }
        Run::Http(call) => format!("{} {}", call.method.as_str(), call.url),
        Run::Email(mail) => format!("to {}", mail.to.join(", ")),
        // The address is a secret.
        Run::Slack(message) if message.is_address() => "to a Slack channel".to_owned(),
        Run::Slack(message) => format!("to Slack {}", message.webhook),
        Run::Telegram(message) => format!("to Telegram {} by {}", message.chat, message.bot),
        Run::Probe(probe) => probe_words(probe),
        Run::Handler(handler) => handler.name.clone(),
        Run::Command(command) => command_words(command),
        Run::Workflow(WorkflowRun { name, version: None }) => name.clone(),
        Run::Workflow(WorkflowRun { name, version: Some(version) }) => format!("{name} version {version}"),
    }
}

/// What is not at its default, as it was written.
fn probe_words(probe: &Probe) -> String {
    let fields = |probe: &Probe| {
        let mut probe = serde_json::to_value(probe).unwrap_or_default();
        make_durations_friendly(&mut probe);
        match probe {
            serde_json::Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        }
    };
    let usual = fields(&Probe::default());
    let mut fields = fields(probe);
    fields.retain(|name, value| usual.get(name) != Some(value));
    serde_json::Value::Object(fields).to_string()
}

/// The line, or the name and the length of a script.
fn command_words(command: &Command) -> String {
    let lines = command.line.lines().filter(|line| !line.trim().is_empty()).count();
    match &command.name {
        Some(name) => format!("{} ({})", one_line(name), counted(lines, "line")),
        None if lines > 1 => {
            let is_comment = |line: &&str| line.trim_start().starts_with('#') || line.trim().is_empty();
            let first = command.line.lines().find(|line| !is_comment(line)).unwrap_or_default();
            format!("{} … ({lines} lines)", one_line(first))
        }
        None => one_line(&command.line),
    }
}

/// Adds what a task runs; a script of several lines is shown as it is.
pub(super) fn runs_lines(text: &mut Detail, run: &Run, words: &str) {
    /// Longer scripts are read in their JSON.
    const LINES_MAX: usize = 40;
    text.line("runs", words);
    let Run::Command(command) = run else { return };
    let lines: Vec<&str> = command.line.lines().collect();
    if lines.len() < 2 && command.name.is_none() {
        return;
    }
    let shown = &lines[..lines.len().min(LINES_MAX)];
    text.block("script", &shown.join("\n"));
    if lines.len() > shown.len() {
        text.line("", format!("{}; all of them: -o json", counted(lines.len() - shown.len(), "more line")));
    }
}

pub(crate) fn task(out: &Output, task: &TaskView) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(task),
        Format::Name => out.line(&task.name),
        Format::Table => out.write(&task_text(out, task)),
    }
}

/// Everything that is not at its default, and what is asked for most.
fn task_text(out: &Output, task: &TaskView) -> String {
    let spec = &task.spec;
    let usual = TaskSpec::new(spec.run.clone());
    let mut text = Detail::new(&format!("{}  revision {}", task.name, task.revision), 15);
    text.line("id", task.id);
    runs_lines(&mut text, &spec.run, &format!("{} ({})", run_summary(&spec.run), spec.run.kind()));
    match &spec.run {
        Run::Http(call) => http_lines(&mut text, call),
        Run::Email(mail) => email_lines(&mut text, mail),
        Run::Slack(message) => text.optional("text", message.text.as_ref()),
        Run::Telegram(message) => text.optional("text", message.text.as_ref()),
        Run::Command(command) => command_lines(&mut text, command),
        Run::Binary(_) | Run::Probe(_) | Run::Handler(_) | Run::Workflow(_) => {}
    }
    for file in spec.run.files() {
        text.line("file", format!("{} ({})", file.name, file.artifact));
    }
    text.line("queue", &spec.queue);
    for (key, value) in &spec.labels {
        text.line("label", format!("{key}={value}"));
    }
    text.line("priority", spec.priority.get());
    text.line("retries", retries(&spec.retry, &usual.retry));
    if spec.node_retry != usual.node_retry {
        text.line("worker lost", retries(&spec.node_retry, &usual.node_retry));
    }
    if spec.start_retry != usual.start_retry {
        text.line("given back", retries(&spec.start_retry, &usual.start_retry));
    }
    text.line("timeout", spec.timeout);
    if let Some(limit) = spec.queue_timeout {
        text.line("queue timeout", limit);
    }
    if spec.delivery != usual.delivery {
        text.line("delivery", word(spec.delivery));
    }
    if spec.on_lost != usual.on_lost {
        text.line("on lost", word(spec.on_lost));
    }
    text.line("created", done_by(out, task.created_at, task.created_by.as_deref()));
    text.line("updated", done_by(out, task.updated_at, task.changed_by.as_deref()));
    text.text
}

/// Of tasks that are older than this record nobody knows who made them.
fn done_by(out: &Output, at: Timestamp, who: Option<&str>) -> String {
    let by = who.map(|who| format!(" by {}", one_line(who))).unwrap_or_default();
    format!("{}{by}", out.zone.show(at))
}

fn http_lines(text: &mut Detail, call: &HttpCall) {
    let codes = |codes: &[u16]| codes.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    for (name, value) in &call.headers {
        text.line("header", format!("{name}: {value}"));
    }
    text.optional("body", call.body.as_ref());
    if !call.expect_status.is_empty() {
        text.line("expects", codes(&call.expect_status));
    }
    text.optional("expects body", call.expect_body.as_ref());
    if !call.retry_status.is_empty() {
        text.line("retries on", codes(&call.retry_status));
    }
    if call.follow_redirects > 0 {
        let body = if call.forward_body { ", with the body to any origin" } else { "" };
        text.line("redirects", format!("at most {}{body}", call.follow_redirects));
    }
    text.optional("signed with", call.sign_with.as_ref());
    if call.timeout != default_http_timeout() {
        text.line("request timeout", call.timeout);
    }
}

/// Values of the environment and standard input may be secrets.
fn command_lines(text: &mut Detail, command: &Command) {
    text.optional("shell", command.shell.as_ref());
    text.optional("directory", command.directory.as_ref());
    for name in command.environment.keys() {
        text.line("environment", format!("{name}=***"));
    }
    if let Some(stdin) = &command.stdin {
        text.line("stdin", format!("{} bytes", stdin.len()));
    }
    if command.grace != default_grace() {
        text.line("grace", command.grace);
    }
}

fn email_lines(text: &mut Detail, mail: &Email) {
    text.line("subject", &mail.subject);
    for (name, addresses) in [("cc", &mail.cc), ("bcc", &mail.bcc)] {
        if !addresses.is_empty() {
            text.line(name, addresses.join(", "));
        }
    }
    text.optional("reply to", mail.reply_to.as_ref());
    text.optional("text", mail.text.as_ref());
    text.optional("html", mail.html.as_ref());
}

fn retries(policy: &RetryPolicy, usual: &RetryPolicy) -> String {
    let mut text = format!("{}, first after {}", policy.max, policy.initial);
    if policy.factor != usual.factor {
        let _ = write!(text, ", each wait {} times the one before", policy.factor);
    }
    if policy.cap != usual.cap {
        let _ = write!(text, ", at most {}", policy.cap);
    }
    if policy.jitter != usual.jitter {
        let _ = write!(text, ", jitter {}", policy.jitter);
    }
    if !policy.except.is_empty() {
        let classes: Vec<&str> = Vec::from(policy.except).into_iter().map(FailureClass::as_str).collect();
        let _ = write!(text, ", except after {}", classes.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_runs_is_shown_as_it_was_written() {
        for (run, expected) in [
            (r#"{"probe":{}}"#, "{}"),
            (r#"{"probe":{"sleep":"1s","output":"hi","crash":false}}"#, r#"{"output":"hi","sleep":"1s"}"#),
            (
                r#"{"binary":{"artifact":"artifact_01m7et433kee4803yssgvaf2fh","args":["--flag","two words","it's",""]}}"#,
                r"artifact_01m7et433kee4803yssgvaf2fh --flag 'two words' 'it'\''s' ''",
            ),
            (r#"{"command":{"line":"df -h"}}"#, "df -h"),
            (r##"{"command":{"line":"#!/bin/sh\necho multi\necho line\n"}}"##, "echo multi … (3 lines)"),
            (r##"{"command":{"line":"#!/bin/sh\necho multi\n","name":"sc.sh"}}"##, "sc.sh (2 lines)"),
        ] {
            assert_eq!(run_summary(&serde_json::from_str(run).unwrap()), expected);
        }
        let mut text = Detail::new("job", 4);
        let script = "#!/bin/sh\necho one\n  echo two\n";
        let run = Run::Command(Command { name: Some("sc.sh".to_owned()), ..Command::new(script) });
        runs_lines(&mut text, &run, "sc.sh");
        assert_eq!(text.text, "job\n  runs sc.sh\n  script\n    #!/bin/sh\n    echo one\n      echo two\n");
        let mut text = Detail::new("job", 4);
        runs_lines(&mut text, &Run::Command(Command::new("x\n".repeat(100))), "x");
        assert!(text.text.ends_with("60 more lines; all of them: -o json\n"), "{}", text.text);
    }

    #[test]
    fn a_task_is_shown_with_everything_that_is_not_usual() {
        let view = |spec: &str| -> TaskView {
            serde_json::from_str(&format!(
                r#"{{"id":"task_01m7et433kee4803yssgvaf2fh","name":"ping","revision":3,
                    "created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-02T00:00:00Z","spec":{spec}}}"#
            ))
            .unwrap()
        };
        let usual = view(r#"{"run":{"http":{"url":"http://h/"}}}"#);
        let full = view(
            r#"{"run":{"http":{"url":"http://h/","method":"POST","headers":{"A":"b"},"body":"hi","timeout":"5s",
                "expect_status":[200,404]}},"queue":"mail","labels":{"zone":"eu"},"priority":5,
                "retry":{"max":9,"cap":"1h","except":["limit","network"]},"node_retry":{"max":1},"start_retry":{"max":5},
                "timeout":"1h2m3s","queue_timeout":"1d",
                "delivery":"exactly_once","on_lost":"rerun"}"#,
        );
        let out = Output::plain(None);
        insta::assert_snapshot!(format!("{}\n{}", task_text(&out, &usual), task_text(&out, &full)));
        let command = view(
            r#"{"run":{"command":{"line":"a\n\u001b[2Jb","shell":"/bin/bash","directory":"/srv","stdin":"s3cret",
                "environment":{"PGPASSWORD":"s3cret"},"grace":"1m"}}}"#,
        );
        let shown = task_text(&out, &command);
        for line in [
            "runs            a … (2 lines) (command)",
            "    a\n     [2Jb\n",
            "shell           /bin/bash",
            "directory       /srv",
            "environment     PGPASSWORD=***",
            "stdin           6 bytes",
            "grace           1m",
        ] {
            assert!(shown.contains(line) && !shown.contains("s3cret"), "{line}: {shown}");
        }
    }
}
