//! What needs somebody, what happens now, and what comes next.

use std::collections::BTreeMap;

use maud::{Markup, html};
use punctual_api::{Forecast, JobList, JobSummary, Overdue, QueueView, ScheduleSummary, WorkerView};
use punctual_core::Timestamp;
use punctual_core::access::Right;

use crate::jobs::{job_row, job_table_head, title_of};
use crate::layout::{self, ActionKind, Content, action, command, empty, head};
use crate::state::Meaning;
use crate::text::{address, code, count, escaped, short, user};
use crate::timeline::day;
use crate::times::{ago, caption, duration, time, zone_name};
use crate::{Confirmation, Page, Viewer};

/// What the overview shows. `None`: the viewer may not see it, or nobody knows.
#[derive(Debug, Clone)]
pub struct Overview {
    pub queues: Vec<QueueView>,
    /// There are more than these.
    pub has_more_queues: bool,
    pub running: JobList,
    /// Jobs of the last day that failed.
    pub failed: JobList,
    /// The jobs of the last hours, the latest first.
    pub recent: JobList,
    /// The jobs that wait for their time, the next one first.
    pub waiting: JobList,
    pub overdue: Overdue,
    pub workers: Option<Vec<WorkerView>>,
    pub forecast: Option<Forecast>,
    pub schedules: Option<Vec<ScheduleSummary>>,
}

const FAILURES_SHOWN: usize = 8;
const OVERDUE_SHOWN: usize = 5;
const RUNNING_SHOWN: usize = 10;
const NEXT_SHOWN: usize = 10;

pub fn overview(viewer: &Viewer, shown: &Overview, notice: Option<Confirmation>) -> Page {
    let is_new = shown.recent.jobs.is_empty() && shown.running.jobs.is_empty() && shown.waiting.jobs.is_empty();
    let main = html! {
        (head("Overview", &summary(shown), &new_job(viewer)))
        @if is_new { (first_steps(viewer)) }
        (day(viewer, &shown.recent, shown.forecast.as_ref()))
        (figures(shown))
        div.two {
            section.panel #attention data-part {
                div.row { h2 { "Needs attention" } }
                (attention(viewer, shown))
            }
            section.panel #next data-part { (next(viewer, shown)) }
        }
        section.panel.flush #running data-part {
            @if shown.running.jobs.is_empty() {
                div.row { h2 { "Running now" } }
                p.more.muted { "Nothing is running." }
            } @else {
                table.list {
                    (caption(viewer, "Running now"))
                    (job_table_head())
                    tbody { @for job in shown.running.jobs.iter().take(RUNNING_SHOWN) { (job_row(viewer, job, "running")) } }
                }
                @if shown.running.jobs.len() > RUNNING_SHOWN { p.more { a href="/jobs?state=running" { "All running jobs" } } }
            }
        }
    };
    layout::page(viewer, &Content::live("Overview", notice), &main)
}

fn new_job(viewer: &Viewer) -> Markup {
    html! { @if viewer.may(Right::SubmitJobs) { a.btn.first href="/jobs/new" { "New job" } } }
}

fn summary(shown: &Overview) -> Markup {
    let Some(workers) = &shown.workers else { return html! {} };
    let there: Vec<_> = workers.iter().filter(|worker| !worker.is_gone()).collect();
    let slots: u32 = there.iter().map(|worker| worker.slots).sum();
    html! {
        @if there.is_empty() { "No worker is connected, so nothing starts." }
        @else { (count(there.len(), "worker", "workers")) " with " (count(slots as usize, "slot", "slots")) "." }
        @if shown.overdue.jobs.is_empty() && shown.overdue.planned.is_empty() { " Nothing is late by more than a minute." }
    }
}

/// For whoever starts it for the first time.
fn first_steps(viewer: &Viewer) -> Markup {
    html! {
        section.panel aria-label="First steps" {
            div.row { h2 { "Three things to try" } }
            p.muted { "There are no jobs yet. These run at once, here or in a terminal." }
            div.pair {
                @if viewer.may(Right::EditTasks) {
                    p { a href="/jobs/new?kind=probe" { "Run a test job" } " that sleeps and prints a line" }
                    p { a href="/jobs/new?kind=http" { "Call an address" } " at a time of your choice" }
                }
                @if viewer.may(Right::EditSchedules) { p { a href="/schedules/new" { "Make a schedule" } " and see its next runs as you type" } }
            }
            (command("first-command", "punctual run --probe '{\"sleep\":\"2s\",\"output\":\"hello\"}' --follow"))
        }
    }
}

/// A figure and the list that it counts.
struct Figure<'a> {
    name: &'a str,
    address: &'a str,
    /// `None`: nobody knows.
    value: Option<String>,
    note: String,
    class: &'a str,
}

