//! The built-in words: short lines, the most important first, so that a phone shows what matters.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::tz::TimeZone;
use punctual_api::{MessageAttempt, MessageEvent, NotificationMessage};
use punctual_core::{Span, Timestamp};

use super::TEXT_BYTES_MAX;
use crate::notify::event::EventKind;
use crate::schedules::zone::to_jiff;

/// `[punctual] nightly-report failed`, or `[punctual] 9,997 failed, 2 missed in 3 tasks`.
pub(super) fn subject(message: &NotificationMessage) -> String {
    format!("[punctual] {}", summary(message))
}

/// In a line, what a message is about.
pub(in crate::notify) fn summary(message: &NotificationMessage) -> String {
    let counted = counted(&message.counts);
    match (&message.events[..], &message.tasks[..]) {
        ([only], _) if total(&message.counts) == only.count => format!("{} {}", only.task, sentence(only)),
        (_, [only]) if message.more_tasks == 0 => format!("{}: {counted}", only.task),
        (_, tasks) => {
            let at_least = if message.more_tasks > 0 { "at least " } else { "" };
            let tasks = tasks.len() as u64 + message.more_tasks;
            format!("{counted} in {at_least}{} tasks", number(tasks))
        }
    }
}

pub(super) fn text(message: &NotificationMessage) -> String {
    let mut text = String::new();
    let only = message.events.first().filter(|first| total(&message.counts) == first.count);
    if let Some(only) = only {
        event(&mut text, only);
    } else {
        totals(&mut text, message);
        for shown in &message.events {
            text += "\n";
            event(&mut text, shown);
        }
        let shown: u64 = message.events.iter().map(|event| event.count).sum();
        let more = total(&message.counts).saturating_sub(shown);
        if more > 0 {
            line(&mut text, format_args!("\nand {} more.", number(more)));
        }
    }
    line(&mut text, format_args!("\n-- \nPunctual, rule {}", message.rule));
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX - 4));
        text += " …\n";
    }
    text
}

fn totals(text: &mut String, message: &NotificationMessage) {
    line(text, format_args!("{}", counted(&message.counts)));
    line(text, format_args!("from {}", utc(message.since)));
    line(text, format_args!("to   {}", utc(message.until)));
    let has_tasks = message.tasks.len() > 1 || message.more_tasks > 0;
    if has_tasks {
        line(text, format_args!("\nBy task:"));
        for task in &message.tasks {
            line(text, format_args!("  {}: {}", task.task, counted(&task.counts)));
        }
        if message.more_tasks > 0 {
            line(text, format_args!("  and {} or more other tasks", number(message.more_tasks)));
        }
    }
    let has_schedules = message.schedules.len() > 1 && !are_named_as_tasks(message);
    if has_schedules {
        line(text, format_args!("\nBy schedule:"));
        for schedule in &message.schedules {
            line(text, format_args!("  {}: {}", schedule.schedule, counted(&schedule.counts)));
        }
        if message.has_more_schedules {
            line(text, format_args!("  and more schedules"));
        }
    }
    if has_tasks || has_schedules {
        line(text, format_args!("\nSome of them:"));
    }
}

/// Tasks without a name of their own are called by their schedules: then one list is enough.
fn are_named_as_tasks(message: &NotificationMessage) -> bool {
    let is_named = |name: &str| message.tasks.iter().any(|task| task.task == name);
    message.schedules.iter().all(|schedule| is_named(&schedule.schedule))
}

fn event(text: &mut String, event: &MessageEvent) {
    line(text, format_args!("{} {}", event.task, sentence(event)));
    if let Some(reason) = &event.reason {
        line(text, format_args!("{reason}"));
    }
    line(text, format_args!("at       {}", utc(event.at)));
    if let Some(late_by) = event.late_by {
        line(text, format_args!("late by  {}", for_people(late_by)));
    }
    if let Some(schedule) = &event.schedule {
        line(text, format_args!("schedule {schedule}"));
    }
    if let Some(planned_at) = event.planned_at {
        line(text, format_args!("planned  {}", utc(planned_at)));
    }
    if let Some(local) = &event.planned_local {
        line(text, format_args!("         {local}"));
    }
    if let Some(job) = event.job {
        line(text, format_args!("job      {job}"));
    }
    // That of a run that was planned stands above.
    if let Some(scheduled_at) = event.scheduled_at.filter(|scheduled_at| event.planned_at != Some(*scheduled_at)) {
        line(text, format_args!("run at   {}", utc(scheduled_at)));
    }
    if let Some(state) = &event.state {
        line(text, format_args!("state    {state}"));
    }
    if let Some(tracing_id) = &event.tracing_id {
        line(text, format_args!("trace    {tracing_id}"));
    }
    attempts(text, event);
    if let Some(link) = &event.link {
        line(text, format_args!("{link}"));
    }
}

