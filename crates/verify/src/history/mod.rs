//! What is known of a run: what clients asked and were answered, what the witnesses saw, which
//! faults there were, and what the system says in the end. Facts only; `check` judges.

mod folder;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use folder::{Journal, RunFolder};

use crate::clock::Moment;
use crate::witness::WitnessLine;

/// Everything the checker gets.
#[derive(Debug, Clone, Default)]
pub struct History {
    pub tasks: BTreeMap<String, Rules>,
    pub calls: Vec<Call>,
    pub witness: Vec<WitnessLine>,
    pub faults: Vec<Fault>,
    pub jobs: Vec<FinalJob>,
    /// The same jobs, as another server shows them later.
    pub again: Vec<FinalJob>,
    /// What servers counted themselves, where none was restarted.
    pub counted: Option<BTreeMap<String, u64>>,
}

/// What is promised for the jobs of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    pub delivery: DeliveryMode,
    /// Retries after failures.
    pub retry_max: u32,
    pub retry_initial_ms: i64,
    pub retry_factor: f64,
    pub retry_jitter: f64,
    /// Retries after lost workers.
    pub node_retry_max: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryMode {
    AtLeastOnce,
    AtMostOnce,
    ExactlyOnce,
}

/// One request of a client, with its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub invoked: Moment,
    /// Absent when the run ended before an answer or a timeout came.
    pub returned: Option<Moment>,
    pub asked: CallKind,
    pub answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "ask")]
pub enum CallKind {
    /// Tries with the same key are for the same job.
    Submit {
        key: String,
        task: String,
        /// Absent: at once.
        run_at_us: Option<i64>,
        fail_first: u32,
    },
    Delete {
        job: String,
    },
    Cancel {
        job: String,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum Answer {
    /// The system said yes.
    Ok {
        job: String,
        /// For a submission.
        due_us: Option<i64>,
        /// For the others.
        state: Option<String>,
        /// A running attempt was asked to end.
        pending: bool,
    },
    /// Certainly nothing was done.
    Fail { why: String },
    /// Nobody knows whether it was done.
    Unknown { why: String },
}

/// A line in the journal of the clients; the two halves of a [`Call`] share a number.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientLine {
    Task { name: String, rules: Rules },
    Invoke { call: u64, at: Moment, asked: CallKind },
    Return { call: u64, at: Moment, answer: Answer },
}

/// Something that was done to the system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    pub at: Moment,
    pub what: FaultEvent,
    /// For people: `server 2`, `the database`.
    pub target: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultEvent {
    /// This process is dead. Written when it certainly is.
    WorkerDied {
        pid: u32,
    },
    /// This worker was asked to leave, and has left.
    WorkerLeft {
        pid: u32,
    },
    /// From here on this worker may be taken for lost, although it lives.
    WorkerOutOfReach {
        pid: u32,
    },
    WorkerInReach {
        pid: u32,
    },
    /// Anything that happens to servers, the database or the network.
    Begin,
    End,
    /// The database goes back in time: what was committed before this and not replicated is lost.
    WentBack,
    /// Nothing is done to the system any more; it should be itself again within so long.
    Healed {
        within_ms: i64,
    },
}

/// A job as the system shows it in the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FinalJob {
    pub id: String,
    /// The client's key, which the job carries as its tracing id.
    pub key: String,
    pub state: String,
    pub submitted_us: i64,
    pub due_us: i64,
    pub finished_us: Option<i64>,
    pub attempts: Vec<FinalAttempt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalAttempt {
    pub attempt: u32,
    pub state: String,
    pub worker: String,
    pub server: String,
    pub started_us: i64,
    pub finished_us: Option<i64>,
}

impl FinalJob {
    pub fn is_finished(&self) -> bool {
        matches!(self.state.as_str(), "succeeded" | "failed" | "cancelled" | "deleted" | "lost" | "quarantined")
    }
}