/// Each leads to the list that it counts. One that is only a lower bound says so.
fn figures(shown: &Overview) -> Markup {
    let at_least = |count: u64, more: bool| if more { format!("{count}+") } else { count.to_string() };
    let is_uncertain = shown.queues.iter().any(|queue| queue.uncertain);
    let waiting: u64 = shown.queues.iter().map(|queue| queue.waiting).sum();
    let more_waiting = shown.has_more_queues || is_uncertain || shown.queues.iter().any(|queue| queue.has_more_waiting);
    let running: u64 = shown.queues.iter().map(|queue| queue.running).sum();
    let failed = shown.failed.jobs.len() as u64;
    let more_failed = shown.failed.next_cursor.is_some();
    let slots = shown.workers.as_ref().map(|workers| {
        let there = workers.iter().filter(|worker| !worker.is_gone());
        format!("of {} slots", there.map(|worker| worker.slots).sum::<u32>())
    });
    let overdue = &shown.overdue;
    // Without an answer of every server, a zero is a guess.
    let known = |count: u64, text: String| (count > 0 || !is_uncertain).then_some(text);
    let figures = [
        Figure {
            name: "Due and waiting",
            address: "/queues",
            value: known(waiting, at_least(waiting, more_waiting)),
            note: "for a worker or a limit".to_owned(),
            class: "",
        },
        Figure {
            name: "Running",
            address: "/jobs?state=running",
            value: known(running, at_least(running, shown.has_more_queues || is_uncertain)),
            note: slots.unwrap_or_default(),
            class: "",
        },
        Figure {
            name: "Late",
            address: "#attention",
            value: Some(at_least(overdue.jobs_total, overdue.jobs_total_is_minimum)),
            note: "by more than a minute".to_owned(),
            class: if overdue.jobs_total > 0 { "warn" } else { "" },
        },
        Figure {
            name: "Failed",
            address: "/jobs?state=failed",
            value: (failed > 0 || !more_failed).then(|| at_least(failed, more_failed)),
            note: "of those due in the last 24 h".to_owned(),
            class: if failed > 0 { "bad" } else { "" },
        },
    ];
    html! {
        ul.cards #figures data-part {
            @for figure in figures {
                li class=(figure.class) {
                    a href=(figure.address) {
                        span.k { (figure.name) }
                        @match &figure.value { Some(value) => { span.v { (value) } } None => { span.v.unknown { "not known" } } }
                        span.s { (figure.note) }
                    }
                }
            }
        }
    }
}

fn attention(viewer: &Viewer, shown: &Overview) -> Markup {
    let unserved: Vec<&QueueView> =
        shown.queues.iter().filter(|queue| queue.waiting > 0 && !queue.is_served && queue.state != "paused").collect();
    let paused: Vec<&QueueView> =
        shown.queues.iter().filter(|queue| queue.state == "paused" && queue.waiting > 0).collect();
    let overdue = &shown.overdue;
    let failures = groups(&shown.failed);
    let nothing = unserved.is_empty()
        && paused.is_empty()
        && failures.is_empty()
        && overdue.jobs.is_empty()
        && overdue.planned.is_empty()
        && overdue.shards_without_owner.is_empty();
    html! {
        @if nothing {
            p { (Meaning::Ok.alone()) " Nothing. What is due starts, and every queue with jobs has a worker." }
        } @else {
            ul.attention {
                @if !overdue.shards_without_owner.is_empty() {
                    li {
                        (Meaning::Lost.alone())
                        div { strong { (count(overdue.shards_without_owner.len(), "shard has", "shards have")) " no owner." } p.muted { "Their jobs wait until a server takes them over." } }
                        div.actions { a.btn href="/cluster" { "Servers" } }
                    }
                }
                @for queue in unserved {
                    li {
                        (Meaning::Warning.alone())
                        div {
                            "No worker serves queue " strong { (user(&queue.name)) } "; " (waits(queue))
                            @if let Some(since) = queue.waiting_since { ", the oldest since " (time(viewer, since)) }
                            p.muted { "Start one: " code { "punctual worker --queues " (queue.name) } }
                        }
                        div.actions { a.btn href=(address("/jobs", [("queue", Some(&*queue.name)), ("state", Some("scheduled"))])) { "Jobs" } }
                    }
                }
                @for queue in paused {
                    li {
                        (Meaning::Off.alone())
                        div {
                            "Queue " strong { (user(&queue.name)) } " is paused; " (waits(queue))
                            @if let Some(changed) = &queue.state_changed { p.muted { "By " (user(&changed.who)) " " (ago(viewer, changed.at)) } }
                        }
                        @if viewer.may(Right::ControlJobs) { div.actions { (action(&format!("/queues/{}/resume", escaped(&queue.name)), "Resume", ActionKind::Other)) } }
                    }
                }
                @for group in failures.iter().take(FAILURES_SHOWN) { (failure(viewer, group)) }
                @if shown.failed.next_cursor.is_some() {
                    li { (Meaning::Failed.alone()) div.muted { "Only the latest " (shown.failed.jobs.len()) " failures of the last 24 h are grouped here." } }
                }
                @for job in overdue.jobs.iter().take(OVERDUE_SHOWN) {
                    li {
                        (Meaning::Warning.alone())
                        div { strong { (user(&job.task)) } " is " (duration(job.late_by)) " late" p.muted { (user(&job.why)) } }
                        div.actions { a.btn href=(format!("/jobs/{}", job.job)) { "Look" } }
                    }
                }
                @if overdue.jobs.len() > OVERDUE_SHOWN {
                    li { (Meaning::Warning.alone()) div { (overdue.jobs_total) @if overdue.jobs_total_is_minimum { "+" } " jobs are late in all." } }
                }
                @for planned in overdue.planned.iter().take(OVERDUE_SHOWN) {
                    li {
                        (Meaning::Warning.alone())
                        div { "A run of " strong { (user(&planned.schedule)) } " was planned for " (time(viewer, planned.at)) p.muted { (user(&planned.why)) } }
                        div.actions { a.btn href=(format!("/schedules/{}", escaped(&planned.schedule))) { "Look" } }
                    }
                }
            }
        }
    }
}

