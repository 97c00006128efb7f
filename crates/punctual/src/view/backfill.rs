//! What backfills look like in tables, in detail, and in one line while they are followed.

use comfy_table::{Cell, Color};
use punctual_api::{
    BackfillInclude, BackfillPlan, BackfillRunView, BackfillStanding, BackfillTime, BackfillView, OlderTimes,
    UnknownTimes,
};

use super::{Detail, one_line};
use crate::output::{Format, Output, Row, counted};
use crate::table::Yield;
use crate::zone::plain_local;

impl Row for BackfillView {
    const HEADER: &'static [&'static str] =
        &["ID", "SCHEDULE", "STATE", "DEALT WITH", "OPEN", "FAILED", "FROM", "TO", "CREATED"];
    const YIELDS: &'static [Yield] = &[
        Yield::ShortTimes,
        Yield::Drop("CREATED"),
        Yield::Cut("SCHEDULE", 16),
        Yield::Drop("TO"),
        Yield::Drop("FROM"),
        Yield::Drop("OPEN"),
        Yield::Cut("SCHEDULE", 8),
        Yield::Drop("FAILED"),
        Yield::Drop("SCHEDULE"),
    ];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(&self.schedule),
            standing(self.state, out),
            Cell::new(format!("{} of {}", dealt_with(self), self.total)),
            Cell::new(self.running),
            Cell::new(self.failed),
            Cell::new(out.time(self.from)),
            Cell::new(out.time(self.to)),
            Cell::new(out.time(self.created.at)),
        ]
    }
}

impl Row for BackfillRunView {
    const HEADER: &'static [&'static str] = &["PLANNED", "STATE", "JOB"];
    const YIELDS: &'static [Yield] = &[];

    fn name(&self) -> String {
        self.job.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![Cell::new(plain_local(&self.local)), out.state(&self.state), Cell::new(self.job)]
    }
}

fn standing(state: BackfillStanding, out: &Output) -> Cell {
    let cell = Cell::new(state.as_str());
    if !out.colored {
        return cell;
    }
    match state {
        BackfillStanding::Running => cell.fg(Color::DarkCyan),
        BackfillStanding::Done => cell.fg(Color::DarkGreen),
        BackfillStanding::Aborted => cell.fg(Color::DarkYellow),
    }
}

/// Times that are over: their runs have ended, or they were passed over.
fn dealt_with(backfill: &BackfillView) -> u32 {
    backfill.made - backfill.running.min(backfill.made) + backfill.passed_over
}

pub(crate) fn print(backfill: &BackfillView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(backfill),
        Format::Name => out.line(&backfill.id.to_string()),
        Format::Table => out.write(&detail(backfill, out)),
    }
}

fn detail(backfill: &BackfillView, out: &Output) -> String {
    let mut text = Detail::new(&format!("{}  {}", backfill.id, backfill.state.as_str()), 11);
    if let Some(note) = &backfill.note {
        text.line("note", one_line(&out.zone.localize(note)));
    }
    text.line("schedule", &backfill.schedule);
    text.line("from", out.zone.show(backfill.from));
    text.line("to", format!("{}, not included", out.zone.show(backfill.to)));
    let at_a_time = if backfill.max_active == 1 {
        "one run after the other".to_owned()
    } else {
        format!("up to {} runs side by side", backfill.max_active)
    };
    text.line("overlap", format!("{}: {at_a_time}", backfill.overlap));
    let include = match backfill.include {
        BackfillInclude::NotRun => "times that have not run",
        BackfillInclude::All => "all times",
    };
    text.line("runs", include);
    if let Some(unknown) = &backfill.unknown {
        text.line("older", unknown_words(unknown, out));
    }
    text.line("progress", words(backfill));
    if let Some(reached) = backfill.reached {
        text.line("reached", out.zone.show(reached));
    }
    text.line("created", format!("{} by {}", out.zone.show(backfill.created.at), one_line(&backfill.created.who)));
    if let Some(ended) = &backfill.ended {
        text.line("ended", format!("{} by {}", out.zone.show(ended.at), one_line(&ended.who)));
    }
    text.text
}

/// Times that nobody can tell whether they ran.
pub(crate) fn unknown_words(unknown: &UnknownTimes, out: &Output) -> String {
    let (times, are) = (unknown.times, if unknown.times == 1 { "is" } else { "are" });
    let decision = match unknown.decision {
        Some(OlderTimes::Run) => format!("{are} run all the same"),
        Some(OlderTimes::Skip) => format!("{are} passed over"),
        None => "count neither way; say --older run or --older skip".to_owned(),
    };
    let begins = out.zone.show(unknown.record_begins_at);
    format!("{times} {are} older than the record, which begins at {begins}, and {decision}")
}

/// How far it has come: `42 of 100, 3 waiting or running, 1 failed`.
pub(crate) fn words(backfill: &BackfillView) -> String {
    let parts = [
        (backfill.running, "waiting or running"),
        (backfill.succeeded, "succeeded"),
        (backfill.failed, "failed"),
        (backfill.cancelled, "cancelled"),
        (backfill.passed_over, "passed over"),
    ];
    let mut words = format!("{} of {}", dealt_with(backfill), backfill.total);
    for (number, what) in parts.into_iter().filter(|(number, _)| *number > 0) {
        words += &format!(", {number} {what}");
    }
    words
}

