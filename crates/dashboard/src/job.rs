//! One job: why it is in its state, what it printed, and each attempt.

use maud::{Markup, html};
use punctual_api::{Job, LogLine, RelatedNode};
use punctual_core::access::Right;
use serde_json::value::RawValue;

use crate::attempts::attempts;
use crate::commands::{curl, panel, punctual};
use crate::layout::{self, ActionKind, Content, action, confirmed};
use crate::state::{Meaning, big, state};
use crate::text::{clean, code, escaped, user};
use crate::timeline;
use crate::times::{maybe_time, span, time, time_and_ago, time_of_day, with_times};
use crate::{Confirmation, Page, Viewer};

/// A job and a piece of a log of it.
#[derive(Debug, Clone)]
pub struct JobPage {
    pub job: Job,
    /// `None`: the viewer may not read logs.
    pub log: Option<LogPiece>,
}

#[derive(Debug, Clone, Default)]
pub struct LogPiece {
    /// 0: there is no attempt yet.
    pub attempt: u32,
    pub lines: Vec<LogLine>,
    /// Where the next piece begins, if there is one.
    pub next_offset: Option<u64>,
    /// The first byte of this piece.
    pub offset: u64,
    /// The number of the first line, of a log that is read on.
    pub first_line: u64,
    /// What is written from here on can be followed.
    pub follow_from: Option<u64>,
}

pub fn job(viewer: &Viewer, page: &JobPage, notice: Option<Confirmation>) -> Page {
    let JobPage { job, log } = page;
    let title = if job.title.is_empty() { job.task.name.as_deref().unwrap_or(&job.task.kind) } else { &job.title };
    let meaning = Meaning::of(&job.state);
    let (first, rest) = sentences(&job.explanation);
    let main = html! {
        p.crumbs {
            a href="/jobs" { "Jobs" } "/"
            @match &job.task.name {
                Some(name) => { a href=(format!("/tasks/{}", escaped(name))) { (user(title)) } }
                None => { (user(title)) }
            }
            "/" code { (job.id) }
        }
        section class=(format!("panel why {}", meaning.class())) #why data-part {
            (big(meaning, &job.state))
            div {
                h1 { (with_times(viewer, first)) }
                @if !rest.is_empty() { p.text { (with_times(viewer, rest)) } }
                @if job.uncertain { p.warning { "The server that owns this job did not answer: its state may be old." } }
                @if job.cancel_requested { p.warning { "It was asked to end." } }
            }
            @if viewer.may(Right::ControlJobs) { (actions(job)) }
        }
        div.jobgrid {
            div.stack {
                @match log {
                    Some(log) => { (log_section(viewer, job, log)) }
                    None => { section.panel { div.row { h2 { "Log" } } p.muted { "Your role does not include logs (" code { "logs.view" } ")." } } }
                }
                (timeline::attempts(viewer, job))
                (attempts(viewer, job))
                div.pair {
                    (document("Input", job.input.as_deref(), viewer.may(Right::ViewInputs), "inputs.view"))
                    (document("Output", job.output.as_deref(), viewer.may(Right::ViewOutputs), "outputs.view"))
                }
            }
            div.stack {
                (facts(viewer, job))
                @if let Some(place) = &job.workflow { (relations(&place.before, &place.after)) }
                (panel(&commands(viewer, job)))
            }
        }
    };
    let live = job.finished_at.is_none().then(|| format!("/jobs/{}/events", job.id));
    let has_log = log.as_ref().is_some_and(|log| log.follow_from.is_some());
    layout::page(viewer, &Content { title, notice, live, has_log }, &main)
}

/// The first sentence of an explanation, and what follows it.
fn sentences(text: &str) -> (&str, &str) {
    const LONG: usize = 160;
    match text.match_indices(". ").find(|(at, _)| text[..*at].len() > 12) {
        Some((at, _)) if at < LONG => (&text[..=at], text[at + 2..].trim()),
        None if text.len() <= LONG => (text, ""),
        _ => text.split_once('\n').unwrap_or((text, "")),
    }
}

/// What changes the state, the likeliest first.
fn actions(job: &Job) -> Markup {
    let address = |verb: &str| format!("/jobs/{}/{verb}", job.id);
    let has_started = job.attempt_count > 0;
    html! {
        div.actions {
            @match job.state.as_str() {
                "scheduled" => {
                    (action(&address("run"), "Run now", ActionKind::First))
                    @if has_started {
                        (confirmed(&address("cancel"), "Cancel", "The job ends now and is not tried again."))
                    } @else {
                        (confirmed(&address("delete"), "Delete", "The job is removed and never runs. This cannot be undone."))
                    }
                }
                "running" => { (confirmed(&address("cancel"), "Cancel", "The running attempt is asked to end, and the job is not tried again.")) }
                "succeeded" | "failed" | "cancelled" | "lost" | "quarantined" => {
                    (action(&address("retry"), "Retry", ActionKind::First))
                }
                _ => {}
            }
        }
    }
}

