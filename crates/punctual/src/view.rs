//! What tasks, jobs and workers look like in tables and in detail.

use std::fmt::Write as _;

use comfy_table::Cell;
use punctual_api::{Attempt, AttemptDetails, Job, JobSchedule, JobSummary, Rerun, TaskRef, TaskView, WorkerView};
use punctual_core::Span;
use punctual_core::attempt::FailureClass;
use punctual_core::retry::RetryPolicy;
use punctual_core::run::{Command, Email, default_grace};
use punctual_core::task::{HttpCall, Run, TaskSpec, default_http_timeout};

use crate::output::{Format, Output, Row};
use crate::table::Yield;
use crate::world::now;
use crate::zone::{relative, short};

/// What others wrote, without whatever would break a line or steer a terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.split(|letter: char| letter.is_control() || letter.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

impl Row for JobSummary {
    const HEADER: &'static [&'static str] = &["ID", "TASK", "STATE", "TRIES", "DUE", "", "REASON"];
    const YIELDS: &'static [Yield] = &[
        Yield::Cut("REASON", 40),
        Yield::ShortTimes,
        Yield::Cut("REASON", 24),
        Yield::Drop("DUE"),
        Yield::Cut("REASON", 16),
        Yield::Drop("TRIES"),
        Yield::Cut("TASK", 12),
        Yield::Cut("REASON", 12),
        Yield::Drop("REASON"),
        Yield::Cut("TASK", 8),
        Yield::Drop(""),
        Yield::Drop("TASK"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(self.task.name.as_deref().unwrap_or(&self.task.kind)),
            out.state(&self.state),
            Cell::new(self.attempts),
            Cell::new(out.time(self.due_at)),
            Cell::new(out.relative(self.due_at)),
            Cell::new(one_line(&reason(out, self))),
        ]
    }
}

/// Why it is where it is, or why there is such a job at all.
fn reason(out: &Output, job: &JobSummary) -> String {
    match (&job.reason, &job.schedule) {
        (Some(reason), _) => reason.clone(),
        // Its time is in another column.
        (None, Some(schedule)) if schedule.kind == "planned" => "by schedule".to_owned(),
        (None, Some(schedule)) => format!("{} {}", of_kind(&schedule.kind), out.time(schedule.at)),
        (None, None) => "-".to_owned(),
    }
}

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
            Cell::new(one_line(&what(&self.spec.run))),
        ]
    }
}

impl Row for WorkerView {
    const HEADER: &'static [&'static str] = &["ID", "NAME", "STATE", "RUNNING", "QUEUES", "SEEN", "VERSION"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Drop("VERSION"),
        Yield::Cut("QUEUES", 12),
        Yield::Drop("SEEN"),
        Yield::Cut("NAME", 8),
        Yield::Drop("QUEUES"),
        Yield::Drop("RUNNING"),
        Yield::Drop("NAME"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(&self.name),
            Cell::new(&self.state),
            Cell::new(format!("{}/{}", self.running, self.slots)),
            Cell::new(self.queues.join(",")),
            Cell::new(out.relative(self.last_seen_at)),
            Cell::new(&self.version),
        ]
    }
}