fn waits(queue: &QueueView) -> String {
    match (queue.waiting, queue.has_more_waiting) {
        (1, false) => "1 due job waits".to_owned(),
        (count, more) => format!("{count}{} due jobs wait", if more { "+" } else { "" }),
    }
}

fn failure(viewer: &Viewer, group: &Group<'_>) -> Markup {
    let task = group.sample.task.name.as_deref();
    let all = address("/jobs", [("state", Some("failed")), ("task", task)]);
    html! {
        li {
            (Meaning::Failed.alone())
            div {
                strong { (user(title_of(group.sample))) } " failed "
                @if group.count == 1 { "once" } @else { (group.count) " times" }
                ", last due " (ago(viewer, group.last)) " with " (code(&short(&group.message, 160)))
            }
            div.actions {
                a.btn href=(format!("/jobs/{}", group.sample.id)) { "Look" }
                @if group.count > 1 && task.is_some() { a.btn href=(all) { "All" } }
            }
        }
    }
}

/// Failures with the same task and the same reason, which are one line.
struct Group<'a> {
    count: usize,
    last: Timestamp,
    message: String,
    sample: &'a JobSummary,
}

fn groups(failed: &JobList) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(&str, String), Group<'_>> = BTreeMap::new();
    for job in &failed.jobs {
        let reason = job.reason.as_deref().unwrap_or("no reason given");
        let key = (title_of(job), fingerprint(reason));
        let group =
            groups.entry(key).or_insert(Group { count: 0, last: job.due_at, message: reason.to_owned(), sample: job });
        group.count += 1;
        if job.due_at >= group.last {
            (group.last, group.sample, group.message) = (job.due_at, job, reason.to_owned());
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse((group.count, group.last)));
    groups
}

const FINGERPRINT_CHARS_MAX: usize = 120;

/// The first line of a reason with its numbers left out, so that "timed out after 31 s" and "after 32 s" are one.
fn fingerprint(reason: &str) -> String {
    let mut out = String::new();
    for character in reason.chars().take(FINGERPRINT_CHARS_MAX) {
        match character {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            '\n' | '\r' => break,
            other => out.push(other),
        }
    }
    out
}

/// The next starts: of schedules and of single jobs.
fn next(viewer: &Viewer, shown: &Overview) -> Markup {
    let jobs = shown.waiting.jobs.iter().map(|job| {
        let about = job.schedule.as_ref().map_or("job", |_| "job of a schedule");
        (job.due_at, title_of(job), format!("/jobs/{}", job.id), about)
    });
    let schedules = shown.schedules.iter().flatten().filter_map(|schedule| {
        let next = schedule.next.first()?;
        Some((
            next.start_at,
            schedule.name.as_str(),
            format!("/schedules/{}", escaped(&schedule.name)),
            schedule.explanation.as_str(),
        ))
    });
    let mut rows: Vec<_> = jobs.chain(schedules).collect();
    rows.sort_by_key(|(at, ..)| *at);
    html! {
        div.row { h2 { "Next up" } span.zone { "times in " (zone_name(&viewer.zone)) } @if viewer.may(Right::ViewSchedules) { a.end href="/schedules" { "Schedules" } } }
        @if rows.is_empty() {
            (empty("Nothing is planned.", &html! { "Jobs with a time and the runs of schedules appear here." }))
        } @else {
            table {
                thead.hidden { tr { th { "When" } th { "What" } } }
                tbody {
                    @for (at, name, link, about) in rows.iter().take(NEXT_SHOWN) {
                        tr {
                            td { (time(viewer, *at)) span.small { (ago(viewer, *at)) } }
                            td.wrap { a href=(link) { (user(name)) } span.small.muted { (user(&short(about, 80))) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_numbers_are_one_kind() {
        assert_eq!(fingerprint("timed out after 31 s"), fingerprint("timed out after 132 s"));
        assert_ne!(fingerprint("exit code 1"), fingerprint("signal 9"));
        assert_eq!(fingerprint("first line\nsecond"), "first line");
    }
}
