//! One schedule: what became of its past times and what comes next, on one line.

use maud::{Markup, html};
use punctual_api::{OccurrenceList, OccurrenceView, Preview, ScheduleStanding, ScheduleView, UnfiredBy};
use punctual_core::access::Right;

use crate::commands::{curl, panel, punctual};
use crate::layout::{self, ActionKind, Content, action, confirmed};
use crate::state::{Meaning, big};
use crate::text::{clean, escaped, user};
use crate::times::{ago, caption, span, time, time_and_ago, with_times};
use crate::{Confirmation, Page, Viewer};

pub fn schedule(
    viewer: &Viewer,
    schedule: &ScheduleView,
    past: &OccurrenceList,
    preview: &Preview,
    notice: Option<Confirmation>,
) -> Page {
    let meaning = Meaning::of(schedule.state.as_str());
    let headline = match (schedule.state, preview.occurrences.iter().find(|planned| planned.unfired.is_none())) {
        (ScheduleStanding::Active, Some(next)) => {
            html! { "Runs next at " (time(viewer, next.start_at)) " " (ago(viewer, next.start_at)) }
        }
        (ScheduleStanding::Active, None) => html! { "No run is planned." },
        (ScheduleStanding::Paused, _) => html! { "Paused: nothing runs until it is resumed." },
        (ScheduleStanding::Ended, _) => html! { "It has ended and will not run again." },
        (ScheduleStanding::Broken, _) => html! { "It cannot run." },
    };
    let main = html! {
        p.crumbs { a href="/schedules" { "Schedules" } "/" strong { (user(&schedule.name)) } }
        section class=(format!("panel why {}", meaning.class())) #why data-part {
            (big(meaning, schedule.state.as_str()))
            div {
                h1 { (headline) }
                p.text { (with_times(viewer, &schedule.explanation)) }
                @if let Some(reason) = &schedule.reason { p.warning { (user(reason)) } }
                @if let Some(pause) = &schedule.pause {
                    p { "Paused by " (user(&pause.who)) " " (time_and_ago(viewer, pause.at)) @if let Some(note) = &pause.note { ": " (user(note)) } }
                }
                @if let Some(until) = schedule.skip_until { p { "Planned times up to " (time(viewer, until)) " are skipped." } }
                @for warning in &schedule.warnings { p.warning { (user(&warning.detail)) } }
            }
            (actions(viewer, schedule))
        }
        (line(viewer, past, preview))
        div.two {
            div.stack {
                @if past.occurrences.is_empty() { (planned(viewer, schedule, preview)) }
                (history(viewer, past))
            }
            div.stack {
                @if !past.occurrences.is_empty() { (planned(viewer, schedule, preview)) }
                (facts(viewer, schedule))
                (panel(&[
                    punctual(viewer, &["schedule", "get", &schedule.name]),
                    punctual(viewer, &["schedule", "preview", &schedule.name]),
                    curl(viewer, "GET", &format!("/v1/schedules/{}", escaped(&schedule.name)), None),
                ]))
            }
        }
    };
    layout::page(viewer, &Content::live(&schedule.name, notice), &main)
}

fn actions(viewer: &Viewer, schedule: &ScheduleView) -> Markup {
    let address = |verb: &str| format!("/schedules/{}/{verb}", escaped(&schedule.name));
    let is_active = schedule.state == ScheduleStanding::Active;
    html! {
        div.actions {
            @if viewer.may(Right::ControlSchedules) {
                @if schedule.state == ScheduleStanding::Paused { (action(&address("resume"), "Resume", ActionKind::First)) }
                (action(&address("run"), "Run now", if is_active { ActionKind::First } else { ActionKind::Other }))
                @if is_active {
                    (action(&address("skip"), "Skip next", ActionKind::Other))
                    (confirmed(&address("pause"), "Pause", "Nothing is started at the planned times until it is resumed."))
                }
            }
            @if viewer.may(Right::EditSchedules) { a.btn href=(address("edit")) { "Edit" } }
        }
    }
}

