//! What tasks, jobs and workers look like in tables and in detail.

use std::fmt::Write as _;

use comfy_table::Cell;
use punctual_api::{Attempt, Job, JobSummary, TaskRef, TaskView, WorkerView};
use punctual_core::task::Run;

use crate::output::{Format, Output, Row};
use crate::world::now;
use crate::zone::{relative, short};

fn dash(text: Option<&str>) -> &str {
    text.unwrap_or("-")
}

impl Row for JobSummary {
    const HEADER: &'static [&'static str] = &["ID", "TASK", "STATE", "TRIES", "DUE", "", "REASON"];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(self.task.name.as_deref().unwrap_or(&self.task.kind)),
            out.state(&self.state),
            Cell::new(self.attempts),
            Cell::new(out.zone.show(self.due_at)),
            Cell::new(relative(self.due_at, now())),
            Cell::new(dash(self.reason.as_deref())),
        ]
    }
}

impl Row for TaskView {
    const HEADER: &'static [&'static str] = &["NAME", "KIND", "QUEUE", "REVISION", "UPDATED", "RUNS"];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(self.spec.run.kind()),
            Cell::new(&self.spec.queue),
            Cell::new(self.revision),
            Cell::new(out.zone.show(self.updated_at)),
            Cell::new(what(&self.spec.run)),
        ]
    }
}

impl Row for WorkerView {
    const HEADER: &'static [&'static str] = &["ID", "NAME", "STATE", "RUNNING", "QUEUES", "SEEN", "VERSION"];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, _: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(&self.name),
            Cell::new(&self.state),
            Cell::new(format!("{}/{}", self.running, self.slots)),
            Cell::new(self.queues.join(",")),
            Cell::new(relative(self.last_seen_at, now())),
            Cell::new(&self.version),
        ]
    }
}

/// What a task runs, in a few words.
fn what(run: &Run) -> String {
    match run {
        Run::Http(call) => format!("{} {}", call.method.as_str(), call.url),
        Run::Probe(probe) => serde_json::to_string(probe).unwrap_or_default(),
        Run::Handler(handler) => handler.name.clone(),
    }
}

pub(crate) fn task(out: &Output, task: &TaskView) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(task),
        Format::Name => out.line(&task.name),
        Format::Table => out.write(&task_text(out, task)),
    }
}

fn task_text(out: &Output, task: &TaskView) -> String {
    let spec = &task.spec;
    let mut text = Detail::new(&format!("{}  revision {}", task.name, task.revision));
    text.line("id", task.id);
    text.line("runs", format!("{} ({})", what(&spec.run), spec.run.kind()));
    text.line("queue", &spec.queue);
    text.line("priority", spec.priority.get());
    text.line("retries", format!("{}, first after {}", spec.retry.max, short(spec.retry.initial)));
    text.line("timeout", short(spec.timeout));
    text.line("updated", out.zone.show(task.updated_at));
    text.0
}

pub(crate) fn job(out: &Output, job: &Job) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(job),
        Format::Name => out.line(&job.id.to_string()),
        Format::Table => out.write(&job_text(out, job)),
    }
}

fn job_text(out: &Output, job: &Job) -> String {
    let mut text = Detail::new(&format!("{}  {}", job.id, out.state_text(&job.state)));
    text.line("why", &job.explanation);
    text.line("task", task_ref(&job.task));
    text.line("submitted", out.zone.show_millis(job.submitted_at));
    text.line("due", format!("{} ({})", out.zone.show_millis(job.due_at), relative(job.due_at, now())));
    if let Some(at) = job.finished_at {
        text.line("finished", out.zone.show_millis(at));
    }
    if let Some(tracing_id) = &job.tracing_id {
        text.line("tracing id", tracing_id);
    }
    for attempt in &job.attempts {
        text.line(&format!("attempt {}", attempt.attempt), attempt_line(out, attempt));
    }
    if let Some(input) = &job.input {
        text.line("input", input.get());
    }
    if let Some(output) = &job.output {
        text.line("output", output.get());
    }
    text.0
}

fn task_ref(task: &TaskRef) -> String {
    format!("{} ({}, queue {})", task.name.as_deref().unwrap_or("one-off"), task.kind, task.queue)
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

/// A title and lines of name and value.
struct Detail(String);

impl Detail {
    fn new(title: &str) -> Self {
        Self(format!("{title}\n"))
    }

    fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "  {name:<11} {value}");
    }
}
