//! Says in a sentence what became of a planned time and why, and what a clock change does.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use punctual_api::ClockChangeView;
use punctual_core::schedule::recurrence::{ClockChange, ClockChangeEffect, Effect};
use punctual_core::schedule::{Marks, OccurrenceRow, Plan, Planned, Unfired, Verdict};
use punctual_core::{Span, Timestamp};

use crate::schedules::zone::from_jiff;

/// A run within this of its time is on time for people.
pub(super) const ON_TIME: Span = Span::from_secs(1);

/// When it fires for the name with this seed. The plan keeps jitter to itself, because it moves starts and not planned times.
pub(super) fn plan(plan: &Plan, seed: u64) -> String {
    let when = plan.schedule(seed).explain();
    match plan.jitter() {
        Span::ZERO => when,
        jitter => format!("{when}, each run delayed by less than {jitter} (jitter)"),
    }
}

/// What became of a planned time and why. `waits` says that its job has not started, and what time it is.
pub(super) fn occurrence(row: &OccurrenceRow, waits: Option<Timestamp>) -> String {
    if row.marks.has(Marks::STRETCH) {
        return stretch(row);
    }
    let because = |fallback: &str| row.reason.clone().unwrap_or_else(|| fallback.to_owned());
    let mut text = match row.verdict {
        Verdict::Fired => match waits {
            Some(now) => fired_and_waiting(row, now),
            None => fired(row),
        },
        Verdict::Queued => match waits {
            Some(now) if now.since(row.slot) > ON_TIME => {
                format!("waits since {} for the run before it to end", row.slot)
            }
            _ => "waits for the run before it to end".to_owned(),
        },
        Verdict::SkippedOverlap => format!("did not run: {}", because("a run before it had not ended")),
        Verdict::SkippedPaused => format!("did not run: {}", because("the schedule was paused")),
        Verdict::SkippedCalendar => format!("did not run: {}", because("a calendar closes its date")),
        Verdict::SkippedGap => format!("did not run: {}", because("the clocks left its time out")),
        Verdict::SkippedByRequest => format!("did not run: {}", because("somebody asked to skip it")),
        Verdict::SkippedMaxRuns => {
            format!("did not run: {}", because("the schedule had run as often as `max_runs` allows"))
        }
        Verdict::Missed => format!("was missed: {}", because("no server handled it in time")),
    };
    let marks = [
        (Marks::SHIFTED, "the clocks left its time out, so it came right after the gap"),
        (Marks::FIRST_OF_FOLD, "the clocks showed its time twice, and this was the first"),
        (Marks::SECOND_OF_FOLD, "the clocks showed its time twice, and this was the second"),
        (Marks::MOVED, "a calendar moved it to a business day"),
        (Marks::CANCELS_PREVIOUS, "the run before it was cancelled for it"),
    ];
    for (_, words) in marks.into_iter().filter(|(mark, _)| row.marks.has(*mark)) {
        text += &format!("; {words}");
    }
    if let Some(words) = delayed_in_the_past(row) {
        text += &format!("; {words}");
    }
    if is_replay_without_run(row) {
        text += "; no server handled it in time";
    }
    if row.count > 1 {
        text += &format!("; it stands for {} planned times", row.count);
    }
    text
}

/// Whether it was missed, waited for its turn to run after all, and has not run.
pub(super) fn is_replay_without_run(row: &OccurrenceRow) -> bool {
    row.marks.has(Marks::REPLAYED) && row.verdict != Verdict::Fired
}

/// Why it did not start at its time, although all was well.
fn delayed_in_the_past(row: &OccurrenceRow) -> Option<String> {
    let delay = row.slot.since(row.at);
    match row.verdict {
        Verdict::Fired | Verdict::Queued if delay > Span::ZERO => {
            Some(format!("jitter delayed it by {}", about(delay)))
        }
        Verdict::Fired
        | Verdict::Queued
        | Verdict::SkippedOverlap
        | Verdict::SkippedPaused
        | Verdict::SkippedCalendar
        | Verdict::SkippedGap
        | Verdict::SkippedByRequest
        | Verdict::SkippedMaxRuns
        | Verdict::Missed => None,
    }
}

fn fired(row: &OccurrenceRow) -> String {
    let job = row.job.map(|job| format!(" as {job}")).unwrap_or_default();
    // Its run may not have started yet; a row of an earlier version does not say when it did.
    let late_by = row.started_at.unwrap_or(row.decided_at).since(row.slot);
    let late = rounded(late_by);
    let mut text = if row.marks.has(Marks::MANUAL) {
        // Of a row of an earlier version nobody knows who it was.
        format!("fired{job}, because {} asked for it", row.requested_by.as_deref().unwrap_or("somebody"))
    } else if row.marks.has(Marks::REPLAYED) {
        format!("fired{job} {late} after its time, because no server handled it in time")
    } else if row.marks.has(Marks::LATE) {
        format!("fired{job}, {late} late")
    } else if late_by > ON_TIME {
        format!("fired{job}, {late} after its time")
    } else {
        format!("fired{job}, on time")
    };
    if let Some(reason) = &row.reason {
        text += &format!(": {reason}");
    }
    text
}

