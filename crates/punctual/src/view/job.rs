//! What a job looks like in a table and in detail.

use std::fmt::Write as _;

use comfy_table::Cell;
use punctual_api::{
    Answered, Attempt, AttemptDetails, Job, JobAction, JobNotification, JobSchedule, JobSummary, LateOutcome,
    RelatedNode, RequestedBy, Rerun, RetryCount, TaskDefinition, TaskRef,
};
use punctual_core::task::{DeliveryMode, Limits, Run, TaskSpec};
use punctual_core::{JobState, Span};

use super::task::runs_lines;
use super::{Detail, one_line, word};
use crate::clock::now;
use crate::output::{Format, Output, Row, counted};
use crate::table::Yield;
use crate::zone::{relative, short};

impl Row for Answered {
    const HEADER: &'static [&'static str] = &["ID", "STATE"];
    const YIELDS: &'static [Yield] = &[];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![Cell::new(self.id), out.state(&self.state)]
    }
}

impl Row for JobSummary {
    const HEADER: &'static [&'static str] = &["ID", "TASK", "STATE", "TRIES", "SCHEDULED", "DUE", "REASON"];
    const YIELDS: &'static [Yield] = &[
        Yield::Cut("REASON", 40),
        Yield::ShortTimes,
        Yield::Cut("REASON", 24),
        Yield::Drop("SCHEDULED"),
        Yield::Cut("REASON", 16),
        Yield::Drop("TRIES"),
        Yield::Cut("TASK", 12),
        Yield::Cut("REASON", 12),
        Yield::Drop("REASON"),
        Yield::Cut("TASK", 8),
        Yield::Drop("DUE"),
        Yield::Drop("TASK"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(one_line(title(&self.title, &self.task))),
            out.state(&self.state),
            Cell::new(self.attempt_count),
            Cell::new(out.time(self.scheduled_at)),
            // What has ended before its time does not come any more.
            Cell::new(match self.finished_at {
                Some(ended) if self.due_at > ended => "-".to_owned(),
                _ => out.relative(self.due_at),
            }),
            Cell::new(out.zone.localize(&one_line(&reason(out, self)))),
        ]
    }
}

/// Why it is where it is, or why there is such a job at all. One that should have started is late.
fn reason(out: &Output, job: &JobSummary) -> String {
    match job.late_by.map(|late_by| format!("late by {}", short(late_by))) {
        None => why(out, job),
        Some(late) => match told(job) {
            Some(reason) => format!("{late}: {reason}"),
            None => late,
        },
    }
}

/// What a retry waits for is newer than why the attempt before it failed.
fn told(job: &JobSummary) -> Option<&String> {
    let (reason, waiting_for) = (job.reason.as_ref(), job.waiting_for.as_ref());
    if job.attempt_count > 0 { waiting_for.or(reason) } else { reason.or(waiting_for) }
}

fn why(out: &Output, job: &JobSummary) -> String {
    // Workers that could not start it say more than the attempt before.
    if job.attempt_count > 0 && job.state == JobState::Scheduled.as_str() && job.waiting_for.is_none() {
        let reason = job.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        return format!("retry after attempt {}{reason}", job.attempt_count);
    }
    match (told(job), &job.schedule) {
        (Some(reason), _) => reason.clone(),
        // Its time is in another column, and a task without a name is called by the schedule.
        (None, Some(JobSchedule { kind, name, .. })) if kind == "planned" => match name {
            Some(name) if job.task.name.is_some() => format!("by schedule {name}"),
            _ => "by schedule".to_owned(),
        },
        (None, Some(schedule)) => format!("{} {}", of_kind(&schedule.kind), out.time(schedule.at)),
        (None, None) => "-".to_owned(),
    }
}