/// Past verdicts and planned times around the now line.
fn line(viewer: &Viewer, past: &OccurrenceList, preview: &Preview) -> Markup {
    let title = |at: &str, what: &str| format!("{}: {}", clean(at), what.replace('_', " "));
    html! {
        section.panel #line data-part {
            div.row { h2 { "Past, now and next" } span.legend.end { (Meaning::Ok.named("ran")) (Meaning::Off.named("skipped")) (Meaning::Lost.named("missed")) (Meaning::Moved.named("clock change")) (Meaning::Planned.named("planned")) } }
            div.dots role="group" aria-label="Past times, now, and planned times" {
                @for row in past.occurrences.iter().rev() {
                    @let meaning = if row.marks.is_empty() { Meaning::of_verdict(&row.verdict) } else { marked(row) };
                    (meaning.dot(&title(&row.local, &row.verdict)))
                }
                span.now role="img" aria-label="now" title="now" {}
                @for next in &preview.occurrences {
                    @let (meaning, word) = match next.unfired {
                        Some(UnfiredBy::Gap) => (Meaning::Moved, "left out by a clock change"),
                        Some(UnfiredBy::Calendar) => (Meaning::Off, "closed by a calendar"),
                        Some(UnfiredBy::Request) => (Meaning::Off, "will be skipped"),
                        None if next.note.is_some() => (Meaning::Moved, "planned, moved"),
                        None => (Meaning::Planned, "planned"),
                    };
                    (meaning.dot(&title(&next.local, word)))
                }
            }
            @for change in &preview.clock_changes { p.small.muted { (user(&change.explanation)) ": " (with_times(viewer, &change.effects.join("; "))) } }
        }
    }
}

/// Late ones stay what they are; those that the clocks moved are shown as such.
fn marked(row: &OccurrenceView) -> Meaning {
    let is_clock = row
        .marks
        .iter()
        .any(|mark| mark.contains("shift") || mark.contains("dst") || mark.contains("gap") || mark.contains("fold"));
    if is_clock && row.verdict == "fired" { Meaning::Moved } else { Meaning::of_verdict(&row.verdict) }
}

fn planned(viewer: &Viewer, schedule: &ScheduleView, preview: &Preview) -> Markup {
    html! {
        @if !preview.occurrences.is_empty() && schedule.state == ScheduleStanding::Active {
            section.panel.flush #planned data-part {
                table {
                    (caption(viewer, "Next runs"))
                    thead { tr { th scope="col" { "Starts" } th scope="col" { "In " (clean(&schedule.zone)) } } }
                    tbody {
                        @for next in &preview.occurrences {
                            tr {
                                td { (time(viewer, next.start_at)) span.small { (ago(viewer, next.start_at)) } }
                                td.wrap {
                                    (clean(&next.local))
                                    @if let Some(note) = &next.note { span.small.warning { (user(note)) } }
                                    @if next.unfired.is_some() { span.small.muted { "does not run" } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn history(viewer: &Viewer, past: &OccurrenceList) -> Markup {
    html! {
        section.panel.flush #history data-part {
            @if past.occurrences.is_empty() {
                div.row { h2 { "Past times" } }
                p.more.muted { "No planned time has passed yet." }
            } @else {
                table.list {
                    (caption(viewer, "Past times"))
                    thead { tr { th scope="col" { "Planned" } th scope="col" { "What became of it" } th.number scope="col" { "Late by" } th scope="col" { "Job" } } }
                    tbody {
                        @for row in &past.occurrences {
                            tr id=(format!("at-{}", row.at.as_micros())) {
                                td { (time(viewer, row.at)) span.small.muted { (clean(&row.local)) } }
                                td.wrap {
                                    (Meaning::of_verdict(&row.verdict).dot(&row.verdict.replace('_', " "))) " " (with_times(viewer, &row.explanation))
                                    @if let Some(by) = &row.requested_by { span.small.muted { "asked for by " (user(by)) } }
                                }
                                td.number data-k="Late by" { (span(row.late_by)) }
                                td { @if let Some(job) = &row.job { a href=(format!("/jobs/{job}")) { "job" } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn facts(viewer: &Viewer, schedule: &ScheduleView) -> Markup {
    html! {
        section.panel aria-label="Facts" {
            div.row { h2 { "Facts" } }
            dl {
                dt { "Runs" } dd { @match &schedule.task.name { Some(name) => { a href=(format!("/tasks/{}", escaped(name))) { (user(name)) } } None => { "a " (schedule.task.kind) " of its own" } } }
                dt { "Zone" } dd { (clean(&schedule.zone)) }
                dt { "Revision" } dd { (schedule.revision) }
                dt { "Created" } dd { (time_and_ago(viewer, schedule.created.at)) " by " (user(&schedule.created.who)) }
                @for change in schedule.changes.iter().take(5) {
                    dt { (clean(&change.kind)) } dd { (time_and_ago(viewer, change.at)) " by " (user(&change.who)) @if let Some(note) = &change.note { ": " (user(note)) } }
                }
            }
        }
    }
}
