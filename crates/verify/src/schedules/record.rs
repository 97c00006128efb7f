//! What is known of the schedules of a run in the end. Facts only; `check` judges.

use serde::{Deserialize, Serialize};

use super::definition::{Definition, Policy};
use crate::witness::WitnessLine;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The setting of the servers.
    pub(crate) missed_after_us: i64,
    pub(crate) schedules: Vec<ScheduleRecord>,
    pub(crate) jobs: Vec<ScheduledJob>,
    /// What the system confirmed to those who asked.
    pub(crate) confirmations: Vec<Confirmation>,
    /// When something was broken, from the fault to where everything should be itself again.
    pub(crate) broken: Vec<(i64, i64)>,
    /// In a file of their own.
    #[serde(skip)]
    pub(crate) witness: Vec<WitnessLine>,
}

/// One schedule: its definitions, and what the system says of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ScheduleRecord {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) policy: Policy,
    /// By revision, the first one first.
    pub(crate) definitions: Vec<Definition>,
    pub(crate) created_us: i64,
    /// The first one first.
    pub(crate) changes: Vec<Change>,
    /// In the order of their times.
    pub(crate) rows: Vec<Row>,
    /// The same lines, as another server shows them later.
    pub(crate) rows_again: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) at_us: i64,
    pub(crate) kind: String,
    /// Of a skip: times up to here are skipped.
    pub(crate) until_us: Option<i64>,
}

/// A line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) at_us: i64,
    pub(crate) start_us: i64,
    pub(crate) verdict: String,
    pub(crate) decided_us: i64,
    pub(crate) job: Option<String>,
    pub(crate) marks: Vec<String>,
    /// How many planned times it stands for.
    pub(crate) count: u32,
}

impl Row {
    pub(crate) fn has(&self, mark: &str) -> bool {
        self.marks.iter().any(|own| own == mark)
    }

    pub(crate) fn late_us(&self) -> i64 {
        self.decided_us - self.start_us
    }
}

/// A job that a schedule made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScheduledJob {
    pub(crate) id: String,
    pub(crate) schedule: String,
    pub(crate) at_us: i64,
    pub(crate) kind: String,
    pub(crate) state: String,
    pub(crate) submitted_us: i64,
    /// When it was due first.
    pub(crate) due_us: i64,
    pub(crate) finished_us: Option<i64>,
    pub(crate) attempts: u32,
    /// The server of its first attempt, where that matters.
    pub(crate) server: Option<String>,
    /// A worker was given up while it ran this.
    pub(crate) was_lost: bool,
}

impl ScheduledJob {
    pub(crate) fn has_ended(&self) -> bool {
        self.finished_us.is_some()
    }
}

/// What the system confirmed to a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confirmation {
    /// A run outside the plan.
    Run { schedule: String, job: String },
    /// These times do not run.
    Skipped { schedule: String, times_us: Vec<i64> },
}
