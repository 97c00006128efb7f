//! `punctual overdue`: what should have started and has not, and why.

use clap::Args;
use comfy_table::Cell;
use punctual_api::{AilingTask, Overdue, OverdueJob, OverdueQuery, OverdueTime};
use punctual_core::Span;

use super::Context;
use super::flags::{OF_OVERDUE, in_flags};
use crate::exit::Exit;
use crate::output::{Format, Output, Row, counted};
use crate::table::{self, Yield};
use crate::view::one_line;
use crate::when::parse_span;
use crate::zone::{plain_local, short};

#[derive(Debug, Args)]
pub(crate) struct OverdueArgs {
    /// From which lateness on; at most 7d
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "60s")]
    after: Span,
}

pub(crate) async fn run(args: OverdueArgs, context: &Context) -> anyhow::Result<Exit> {
    let query = OverdueQuery { after: Some(args.after.to_string()) };
    let overdue = context.client()?.overdue(&query).await.map_err(|error| in_flags(error, OF_OVERDUE))?;
    let out = &context.out;
    let Overdue { jobs, planned, ailing, .. } = &overdue;
    match out.format {
        Format::Table => out.write(&text(&overdue, args.after, out))?,
        Format::Json => out.json(&overdue)?,
        Format::Jsonl => {
            out.rows(jobs, &overdue)?;
            out.rows(planned, &overdue)?;
            out.rows(ailing, &overdue)?;
        }
        Format::Name => out.rows(jobs, &overdue)?,
    }
    Ok(Exit::Ok)
}

fn text(overdue: &Overdue, after: Span, out: &Output) -> String {
    let Overdue { jobs, jobs_total, jobs_total_is_minimum, planned, planned_is_partial, .. } = overdue;
    let mut parts = Vec::new();
    if !jobs.is_empty() {
        let least = if *jobs_total_is_minimum { "At least " } else { "" };
        let total = usize::try_from(*jobs_total).unwrap_or(usize::MAX).max(jobs.len());
        let wait = if total == 1 { "waits" } else { "wait" };
        let shown = if total > jobs.len() { ". The oldest" } else { "" };
        let title = format!("{least}{} {wait} for more than {after}{shown}:", counted(total, "job"));
        parts.push(format!("{title}\n{}\n", table::draw(jobs, out)));
    }
    if !planned.is_empty() {
        let title = "Planned times that nobody has decided about:";
        parts.push(format!("{title}\n{}\n", table::draw(planned, out)));
    }
    if !overdue.shards_without_owner.is_empty() {
        let shards: Vec<String> = overdue.shards_without_owner.iter().map(u16::to_string).collect();
        let are = if shards.len() == 1 { "is" } else { "are" };
        let counted = counted(shards.len(), "shard");
        parts.push(format!("{counted} {are} without an owner, whose jobs wait: {}\n", shards.join(", ")));
    }
    if parts.is_empty() {
        parts.push(format!("Nothing is late by more than {after}.\n"));
    }
    if *planned_is_partial {
        parts.push("Not all schedules were looked at.\n".to_owned());
    }
    if !overdue.ailing.is_empty() {
        let title = "Tasks that failed and have not succeeded since:";
        parts.push(format!("{title}\n{}\n", table::draw(&overdue.ailing, out)));
    }
    parts.join("\n")
}

impl Row for OverdueJob {
    const HEADER: &'static [&'static str] = &["JOB", "TASK", "QUEUE", "DUE", "LATE", "WHY"];
    const YIELDS: &'static [Yield] = &[
        Yield::Fold("WHY", 40),
        Yield::ShortTimes,
        Yield::Drop("QUEUE"),
        Yield::Fold("WHY", 24),
        Yield::Drop("DUE"),
        Yield::Fold("TASK", 16),
        Yield::Fold("WHY", 16),
        Yield::Drop("TASK"),
        Yield::Fold("WHY", 12),
    ];

    fn name(&self) -> String {
        self.job.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.job),
            Cell::new(one_line(&self.task)),
            Cell::new(&self.queue),
            Cell::new(out.time(self.due_at)),
            Cell::new(short(self.late_by)),
            Cell::new(one_line(&out.zone.localize(without_lateness(&self.why)))),
        ]
    }
}

/// How late it is has a column of its own.
pub(crate) fn without_lateness(why: &str) -> &str {
    let rest = why.strip_prefix("It has been due for ").and_then(|rest| rest.split_once(": "));
    rest.map_or(why, |(_, reason)| reason)
}

impl Row for OverdueTime {
    const HEADER: &'static [&'static str] = &["SCHEDULE", "PLANNED", "LATE", "WHY"];
    const YIELDS: &'static [Yield] =
        &[Yield::Fold("WHY", 40), Yield::Fold("WHY", 20), Yield::Fold("SCHEDULE", 16), Yield::Fold("WHY", 12)];

    fn name(&self) -> String {
        self.schedule.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(&self.schedule),
            Cell::new(plain_local(&self.local)),
            Cell::new(short(self.late_by)),
            Cell::new(one_line(&out.zone.localize(&self.why))),
        ]
    }
}

impl Row for AilingTask {
    const HEADER: &'static [&'static str] = &["TASK", "FAILURES", "SINCE", "LAST", ""];
    const YIELDS: &'static [Yield] =
        &[Yield::ShortTimes, Yield::Cut("TASK", 30), Yield::Drop("LAST"), Yield::Cut("TASK", 16)];

    fn name(&self) -> String {
        self.task.clone()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(one_line(&self.task)),
            Cell::new(self.failures),
            Cell::new(out.time(self.since)),
            Cell::new(out.time(self.last)),
            Cell::new(out.relative(self.last)),
        ]
    }
}