/// A server of an earlier version gives none.
fn title<'a>(title: &'a str, task: &'a TaskRef) -> &'a str {
    if title.is_empty() { task.name.as_deref().unwrap_or(&task.kind) } else { title }
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
    text.line("task", job_task(job));
    if let Some(notification) = &job.notification {
        text.line("notifies", notification_line(notification));
    }
    if let Some(definition) = &job.definition {
        definition_lines(&mut text, job, definition);
    }
    let by = job.submitted_by.as_ref().map(|by| format!(" by {}", requester(by))).unwrap_or_default();
    text.line("submitted", format!("{}{by}", out.zone.show_millis(job.submitted_at)));
    let when = |at| match job.finished_at {
        Some(ended) if at > ended => out.zone.show_millis(at),
        _ => format!("{} ({})", out.zone.show_millis(at), relative(at, now())),
    };
    text.line("scheduled", when(job.scheduled_at));
    if job.due_at != job.scheduled_at {
        text.line("due", when(job.due_at));
    }
    if let Some(at) = job.finished_at {
        text.line("finished", out.zone.show_millis(at));
    }
    if let Some(late_by) = job.late_by {
        text.line("late by", short(late_by));
    }
    if let Some(schedule) = &job.schedule {
        text.line("schedule", job_schedule(out, schedule));
    }
    if let Some(place) = &job.workflow {
        let item = place.item.map(|item| format!(", element {item}")).unwrap_or_default();
        let of = format!("{} version {}, node {}{item}", place.workflow, place.version, place.node);
        text.line("workflow", format!("{of}, {}", place.run));
        related(&mut text, "after", &place.before, out);
        related(&mut text, "before", &place.after, out);
    }
    if let Some(place) = &job.batch {
        let what = if place.is_compensation { "undoes member" } else { "member" };
        text.line("batch", format!("{what} {} of {}", place.place, place.batch));
    }
    let is_told = job.workflow.is_some() || job.batch.is_some();
    if let Some(tracing_id) = job.tracing_id.as_ref().filter(|_| !is_told) {
        text.line("tracing id", tracing_id);
    }
    for late in job.late_outcomes.iter().filter(|late| job.attempts.iter().all(|known| known.attempt != late.attempt)) {
        text.line(&format!("attempt {}", late.attempt), late_line(out, late));
    }
    for attempt in &job.attempts {
        for rerun in job.reruns.iter().filter(|rerun| rerun.next_attempt == attempt.attempt) {
            text.line("run again", rerun_line(out, rerun));
        }
        text.line(&format!("attempt {}", attempt.attempt), attempt_line(out, job, attempt));
        let details = attempt.details.as_ref().map(details_line).unwrap_or_default();
        if !details.is_empty() {
            text.line("", details);
        }
        text.line("", worker_line(attempt));
        if let Some(path) = &attempt.log_path {
            let bytes = attempt.log_bytes.map(|bytes| format!(" ({bytes} bytes)")).unwrap_or_default();
            text.line("", format!("log {path}{bytes}"));
        }
        for late in job.late_outcomes.iter().filter(|late| late.attempt == attempt.attempt) {
            text.line("", late_line(out, late));
        }
    }
    let next = job.attempts.last().map_or(1, |attempt| attempt.attempt + 1);
    for rerun in job.reruns.iter().filter(|rerun| rerun.next_attempt >= next) {
        text.line("run again", rerun_line(out, rerun));
    }
    for JobAction { at, action, by } in &job.actions {
        text.line(action_word(action), format!("{} by {}", out.zone.show_millis(*at), requester(by)));
    }
    if let Some(input) = &job.input {
        text.line("input", input.get());
    }
    if let Some(output) = &job.output {
        text.line("output", output.get());
    }
    text.text
}

/// By name. One whose name was not stored is called by what it is.
fn requester(by: &RequestedBy) -> String {
    if by.name.is_empty() { format!("a {}", one_line(&by.kind).replace('_', " ")) } else { one_line(&by.name) }
}

/// What somebody did, as a line of the job's record says it.
fn action_word(action: &str) -> &str {
    match action {
        "cancel" => "cancelled",
        "delete" => "deleted",
        "retry" => "retried",
        "run" => "run now",
        other => other,
    }
}

/// A one-off task is called by its title.
fn job_task(job: &Job) -> String {
    match job.task.name {
        Some(_) => task_ref(&job.task),
        None => {
            let title = one_line(title(&job.title, &job.task));
            format!("{title} (one-off, {}, queue {})", job.task.kind, job.task.queue)
        }
    }
}

pub(crate) fn task_ref(task: &TaskRef) -> String {
    format!("{} ({}, queue {})", task.name.as_deref().unwrap_or("one-off"), task.kind, task.queue)
}

