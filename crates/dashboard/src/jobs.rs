//! Lists of jobs.

use maud::{Markup, html};
use punctual_api::{JobList, JobSummary, ListQuery};
use punctual_core::access::Right;
use punctual_core::{JobState, run};

use crate::layout::{self, Content, empty, head};
use crate::state::state;
use crate::text::{self, maybe, user};
use crate::times::{ago, caption, span, time};
use crate::{Confirmation, Page, Viewer};

/// The states by which people look for jobs, in the order of a job's life.
const STATES: [JobState; 7] = [
    JobState::Scheduled,
    JobState::Running,
    JobState::Succeeded,
    JobState::Failed,
    JobState::Cancelled,
    JobState::Lost,
    JobState::Quarantined,
];

pub fn jobs(viewer: &Viewer, query: &ListQuery, list: &JobList, notice: Option<Confirmation>) -> Page {
    let of_state = |state: &str| address(&ListQuery { state: Some(state.to_owned()), cursor: None, ..query.clone() });
    let is_filtered =
        [&query.task, &query.queue, &query.kind, &query.tracing_id, &query.scheduled_from, &query.scheduled_before]
            .iter()
            .any(|value| value.is_some());
    let next =
        list.next_cursor.as_ref().map(|cursor| address(&ListQuery { cursor: Some(cursor.clone()), ..query.clone() }));
    let actions = html! { @if viewer.may(Right::SubmitJobs) { a.btn.first href="/jobs/new" { "New job" } } };
    let main = html! {
        (head("Jobs", &html! {}, &actions))
        nav.tabs aria-label="States" {
            a href=(address(&ListQuery { state: None, cursor: None, ..query.clone() })) aria-current=[query.state.is_none().then_some("true")] { "All" }
            @for name in STATES.map(JobState::as_str) {
                a href=(of_state(name)) aria-current=[(query.state.as_deref() == Some(name)).then_some("true")] { (state(name)) }
            }
        }
        (filter(query))
        @if list.uncertain { p.warning { "Some servers did not answer: states of waiting and running jobs may be old." } }
        div #jobs data-part {
            @if list.jobs.is_empty() {
                @if is_filtered || query.state.is_some() || query.cursor.is_some() {
                    (empty("No job fits these filters.", &html! { a href="/jobs" { "Show all jobs" } }))
                } @else {
                    (empty("There are no jobs yet.", &html! { "Make one with " a href="/jobs/new" { "New job" } ", or in a terminal: " code { "punctual run --probe '{\"output\":\"hello\"}'" } }))
                }
            } @else {
                section.panel.flush {
                    table.list {
                        (caption(viewer, "Jobs"))
                        (job_table_head())
                        tbody { @for job in &list.jobs { (job_row(viewer, job, "job")) } }
                    }
                    (layout::more(next.as_deref()))
                }
            }
        }
    };
    layout::page(viewer, &Content::live("Jobs", notice), &main)
}

fn filter(query: &ListQuery) -> Markup {
    let field = |label: &str, name: &str, value: Option<&str>, hint: &str| {
        html! { label { (label) input name=(name) value=(value.unwrap_or("")) placeholder=(hint) autocomplete="off" spellcheck="false"; } }
    };
    html! {
        form.filter method="get" action="/jobs" {
            @if let Some(state) = &query.state { input type="hidden" name="state" value=(state); }
            (field("Task", "task", query.task.as_deref(), ""))
            (field("Queue", "queue", query.queue.as_deref(), ""))
            label {
                "Type"
                select name="kind" {
                    option value="" { "any" }
                    @for kind in run::Run::KINDS { option value=(kind) selected[query.kind.as_deref() == Some(kind)] { (kind) } }
                }
            }
            (field("Due from", "scheduled_from", query.scheduled_from.as_deref(), "2026-12-24T18:00:00Z"))
            (field("Due before", "scheduled_before", query.scheduled_before.as_deref(), ""))
            (field("Tracing id", "tracing_id", query.tracing_id.as_deref(), ""))
            label {
                "Order"
                select name="order" {
                    option value="desc" selected[query.order.as_deref() != Some("asc")] { "latest first" }
                    option value="asc" selected[query.order.as_deref() == Some("asc")] { "earliest first" }
                }
            }
            button type="submit" { "Filter" }
        }
    }
}

/// What to call a job.
pub(crate) fn title_of(job: &JobSummary) -> &str {
    if job.title.is_empty() { job.task.name.as_deref().unwrap_or(&job.task.kind) } else { &job.title }
}

pub(crate) fn job_table_head() -> Markup {
    html! {
        thead { tr {
            th scope="col" { "State" } th scope="col" { "Job" } th scope="col" { "Queue" } th scope="col" { "Due" }
            th.number scope="col" { "Attempts" } th.number scope="col" { "Late by" } th scope="col" { "Note" }
        } }
    }
}

/// `part` keeps rows of two tables of a page apart.
pub(crate) fn job_row(viewer: &Viewer, job: &JobSummary, part: &str) -> Markup {
    let note = job.waiting_for.as_deref().or(job.reason.as_deref());
    html! {
        tr id=(format!("{part}-{}", job.id)) {
            td { (state(&job.state)) }
            td.wrap { a.main href=(format!("/jobs/{}", job.id)) title=(job.id.to_string()) { (user(title_of(job))) } }
            td data-k="Queue" { (user(&job.task.queue)) }
            td data-k="Due" { (time(viewer, job.due_at)) " " (ago(viewer, job.due_at)) }
            td.number data-k="Attempts" { (job.attempt_count) }
            td.number data-k="Late by" { (span(job.late_by)) }
            td.wrap.muted { (maybe(note.map(|note| text::short(note, 200)).as_deref())) }
        }
    }
}

fn address(query: &ListQuery) -> String {
    text::address(
        "/jobs",
        [
            ("state", query.state.as_deref()),
            ("task", query.task.as_deref()),
            ("kind", query.kind.as_deref()),
            ("queue", query.queue.as_deref()),
            ("tracing_id", query.tracing_id.as_deref()),
            ("scheduled_from", query.scheduled_from.as_deref()),
            ("scheduled_before", query.scheduled_before.as_deref()),
            ("order", query.order.as_deref()),
            ("limit", query.limit.as_deref()),
            ("cursor", query.cursor.as_deref()),
        ],
    )
}
