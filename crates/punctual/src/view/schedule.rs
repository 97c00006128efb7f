//! What schedules look like in tables and in detail.

use comfy_table::{Cell, Color};
use punctual_api::{
    DoneBy, OccurrenceView, PlannedStart, ScheduleChangeView, ScheduleRequest, ScheduleStanding, ScheduleSummary,
    ScheduleView,
};

use super::{Detail, one_line, run_summary, task_ref, word};
use crate::clock::now;
use crate::output::{Output, Row};
use crate::table::Yield;
use crate::zone::{plain_local, relative, short};

impl Row for ScheduleSummary {
    const HEADER: &'static [&'static str] = &["NAME", "STATE", "TASK", "WHEN", "ZONE", "NEXT", ""];
    const YIELDS: &'static [Yield] = &[
        Yield::Cut("WHEN", 40),
        Yield::ShortTimes,
        Yield::Cut("TASK", 16),
        Yield::Cut("WHEN", 24),
        Yield::Drop("TASK"),
        Yield::Cut("NAME", 24),
        Yield::Drop(""),
        Yield::Cut("WHEN", 12),
        // The next start has it as well.
        Yield::Drop("WHEN"),
        Yield::Drop("ZONE"),
        Yield::Cut("NAME", 12),
    ];

    fn name(&self) -> String {
        self.name.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        let next = self.next.first();
        vec![
            Cell::new(&self.name),
            standing(self.state, out),
            Cell::new(self.task.name.as_deref().unwrap_or(&self.task.kind)),
            // The zone has a column of its own, which is not cut.
            Cell::new(one_line(&out.zone.localize(&self.explanation.replacen(&format!(", {}", self.zone), "", 1)))),
            Cell::new(&self.zone),
            Cell::new(next.map_or_else(|| "-".to_owned(), |next| plain_local(&next.local))),
            Cell::new(next.map_or_else(String::new, |next| out.relative(next.start_at))),
        ]
    }
}

fn standing(state: ScheduleStanding, out: &Output) -> Cell {
    let cell = Cell::new(state.as_str());
    if !out.colored {
        return cell;
    }
    match state {
        ScheduleStanding::Active => cell.fg(Color::DarkGreen),
        ScheduleStanding::Paused => cell.fg(Color::DarkYellow),
        ScheduleStanding::Ended => cell,
        ScheduleStanding::Broken => cell.fg(Color::DarkRed),
    }
}

/// The coming starts, one a line.
pub(crate) fn next_lines(text: &mut String, next: &[PlannedStart]) {
    if next.is_empty() {
        *text += "  next  none\n";
    }
    for (place, start) in next.iter().enumerate() {
        let title = if place == 0 { "next" } else { "" };
        *text += &format!("  {title:<4}  {}\n", start_words(start));
    }
}

fn start_words(start: &PlannedStart) -> String {
    let delay = start.start_at.since(start.at);
    let jitter = if start.start_at > start.at { format!(", with {} of jitter", short(delay)) } else { String::new() };
    format!("{} ({}{jitter})", plain_local(&start.local), relative(start.start_at, now()))
}

/// Everything that is known of a schedule, and what became of its last times.
pub(crate) fn detail(schedule: &ScheduleView, last: &[OccurrenceView], out: &Output) -> String {
    let mut text = Detail::new(&format!("{}  {}", schedule.name, schedule.state.as_str()), 14);
    if let Some(reason) = &schedule.reason {
        text.line("why", one_line(&out.zone.localize(reason)));
    }
    for warning in &schedule.warnings {
        text.line("warning", &warning.detail);
    }
    text.line("when", out.zone.localize(&schedule.explanation));
    text.line("task", task_ref(&schedule.task));
    if let Some(inline) = &schedule.definition.inline {
        text.line("runs", one_line(&run_summary(&inline.run)));
    }
    definition(&mut text, &schedule.definition, out);
    if let (Some(runs), Some(most)) = (schedule.runs, schedule.definition.max_runs) {
        text.line("runs", format!("{runs} of {most}"));
    }
    if let (Some(failures), Some(most)) = (schedule.failures, schedule.definition.pause_after_failures) {
        text.line("failures", format!("{failures} in a row; it pauses after {most}"));
    }
    if let Some(until) = schedule.skip_until {
        text.line("skips", format!("up to {}", out.zone.show(until)));
    }
    for (place, start) in schedule.next.iter().enumerate() {
        text.line(if place == 0 { "next" } else { "" }, start_words(start));
    }
    for (place, occurrence) in last.iter().enumerate() {
        let told =
            format!("{}  {}", plain_local(&occurrence.local), one_line(&out.zone.localize(&occurrence.explanation)));
        text.line(if place == 0 { "last" } else { "" }, told);
    }
    text.line("id", schedule.id);
    text.line("revision", schedule.revision);
    text.line("created", done_by(&schedule.created, out));
    text.line("changed", done_by(&schedule.changed, out));
    for (place, change) in schedule.changes.iter().enumerate() {
        text.line(if place == 0 { "changes" } else { "" }, change_words(change, out));
    }
    text.text
}

fn done_by(done: &DoneBy, out: &Output) -> String {
    format!("{} by {}", out.zone.show(done.at), one_line(&done.who))
}

fn change_words(change: &ScheduleChangeView, out: &Output) -> String {
    let ScheduleChangeView { at, who, kind, note, former } = change;
    let mut words = format!("{} {kind} by {}", out.zone.show(*at), one_line(who));
    if let Some(note) = note {
        words += &format!(": {}", one_line(note));
    }
    if let Some(former) = former {
        words += &format!("; before: {}", one_line(&out.zone.localize(former)));
    }
    words
}

/// What the sentence about it does not say.
fn definition(text: &mut Detail, definition: &ScheduleRequest, out: &Output) {
    let ScheduleRequest { gap, fold, overlap, catch_up, late_after, missed_after, priority, input, .. } = definition;
    let mut optional = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.line(name, value);
        }
    };
    optional("gap", gap.map(word));
    optional("fold", fold.map(word));
    optional("overlap", overlap.map(word));
    optional(
        "catch up",
        catch_up.map(|catch_up| {
            let parts = [
                catch_up.mode.map(word),
                catch_up.max.map(|max| format!("at most {max}")),
                catch_up.window.map(|window| format!("none older than {window}")),
                catch_up.per_minute.map(|rate| format!("{rate}/min")),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        }),
    );
    optional("late after", late_after.map(|span| span.to_string()));
    optional("missed after", missed_after.map(|span| span.to_string()));
    optional("priority", priority.map(|priority| priority.get().to_string()));
    optional("input", input.as_ref().map(|input| one_line(input.get())));
    optional("anchor", definition.anchor.map(|at| out.zone.show(at)));
}