fn fired_and_waiting(row: &OccurrenceRow, now: Timestamp) -> String {
    let job = row.job.map(|job| format!(" as {job}")).unwrap_or_default();
    let late =
        if row.marks.has(Marks::LATE) { format!(", late by {}", rounded(now.since(row.slot))) } else { String::new() };
    let reason = row.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    // The job of a time that was missed, or waited for the run before it, was made later.
    let since = row.job.map_or(row.slot, |job| row.slot.max(job.due_at()));
    format!("fired{job}; waiting to start since {since}{late}{reason}")
}

fn stretch(row: &OccurrenceRow) -> String {
    let what = match row.verdict {
        Verdict::SkippedPaused => "did not run, because the schedule was paused",
        Verdict::Fired
        | Verdict::Queued
        | Verdict::SkippedOverlap
        | Verdict::SkippedCalendar
        | Verdict::SkippedGap
        | Verdict::SkippedByRequest
        | Verdict::SkippedMaxRuns
        | Verdict::Missed => "were missed, because no server was there",
    };
    format!("{} planned times from here on {what}; they were too many for a line each", row.count)
}

/// To the second above a minute, to the millisecond below: people read this.
fn rounded(span: Span) -> Span {
    let unit = if span.as_micros() >= 60_000_000 { 1_000_000 } else { 1000 };
    Span::from_micros(span.as_micros() / unit * unit)
}

/// To the second, or below one to the millisecond.
fn about(delay: Span) -> Span {
    let unit = if delay.as_micros() >= 1_000_000 { 1_000_000 } else { 1000 };
    Span::from_micros(delay.as_micros() / unit * unit)
}

/// What a clock change, a calendar or jitter has to do with a time that is to come. `nominal` is the time of day that was
/// meant, and `planned_on` the day that it was moved from.
pub(super) fn planned(planned: &Planned, nominal: Option<DateTime>, planned_on: Option<DateTime>) -> Option<String> {
    match planned.unfired {
        Some(Unfired::Calendar) => return Some("does not fire: a calendar closes this day".to_owned()),
        Some(Unfired::Gap) => return Some("does not fire: the clocks leave its time out on this day".to_owned()),
        None => {}
    }
    let time = nominal.map_or_else(|| "its time".to_owned(), clock);
    let mut notes = Vec::new();
    if planned.marks.has(Marks::SHIFTED) {
        notes.push(format!("shifted: {time} does not exist on this day"));
    }
    if planned.marks.has(Marks::FIRST_OF_FOLD) {
        notes.push(format!("{time} comes twice on this day; this is the first"));
    }
    if planned.marks.has(Marks::SECOND_OF_FOLD) {
        notes.push(format!("{time} comes twice on this day; this is the second"));
    }
    if planned.marks.has(Marks::MOVED) {
        let from = planned_on.map(|from| format!(" from {}", from.date())).unwrap_or_default();
        notes.push(format!("moved{from} to a business day"));
    }
    let delay = planned.slot.since(planned.at);
    if delay > Span::ZERO {
        notes.push(format!("starts {} later (jitter)", about(delay)));
    }
    if notes.is_empty() { None } else { Some(notes.join("; ")) }
}

/// A clock change in words.
pub(super) fn clock_change(change: &ClockChange, zone: &TimeZone, rules: usize) -> ClockChangeView {
    let (before, after) = (change.clock_before, change.clock_after);
    let explanation = if before.date() == after.date() {
        format!("on {} the clocks go from {} to {}", after.date(), clock(before), clock(after))
    } else {
        format!("the clocks go from {} {} to {} {}", before.date(), clock(before), after.date(), clock(after))
    };
    ClockChangeView {
        at: from_jiff(change.at),
        explanation,
        effects: change.effects.iter().map(|effect| effect_in_words(effect, zone, rules)).collect(),
        more_effects: change.more_count,
    }
}

fn effect_in_words(effect: &ClockChangeEffect, zone: &TimeZone, rules: usize) -> String {
    let time = clock(effect.nominal);
    let on_clock = |at: jiff::Timestamp| clock(zone.to_datetime(at));
    let utc = |at: jiff::Timestamp| -> Timestamp { from_jiff(at) };
    let words = match effect.effect {
        Effect::Moved { to } => format!("{time} does not exist and fires at {} instead", on_clock(to)),
        Effect::Merged { into } => format!("{time} does not exist and is merged into the run at {}", on_clock(into)),
        Effect::Skipped => format!("{time} does not exist and does not fire"),
        Effect::FirstOnly { at } => format!("{time} comes twice and fires the first time, at {}", utc(at)),
        Effect::LastOnly { at } => format!("{time} comes twice and fires the second time, at {}", utc(at)),
        Effect::Repeated { first, second } => {
            format!("{time} comes twice and fires both times, at {} and {}", utc(first), utc(second))
        }
    };
    if rules > 1 { format!("rule {}: {words}", effect.rule + 1) } else { words }
}

/// `09:30`, or `09:30:15` where there are seconds.
fn clock(at: DateTime) -> String {
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    if second == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{second:02}") }
}

#[cfg(test)]
#[path = "explain_tests.rs"]
mod tests;