/// What comes before or after a job of a workflow, one in each line.
fn related(text: &mut Detail, name: &str, nodes: &[RelatedNode], out: &Output) {
    for (place, node) in nodes.iter().enumerate() {
        let job = node.job.map(|job| format!("  {job}")).unwrap_or_default();
        let name = if place == 0 { name } else { "" };
        text.line(name, format!("{}  {}{job}", node.node, out.state_text(&node.state)));
    }
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

/// Adds what the job runs, and the rules that matter to somebody who looks at a job.
fn definition_lines(text: &mut Detail, job: &Job, definition: &TaskDefinition) {
    let TaskDefinition { revision, changed_since, spec } = definition;
    let usual = TaskSpec::new(spec.run.clone());
    runs_lines(text, &spec.run, &one_line(&super::run_summary(&spec.run)));
    if let Run::Binary(binary) = &spec.run {
        text.line("limits", limits(&binary.limits));
    }
    for file in spec.run.files() {
        text.line("file", format!("{} ({})", file.name, file.artifact));
    }
    text.line("timeout", spec.timeout);
    if let Some(limit) = spec.queue_timeout {
        text.line("queue limit", limit);
    }
    if let Some(RetryCount { used, max }) = job.retries {
        text.line("retries", format!("{used} of {max} used"));
    }
    if let Some(lost) = job.node_retries.filter(|count| count.used > 0) {
        text.line("worker lost", lost_words(lost, spec.delivery));
    }
    if spec.delivery != usual.delivery {
        text.line("delivery", word(spec.delivery));
    }
    for (key, value) in &spec.labels {
        text.line("label", one_line(&format!("{key}={value}")));
    }
    if *changed_since {
        text.line("revision", format!("{revision}, changed after the last attempt began"));
    } else if job.task.name.is_some() {
        text.line("revision", revision);
    }
}

/// How often its worker was lost. A job of delivery mode `at_most_once` is not started again for that.
pub(crate) fn lost_words(RetryCount { used, max }: RetryCount, delivery: DeliveryMode) -> String {
    match delivery {
        DeliveryMode::AtMostOnce => format!("{}, not retried (at_most_once)", counted(used as usize, "time")),
        DeliveryMode::AtLeastOnce | DeliveryMode::ExactlyOnce => format!("{used} of {max} retries used"),
    }
}

fn limits(limits: &Limits) -> String {
    let Limits { memory, cpu, pids, output, disk, open_files } = limits;
    format!("memory {memory}, cpu {cpu}, pids {pids}, output {output}, disk {disk}, open files {open_files}")
}

pub(crate) fn notification_line(notification: &JobNotification) -> String {
    let about = notification.summary.as_ref().map(|summary| format!(": {}", one_line(summary))).unwrap_or_default();
    format!("by rule {}{about}", one_line(&notification.rule))
}

pub(crate) fn late_line(out: &Output, late: &LateOutcome) -> String {
    let by = late.worker_name.as_ref().map_or_else(|| late.worker.to_string(), |name| one_line(name));
    format!("late outcome from {by} at {}: {}", out.zone.show_millis(late.at), one_line(&late.outcome))
}

/// Who ran it, and where.
fn worker_line(attempt: &Attempt) -> String {
    let worker = attempt.worker.map_or_else(|| "an unknown worker".to_owned(), |worker| worker.to_string());
    match (&attempt.worker_name, &attempt.worker_host) {
        (Some(name), Some(host)) if name != host => format!("on {} at {}, {worker}", one_line(name), one_line(host)),
        (Some(name), _) => format!("on {}, {worker}", one_line(name)),
        (None, _) => format!("on {worker}"),
    }
}

fn rerun_line(out: &Output, rerun: &Rerun) -> String {
    format!("{}, after it was {}", out.zone.show_millis(rerun.at), rerun.from)
}

fn attempt_line(out: &Output, job: &Job, attempt: &Attempt) -> String {
    let mut line = attempt.state.clone();
    if attempt.due_at != job.scheduled_at {
        let _ = write!(line, ", due {}", out.zone.show_millis(attempt.due_at));
    }
    let _ = write!(line, ", started {}", out.zone.show_millis(attempt.started_at));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_why_a_job_waits_and_nothing_of_a_time_that_does_not_come() {
        let row = |more: serde_json::Value| {
            let mut job = serde_json::json!({
                "id": "job_01m7et4344e91804jsy8wksbxz", "state": "scheduled", "priority": 0, "attempt_count": 0,
                "task": { "id": "task_01m7et433kee4803yssgvaf2fh", "kind": "http", "queue": "default" },
                "submitted_at": "2026-01-01T00:00:00Z", "scheduled_at": "2099-01-01T00:00:00Z",
                "due_at": "2099-01-01T00:00:00Z",
            });
            job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let job: JobSummary = serde_json::from_value(job).unwrap();
            let cells = job.cells(&Output::plain(None));
            (cells[5].content(), cells[6].content())
        };
        let (due, reason) = row(serde_json::json!({}));
        assert!(due.starts_with("in ") && reason == "-", "{due} {reason}");
        let (due, reason) = row(serde_json::json!({ "attempt_count": 2 }));
        assert!(due.starts_with("in ") && reason == "retry after attempt 2", "{due} {reason}");
        let (_, reason) = row(serde_json::json!({ "attempt_count": 2, "reason": "exit code 1" }));
        assert_eq!(reason, "retry after attempt 2: exit code 1");
        let due_before = "2026-01-02T00:00:00Z";
        let (due, reason) = row(serde_json::json!({ "due_at": due_before, "late_by": "5m" }));
        assert!(due.ends_with(" ago") && reason == "late by 5m", "{due} {reason}");
        let (_, reason) = row(serde_json::json!({
            "due_at": due_before, "late_by": "5m", "waiting_for": "no worker is connected",
        }));
        assert_eq!(reason, "late by 5m: no worker is connected");
        let (due, _) = row(serde_json::json!({ "state": "cancelled", "finished_at": "2026-01-02T00:00:00Z" }));
        assert_eq!(due, "-");
        let (due, reason) =
            row(serde_json::json!({ "state": "running", "attempt_count": 2, "due_at": "2026-01-02T00:00:00Z" }));
        assert!(due.ends_with(" ago") && reason == "-", "{due} {reason}");
    }

    #[test]
    fn a_lost_worker_of_a_job_that_may_not_be_retried_uses_no_retry() {
        let lost = RetryCount { used: 1, max: 3 };
        assert_eq!(lost_words(lost, DeliveryMode::AtLeastOnce), "1 of 3 retries used");
        assert_eq!(lost_words(lost, DeliveryMode::AtMostOnce), "1 time, not retried (at_most_once)");
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
