//! What batches look like in tables and in detail.

use comfy_table::Cell;
use punctual_api::{BatchSummary, BatchView, MemberView};

use super::{Detail, one_line};
use crate::output::{Format, Output, Row};
use crate::table::Yield;

impl Row for BatchSummary {
    const HEADER: &'static [&'static str] = &["ID", "NAME", "STATE", "ENDED", "DUE", "BY"];
    const YIELDS: &'static [Yield] =
        &[Yield::ShortTimes, Yield::Drop("BY"), Yield::Cut("NAME", 16), Yield::Drop("DUE"), Yield::Drop("NAME")];

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.id),
            Cell::new(self.name.as_deref().map_or_else(|| "-".to_owned(), one_line)),
            out.state(&self.state),
            Cell::new(format!("{} of {}", self.members_ended, self.members)),
            Cell::new(out.time(self.due_at)),
            Cell::new(one_line(&self.created.who)),
        ]
    }
}

impl Row for MemberView {
    const HEADER: &'static [&'static str] = &["PLACE", "STATE", "JOB", "COMPENSATION"];
    const YIELDS: &'static [Yield] = &[Yield::Drop("COMPENSATION")];

    fn name(&self) -> String {
        self.job.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        vec![
            Cell::new(self.place),
            out.state(&self.state),
            Cell::new(self.job),
            Cell::new(self.compensation.map_or_else(|| "-".to_owned(), |job| job.to_string())),
        ]
    }
}

pub(crate) fn batch(batch: &BatchView, out: &Output) -> anyhow::Result<()> {
    match out.format {
        Format::Json | Format::Jsonl => return out.json(batch),
        Format::Name => return out.line(&batch.id.to_string()),
        Format::Table => {}
    }
    let mut text = Detail::new(&format!("{}  {}", batch.id, out.state_text(&batch.state)), 11);
    if let Some(name) = &batch.name {
        text.line("name", one_line(name));
    }
    text.line("explanation", one_line(&batch.explanation));
    text.line("created", format!("{} by {}", out.zone.show(batch.created.at), one_line(&batch.created.who)));
    text.line("due", out.zone.show(batch.due_at));
    let timeout = batch.start_timeout.map(|timeout| format!(", within {timeout}")).unwrap_or_default();
    text.line("start", format!("{}{timeout}", super::word(batch.start)));
    text.line("outcome", super::word(batch.outcome));
    let counts: Vec<String> = batch.counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
    text.line("members", format!("{}: {}", batch.members, counts.join(", ")));
    if let Some(first) = &batch.first_failed {
        text.line("failed", format!("member {}, {}", first.place, first.job));
    }
    if let Some(cancelled) = &batch.cancelled {
        text.line("cancelled", format!("{} by {}", out.zone.show(cancelled.at), one_line(&cancelled.who)));
    }
    if let Some(at) = batch.ended_at {
        text.line("ended", out.zone.show(at));
    }
    out.write(&text.text)
}