fn attempts(text: &mut String, event: &MessageEvent) {
    if event.earlier_attempts > 0 {
        line(text, format_args!("attempts (after {} earlier ones)", event.earlier_attempts));
    } else if !event.attempts.is_empty() {
        line(text, format_args!("attempts"));
    }
    for attempt_shown in &event.attempts {
        let MessageAttempt { attempt, started_at, took, ending, reason, .. } = attempt_shown;
        let took = took.map(|took| format!(" after {}", for_people(took))).unwrap_or_default();
        line(text, format_args!("  {attempt}. {ending}{took}"));
        if let Some(reason) = reason.as_ref().filter(|reason| Some(*reason) != event.reason.as_ref()) {
            line(text, format_args!("     {reason}"));
        }
        line(text, format_args!("     started {}", utc(*started_at)));
        line(text, format_args!("     on {}", worker(attempt_shown)));
    }
}

/// `nightly at host-7 (worker_…)`: a name alone may be that of many.
fn worker(attempt: &MessageAttempt) -> String {
    let MessageAttempt { worker, worker_name, worker_host, .. } = attempt;
    match (worker_name, worker_host) {
        (Some(name), Some(host)) if name != host => format!("{name} at {host} ({worker})"),
        (Some(name), _) => format!("{name} ({worker})"),
        (None, _) => worker.clone(),
    }
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{words}");
}

/// What happened, of one job or one planned time.
fn happened(kind: &str) -> &str {
    match EventKind::ALL.into_iter().find(|known| known.as_str() == kind) {
        Some(EventKind::Quarantined) => "was set aside",
        Some(EventKind::Lost) => "was lost",
        Some(EventKind::Failed) => "failed",
        Some(EventKind::Missed) => "missed its time",
        Some(EventKind::Overdue) => "is overdue",
        Some(EventKind::Late) => "is late",
        Some(EventKind::Recovered) => "is well again",
        None => kind,
    }
}

fn sentence(event: &MessageEvent) -> String {
    if event.count <= 1 {
        return happened(&event.kind).to_owned();
    }
    match EventKind::ALL.into_iter().find(|known| known.as_str() == event.kind) {
        Some(EventKind::Missed) => format!("missed {} planned times", number(event.count)),
        Some(EventKind::Late) => format!("started late {} times", number(event.count)),
        Some(
            EventKind::Quarantined | EventKind::Lost | EventKind::Failed | EventKind::Overdue | EventKind::Recovered,
        )
        | None => format!("{} ({} times)", happened(&event.kind), number(event.count)),
    }
}

/// `9,997 failed, 2 missed`.
fn counted(counts: &BTreeMap<String, u64>) -> String {
    let known = EventKind::ALL.into_iter().filter_map(|kind| Some((kind.as_str(), counts.get(kind.as_str())?)));
    let parts: Vec<String> = known.map(|(kind, count)| format!("{} {kind}", number(*count))).collect();
    parts.join(", ")
}

fn total(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().fold(0, |sum, count| sum.saturating_add(*count))
}

/// `9,997`
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).expect("digits are ASCII")).collect();
    groups.join(",")
}

/// `2026-11-16 03:00:00 UTC`
pub(super) fn utc(at: Timestamp) -> String {
    to_jiff(at).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// `2026-11-16 04:00:00 CET (Europe/Berlin)`; nothing for UTC, which stands above it.
pub(in crate::notify) fn local(at: Timestamp, zone: &TimeZone) -> Option<String> {
    let name = zone.iana_name().filter(|name| *name != "UTC" && *name != "Etc/UTC")?;
    let local = to_jiff(at).to_zoned(zone.clone());
    Some(format!("{} ({name})", local.strftime("%Y-%m-%d %H:%M:%S %Z")))
}

/// To the second above a minute, to the millisecond below.
pub(in crate::notify) fn for_people(span: Span) -> Span {
    let micros = span.as_micros();
    let unit = if micros >= 60_000_000 { 1_000_000 } else { 1000 };
    Span::from_micros(micros / unit * unit)
}

/// At most so many characters, with a sign that there were more.
pub(in crate::notify) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some(_) => {
            let end = text.char_indices().nth(chars_max.saturating_sub(1)).map_or(0, |(end, _)| end);
            format!("{}…", &text[..end])
        }
    }
}
