//! The attempts of a job, as a table.

use maud::{Markup, html};
use punctual_api::{Attempt, Job};

use crate::Viewer;
use crate::state::state;
use crate::text::{bytes, user};
use crate::times::{caption, exact_time, span};

pub(crate) fn attempts(viewer: &Viewer, job: &Job) -> Markup {
    html! {
        @if !job.attempts.is_empty() {
            section.panel.flush #attempts data-part {
                table.list {
                    (caption(viewer, "Attempts"))
                    thead { tr {
                        th scope="col" { "Attempt" } th scope="col" { "State" } th scope="col" { "Started" } th.number scope="col" { "Waited" }
                        th.number scope="col" { "Took" } th scope="col" { "Worker" } th scope="col" { "Reason" }
                    } }
                    tbody { @for attempt in &job.attempts { (row(viewer, job, attempt)) } }
                }
                @for late in &job.late_outcomes {
                    p.more.warning { "Attempt " (late.attempt) " reported " (user(&late.outcome)) " too late to count." }
                }
            }
        }
    }
}

fn row(viewer: &Viewer, job: &Job, attempt: &Attempt) -> Markup {
    let took = attempt.finished_at.map(|at| at.since(attempt.started_at));
    let worker = attempt.worker_name.clone().or_else(|| attempt.worker.map(|id| id.to_string())).unwrap_or_default();
    let details = attempt.details.clone().unwrap_or_default();
    let says = |word: &str| attempt.reason.as_deref().is_some_and(|reason| reason.contains(word));
    html! {
        tr id=(format!("attempt-{}", attempt.attempt)) {
            td data-k="Attempt" { a href=(format!("/jobs/{}?attempt={}#log", job.id, attempt.attempt)) { (attempt.attempt) } }
            td { (state(&attempt.state)) }
            td data-k="Started" { (exact_time(viewer, attempt.started_at)) }
            td.number data-k="Waited" { (span(Some(attempt.started_at.since(attempt.due_at)))) }
            td.number data-k="Took" { (span(took)) }
            td data-k="Worker" {
                (user(&worker))
                @if let Some(host) = &attempt.worker_host { @if *host != worker { span.small.muted { (user(host)) } } }
            }
            td.wrap {
                @if let Some(reason) = &attempt.reason { (user(reason)) }
                @if let Some(code) = details.exit_code.filter(|_| !says("exit code")) { span.tag { "exit code " (code) } }
                @if let Some(signal) = details.signal.filter(|_| !says("signal")) { span.tag { "signal " (signal) } }
                @if let Some(limit) = &details.limit { span.tag { "limit " (user(limit)) } }
                @if let Some(peak) = details.peak_memory_bytes { span.tag { "memory " (bytes(peak)) } }
                @if let Some(sandbox) = &details.sandbox { span.tag { "sandbox " (user(sandbox)) } }
            }
        }
    }
}
