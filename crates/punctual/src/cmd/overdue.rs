//! `punctual overdue`: what should have started and has not, and why.

use clap::Args;
use punctual_api::{Overdue, OverdueQuery};
use punctual_core::Span;

use super::Context;
use crate::exit::Exit;
use crate::field_flags::{OF_OVERDUE, in_flags};
use crate::output::{Format, Output, counted};
use crate::table;
use crate::when::parse_span;

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
