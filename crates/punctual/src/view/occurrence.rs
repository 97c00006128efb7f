//! What an occurrence of a schedule looks like in a table.

use comfy_table::Cell;
use punctual_api::{BackfilledBy, OccurrenceView};

use super::one_line;
use crate::output::{Output, Row};
use crate::table::Yield;
use crate::zone::{plain_local, short};

impl Row for OccurrenceView {
    const HEADER: &'static [&'static str] = &["PLANNED", "VERDICT", "LATE", "JOB", "MARKS", "WHY"];
    const YIELDS: &'static [Yield] = &[
        Yield::Cut("WHY", 40),
        Yield::Drop("MARKS"),
        Yield::Cut("WHY", 20),
        Yield::Drop("WHY"),
        Yield::Drop("LATE"),
        Yield::Drop("JOB"),
    ];

    fn name(&self) -> String {
        self.at.to_string()
    }

    fn cells(&self, out: &Output) -> Vec<Cell> {
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        vec![
            Cell::new(plain_local(&self.local)),
            Cell::new(&self.verdict),
            Cell::new(self.late_by.map_or_else(|| "-".to_owned(), short)),
            Cell::new(self.job.map_or_else(|| "-".to_owned(), |job| job.to_string())),
            Cell::new(or_none(self.marks.join(","))),
            Cell::new(one_line(&out.zone.localize(&(without_job(self) + &backfilled_words(&self.backfilled))))),
        ]
    }
}

/// The jobs of backfills that ran the same time; the verdict does not name them.
pub(crate) fn backfilled_words(backfilled: &[BackfilledBy]) -> String {
    let words = |by: &BackfilledBy| format!("; backfilled as {}, {}", by.job, by.state);
    backfilled.iter().map(words).collect()
}

/// The job has a column of its own.
fn without_job(occurrence: &OccurrenceView) -> String {
    match occurrence.job {
        Some(job) => occurrence.explanation.replace(&format!(" as {job},"), "").replace(&format!(" as {job}"), ""),
        None => occurrence.explanation.clone(),
    }
}