fn commands(viewer: &Viewer, job: &Job) -> Vec<String> {
    let id = job.id.to_string();
    let path = format!("/v1/jobs/{id}");
    let act = |verb: &str, words: &[&str], route: &str| {
        let mut all = words.to_vec();
        all.push(&id);
        let method = if verb == "delete" { "DELETE" } else { "POST" };
        [punctual(viewer, &all), curl(viewer, method, &format!("{path}{route}"), None)]
    };
    let mut commands = vec![punctual(viewer, &["job", "get", &id]), punctual(viewer, &["logs", &id, "--follow"])];
    if viewer.may(Right::ControlJobs) {
        commands.extend(match job.state.as_str() {
            "scheduled" if job.attempt_count == 0 => act("delete", &["job", "delete"], ""),
            "scheduled" | "running" => act("cancel", &["cancel"], "/cancel"),
            _ => act("retry", &["job", "retry"], "/retry"),
        });
    } else {
        commands.push(curl(viewer, "GET", &path, None));
    }
    commands
}

fn log_section(viewer: &Viewer, job: &Job, log: &LogPiece) -> Markup {
    let of = |attempt: u32, offset: u64, line: u64| {
        format!("/jobs/{}?attempt={attempt}&offset={offset}&line={line}#log", job.id)
    };
    let last_line = log.first_line + log.lines.len() as u64;
    let follow = log.follow_from.map(|from| {
        format!(
            "/jobs/{}/log?offset={from}{}",
            job.id,
            if log.attempt > 0 { format!("&attempt={}", log.attempt) } else { String::new() }
        )
    });
    html! {
        section.panel #log aria-label="Log" {
            div.row {
                h2 { "Log" }
                @if job.attempts.len() > 1 {
                    nav.tabs aria-label="Attempts" {
                        @for attempt in job.attempts.iter().rev().take(8).rev() {
                            a href=(of(attempt.attempt, 0, 1)) aria-current=[(attempt.attempt == log.attempt).then_some("true")] { "Attempt " (attempt.attempt) }
                        }
                    }
                }
                span.end.row {
                    @if follow.is_some() { label.inline { input #follow type="checkbox" checked; "follow" } }
                    @if log.attempt > 0 { a href=(format!("/jobs/{}/log.txt?attempt={}", job.id, log.attempt)) download=(format!("{}-{}.log", job.id, log.attempt)) { "Download" } }
                }
            }
            @if log.lines.is_empty() && follow.is_none() {
                p.muted { @if log.offset > 0 { "There is nothing after this." } @else if log.attempt == 0 { "There is no attempt yet, so there is no log." } @else { "It has printed nothing." } }
            } @else {
                @if log.lines.is_empty() { p.muted.small #nothing-printed { "It has printed nothing so far." } }
                ol.log #lines tabindex="0" aria-label="Lines" data-follow=[follow.as_deref()] data-attempt=(log.attempt) data-count=(last_line - 1) {
                    @for (index, line) in log.lines.iter().enumerate() { (log_line(viewer, line, log.first_line + index as u64)) }
                }
                template #line { li { a.no {} time {} span.stream {} code { bdi {} } } }
            }
            @if let Some(next) = log.next_offset { p { a rel="next" href=(of(log.attempt, next, last_line)) { "More of the log" } } }
        }
    }
}

fn log_line(viewer: &Viewer, line: &LogLine, number: u64) -> Markup {
    let stream = line.stream.as_deref().filter(|stream| *stream != "stdout");
    html! {
        li id=(format!("L{number}")) class=[stream] {
            a.no href=(format!("#L{number}")) { (number) }
            @if let Some(at) = line.time { (time_of_day(viewer, at)) }
            @if let Some(stream) = stream { span.stream { (clean(stream)) } }
            code { (user(&line.text)) }
        }
    }
}

/// JSON as it was stored: no number is read and written again.
fn document(name: &str, json: Option<&RawValue>, may_see: bool, right: &str) -> Markup {
    let id = format!("document-{}", name.to_lowercase());
    html! {
        section.panel aria-label=(name) #(format!("part-{}", name.to_lowercase())) data-part {
            div.row { h2 { (name) } }
            @match json {
                Some(json) => { div.command { pre #(id) tabindex="0" { bdi { (json.get()) } } button type="button" data-copy=(id) { "Copy" } } }
                None if !may_see => { p.muted { "Your role does not include it (" code { (right) } ")." } }
                None => { p.muted { "None." } }
            }
        }
    }
}

fn relations(before: &[RelatedNode], after: &[RelatedNode]) -> Markup {
    let list = |name: &str, nodes: &[RelatedNode]| {
        html! {
            dt { (name) }
            dd {
                @if nodes.is_empty() { span.none { "none" } }
                @for node in nodes {
                    @let shown = Meaning::of_node(&node.state);
                    @match &node.job {
                        Some(job) => { a href=(format!("/jobs/{job}")) { (shown.dot(&node.state)) " " (user(&node.node)) } " " }
                        None => { span { (shown.dot(&node.state)) " " (user(&node.node)) } " " }
                    }
                }
            }
        }
    };
    html! {
        section.panel #relations data-part {
            div.row { h2 { "Before and after" } }
            dl { (list("Parents", before)) (list("Children", after)) }
        }
    }
}

fn facts(viewer: &Viewer, job: &Job) -> Markup {
    html! {
        section.panel #facts data-part {
            div.row { h2 { "Facts" } }
            dl {
                dt { "State" } dd { (state(&job.state)) }
                dt { "Task" } dd { @if let Some(name) = &job.task.name { a href=(format!("/tasks/{}", escaped(name))) { (user(name)) } " " } span.muted { (job.task.kind) } }
                dt { "Queue" } dd { a href=(format!("/jobs?queue={}", escaped(&job.task.queue))) { (user(&job.task.queue)) } }
                dt { "Due" } dd { (time_and_ago(viewer, job.scheduled_at)) @if job.due_at != job.scheduled_at { ", then " (time(viewer, job.due_at)) } }
                @if let Some(late) = job.late_by.filter(|late| late.as_micros() >= 1000) { dt { "Late by" } dd { (span(Some(late))) } }
                dt { "Submitted" } dd { (time_and_ago(viewer, job.submitted_at)) @if let Some(by) = &job.submitted_by { " by " (user(&by.name)) } }
                @if job.finished_at.is_some() { dt { "Ended" } dd { (maybe_time(viewer, job.finished_at)) } }
                @if let Some(definition) = &job.definition {
                    @let delivery = serde_json::to_value(definition.spec.delivery).ok();
                    @let delivery = delivery.as_ref().and_then(|word| word.as_str()).unwrap_or_default().replace('_', " ");
                    dt { "Delivery" } dd { (delivery) }
                }
                @if let Some(retries) = job.retries { dt { "Retries" } dd { (retries.used) " of " (retries.max) } }
                @if job.priority.get() != 0 { dt { "Priority" } dd { (job.priority.get()) } }
                @if let Some(schedule) = &job.schedule {
                    @let name = schedule.name.clone().unwrap_or_else(|| schedule.id.to_string());
                    dt { "Schedule" } dd { a href=(format!("/schedules/{}", escaped(&name))) { (user(&name)) } ", planned for " (time(viewer, schedule.at)) }
                }
                @if let Some(node) = &job.workflow {
                    dt { "Workflow" } dd { "node " (user(&node.node)) " of " a href=(format!("/runs/{}", node.run)) { (user(&node.workflow)) } }
                }
                @if let Some(run) = &job.run { dt { "Run" } dd { a href=(format!("/runs/{run}")) { code { (run) } } } }
                @if let Some(notification) = &job.notification { dt { "Delivers" } dd { (user(&notification.rule)) } }
                @if let Some(tracing_id) = &job.tracing_id {
                    dt { "Tracing id" } dd { a href=(format!("/jobs?tracing_id={}", escaped(tracing_id))) { (code(tracing_id)) } }
                }
                @for done in &job.actions {
                    dt { (clean(&done.action)) } dd { (time(viewer, done.at)) " by " (user(&done.by.name)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_is_a_headline_and_the_rest() {
        let (first, rest) = sentences("Attempt 2 ended as failed: exit 137. It starts at noon.");
        assert_eq!((first, rest), ("Attempt 2 ended as failed: exit 137.", "It starts at noon."));
        assert_eq!(sentences("It succeeded."), ("It succeeded.", ""));
        let long = "x".repeat(500);
        assert_eq!(sentences(&long), (long.as_str(), ""));
        assert_eq!(sentences("é. Über. a"), ("é. Über. a", ""));
    }
}