/// What a task runs, in a few words.
pub(crate) fn what(run: &Run) -> String {
    match run {
        Run::Binary(binary) => {
            std::iter::once(binary.artifact.to_string()).chain(binary.args.clone()).collect::<Vec<_>>().join(" ")
        }
        Run::Http(call) => format!("{} {}", call.method.as_str(), call.url),
        Run::Email(mail) => format!("to {}", mail.to.join(", ")),
        // The address is a secret.
        Run::Slack(message) if message.is_address() => "to a Slack channel".to_owned(),
        Run::Slack(message) => format!("to Slack {}", message.webhook),
        Run::Probe(probe) => serde_json::to_string(probe).unwrap_or_default(),
        Run::Handler(handler) => handler.name.clone(),
        Run::Command(command) => one_line(&command.line),
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
    text.line("runs", format!("{} ({})", what(&spec.run), spec.run.kind()));
    match &spec.run {
        Run::Http(call) => http_lines(&mut text, call),
        Run::Email(mail) => email_lines(&mut text, mail),
        Run::Slack(message) => text.optional("text", message.text.as_ref()),
        Run::Command(command) => command_lines(&mut text, command),
        Run::Binary(_) | Run::Probe(_) | Run::Handler(_) => {}
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
    text.line("created", out.zone.show(task.created_at));
    text.line("updated", out.zone.show(task.updated_at));
    text.text
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
        text.line("redirects", format!("at most {}", call.follow_redirects));
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

/// As the wire format and the flags write it.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}

pub(crate) fn job(out: &Output, job: &Job) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(job),
        Format::Name => out.line(&job.id.to_string()),
        Format::Table => out.write(&job_text(out, job)),
    }
}

fn job_text(out: &Output, job: &Job) -> String {
    let mut text = Detail::new(&format!("{}  {}", job.id, out.state_text(&job.state)), 11);
    text.line("why", out.zone.localize(&job.explanation));
    text.line("task", task_ref(&job.task));
    text.line("submitted", out.zone.show_millis(job.submitted_at));
    text.line("due", format!("{} ({})", out.zone.show_millis(job.due_at), relative(job.due_at, now())));
    if let Some(at) = job.finished_at {
        text.line("finished", out.zone.show_millis(at));
    }
    if let Some(late_by) = job.late_by {
        text.line("late by", short(late_by));
    }
    if let Some(schedule) = &job.schedule {
        text.line("schedule", job_schedule(out, schedule));
    }
    if let Some(tracing_id) = &job.tracing_id {
        text.line("tracing id", tracing_id);
    }
    for attempt in &job.attempts {
        for rerun in job.reruns.iter().filter(|rerun| rerun.next_attempt == attempt.attempt) {
            text.line("run again", rerun_line(out, rerun));
        }
        text.line(&format!("attempt {}", attempt.attempt), attempt_line(out, attempt));
        let details = attempt.details.as_ref().map(details_line).unwrap_or_default();
        if !details.is_empty() {
            text.line("", details);
        }
        if let Some(path) = &attempt.log_path {
            let bytes = attempt.log_bytes.map(|bytes| format!(" ({bytes} bytes)")).unwrap_or_default();
            text.line("", format!("log {path}{bytes}"));
        }
    }
    let next = job.attempts.last().map_or(1, |attempt| attempt.attempt + 1);
    for rerun in job.reruns.iter().filter(|rerun| rerun.next_attempt >= next) {
        text.line("run again", rerun_line(out, rerun));
    }
    if let Some(input) = &job.input {
        text.line("input", input.get());
    }
    if let Some(output) = &job.output {
        text.line("output", output.get());
    }
    text.text
}

pub(crate) fn task_ref(task: &TaskRef) -> String {
    format!("{} ({}, queue {})", task.name.as_deref().unwrap_or("one-off"), task.kind, task.queue)
}

/// Which schedule made a job, and for which of its times.
fn job_schedule(out: &Output, schedule: &JobSchedule) -> String {
    let name = schedule.name.clone().unwrap_or_else(|| schedule.id.to_string());
    format!("{}, {} {}", one_line(&name), of_kind(&schedule.kind), out.zone.show(schedule.at))
}

/// Goes before the planned time.
fn of_kind(kind: &str) -> &str {
    match kind {
        "planned" => "planned for",
        "replayed" => "replayed for the missed",
        "manual" => "by hand at",
        "backfill" => "filled in for",
        other => other,
    }
}

fn rerun_line(out: &Output, rerun: &Rerun) -> String {
    format!("{}, after it was {}", out.zone.show_millis(rerun.at), rerun.from)
}

fn attempt_line(out: &Output, attempt: &Attempt) -> String {
    let mut line = format!("{}, started {}", attempt.state, out.zone.show_millis(attempt.started_at));
    if let Some(at) = attempt.finished_at {
        let _ = write!(line, ", took {}", short(at.since(attempt.started_at)));
    }
    if let Some(reason) = &attempt.reason {
        let _ = write!(line, ": {reason}");
    }
    line
}

fn details_line(details: &AttemptDetails) -> String {
    let AttemptDetails { class, exit_code, signal, limit, peak_memory_bytes, cpu_us, sandbox, host } = details;
    let cpu = |micros: u64| short(Span::from_micros(i64::try_from(micros).unwrap_or(i64::MAX)).min(Span::MAX));
    let parts = [
        class.as_ref().map(|class| format!("class {}", one_line(class))),
        exit_code.map(|code| format!("exit code {code}")),
        signal.map(|signal| format!("signal {signal}")),
        limit.as_ref().map(|limit| format!("limit {}", one_line(limit))),
        peak_memory_bytes.map(|bytes| format!("peak memory {:.1} MiB", bytes as f64 / f64::from(1 << 20))),
        cpu_us.map(|micros| format!("CPU time {}", cpu(micros))),
        sandbox.as_ref().map(|level| format!("sandbox {}", one_line(level))),
        host.as_ref().map(|host| format!("host {}", one_line(host))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A title and lines of name and value.
pub(crate) struct Detail {
    pub(crate) text: String,
    name_width: usize,
}

impl Detail {
    pub(crate) fn new(title: &str, name_width: usize) -> Self {
        Self { text: format!("{title}\n"), name_width }
    }

    pub(crate) fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "  {name:<width$} {value}", width = self.name_width);
    }

    fn optional(&mut self, name: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.line(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                "retry":{"max":9,"cap":"1h","except":["limit","network"]},"node_retry":{"max":1},"timeout":"1h2m3s","queue_timeout":"1d",
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
            "runs            a [2Jb (command)",
            "shell           /bin/bash",
            "directory       /srv",
            "environment     PGPASSWORD=***",
            "stdin           6 bytes",
            "grace           1m",
        ] {
            assert!(shown.contains(line) && !shown.contains("s3cret"), "{line}: {shown}");
        }
    }
    #[test]
    fn details_of_an_attempt_are_one_line_of_what_is_known() {
        let line = |json: &str| details_line(&serde_json::from_str(json).unwrap());
        assert_eq!(line("{}"), "");
        assert_eq!(line(r#"{"class":"network"}"#), "class network");
        assert_eq!(
            line(r#"{"exit_code":0,"cpu_us":1234567,"sandbox":"full"}"#),
            "exit code 0, CPU time 1.2s, sandbox full"
        );
        assert_eq!(
            line(r#"{"class":"limit","signal":9,"limit":"oom","peak_memory_bytes":536870912,"host":"vm\u001b[2J 7"}"#),
            "class limit, signal 9, limit oom, peak memory 512.0 MiB, host vm [2J 7"
        );
        assert_eq!(line(r#"{"cpu_us":18446744073709551615}"#), "CPU time 3650d");
    }
}