/// One line of at most so many columns, with a bar if there is room for one.
pub(crate) fn progress_line(backfill: &BackfillView, columns: usize, out: &Output) -> String {
    const BAR_MIN: usize = 10;
    const BAR_MAX: usize = 30;
    // What holds it up says more than how its runs have ended.
    let words = match &backfill.note {
        Some(note) => format!("{} of {}; {}", dealt_with(backfill), backfill.total, one_line(&out.zone.localize(note))),
        None => words(backfill),
    };
    // A terminal folds a line that fills it.
    let room = columns.saturating_sub(1);
    let bar = room.saturating_sub(words.chars().count() + "[]  ".len()).min(BAR_MAX);
    if bar < BAR_MIN {
        return words.chars().take(room).collect();
    }
    let share = u64::from(dealt_with(backfill)) * bar as u64 / u64::from(backfill.total.max(1));
    let full = usize::try_from(share).unwrap_or(bar).min(bar);
    format!("[{}{}]  {words}", "#".repeat(full), "-".repeat(bar - full))
}

pub(crate) fn print_plan(plan: &BackfillPlan, schedule: &str, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => out.json(plan),
        Format::Name => plan.first.iter().try_for_each(|time| out.line(&time.at.to_string())),
        Format::Table => out.write(&plan_text(plan, schedule, out)),
    }
}

fn plan_text(plan: &BackfillPlan, schedule: &str, out: &Output) -> String {
    let passed_over = match plan.passed_over {
        0 => String::new(),
        number => format!("; {number} passed over"),
    };
    let times = counted(plan.total as usize, "planned time");
    let mut text = format!("{schedule} has {times} in this range, {}: {} to run{passed_over}\n", plan.zone, plan.runs);
    if let Some(unknown) = &plan.unknown {
        text += &format!("{}\n", unknown_words(unknown, out));
    }
    for BackfillTime { local, .. } in &plan.first {
        text += &format!("  {}\n", plain_local(local));
    }
    let shown = plan.first.len();
    match &plan.last {
        Some(last) if plan.first.last() != Some(last) => {
            let between = (plan.runs as usize).saturating_sub(shown + 1);
            if between > 0 {
                text += &format!("  … {between} more\n");
            }
            text += &format!("  {}\n", plain_local(&last.local));
        }
        Some(_) | None => {}
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn backfill() -> BackfillView {
        serde_json::from_value(json!({
            "id": "backfill_01m7et433kee4803yssgvaf2fh", "schedule": "nightly",
            "schedule_id": "schedule_01m7et433kee4803yssgvaf2fh", "from": "2026-01-01T00:00:00Z",
            "to": "2026-04-11T00:00:00Z", "overlap": "allow", "max_active": 10, "include": "not_run",
            "state": "running", "total": 100, "made": 40, "passed_over": 20, "running": 10, "succeeded": 29,
            "failed": 1, "cancelled": 0, "remaining": 40, "reached": "2026-03-01T00:00:00Z",
            "created": { "at": "2026-05-01T00:00:00Z", "who": "local" },
        }))
        .expect("a backfill")
    }

    #[test]
    fn a_line_of_progress_fits_the_terminal() {
        let out = Output::plain(None);
        let told = "50 of 100, 10 waiting or running, 29 succeeded, 1 failed, 20 passed over";
        for (columns, expected) in [
            (200, format!("[###############---------------]  {told}")),
            (91, format!("[#######-------]  {told}")),
            (86, told.to_owned()),
            (20, told[..19].to_owned()),
        ] {
            let line = progress_line(&backfill(), columns, &out);
            assert_eq!(line, expected);
            assert!(line.chars().count() < columns);
        }
        let held_up = BackfillView { note: Some("it waits\nfor others".to_owned()), ..backfill() };
        assert_eq!(progress_line(&held_up, 60, &out), "[############-------------]  50 of 100; it waits for others");
        // Whatever a server says, nothing breaks.
        let odd = BackfillView { made: 0, running: 7, total: 0, passed_over: 3, ..backfill() };
        assert!(progress_line(&odd, 200, &out).starts_with("[##############################]"));
    }

    #[test]
    fn a_plan_says_what_nobody_knows() {
        let time = |day: &str| json!({ "at": format!("2026-01-{day}T01:30:00Z"), "local": format!("2026-01-{day}T02:30:00+01:00") });
        let mut plan = json!({
            "zone": "Europe/Berlin", "total": 9, "runs": 2, "passed_over": 3, "first": [time("08"), time("09")],
            "last": time("09"), "unknown": { "times": 4, "record_begins_at": "2026-01-05T00:00:00Z" },
        });
        let told = |plan: &serde_json::Value| {
            plan_text(&serde_json::from_value(plan.clone()).expect("a plan"), "nightly", &Output::plain(None))
        };
        let begin = "nightly has 9 planned times in this range, Europe/Berlin: 2 to run; 3 passed over\n\
                     4 are older than the record, which begins at ";
        let text = told(&plan);
        assert!(text.starts_with(begin), "{text}");
        assert!(
            text.contains(", and count neither way; say --older run or --older skip\n  2026-01-08 02:30"),
            "{text}"
        );
        plan["unknown"]["decision"] = json!("skip");
        assert!(told(&plan).contains(", and are passed over\n"), "{}", told(&plan));
    }
}
