//! What overdue jobs, overdue planned times and ailing tasks look like in tables.

use comfy_table::Cell;
use punctual_api::{AilingTask, OverdueJob, OverdueTime};

use super::one_line;
use crate::output::{Output, Row};
use crate::table::Yield;
use crate::zone::{plain_local, short};

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
