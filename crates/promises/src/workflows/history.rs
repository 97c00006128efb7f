//! What is known of one run of a workflow.

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use serde_json::Value;

use super::{Definition, JobEnd};

/// Everything that is known of one run.
#[derive(Debug)]
pub struct WorkflowRun {
    pub name: String,
    pub definition: Definition,
    /// Null if it has none.
    pub input: Value,
    /// In the order in which it happened. The first one is the start of the run.
    pub lines: Vec<RunLine>,
    pub at_end: RunAtEnd,
}

#[derive(Debug)]
pub enum RunLine {
    Step(RunStep),
    /// The work of a job began.
    Began {
        job: String,
    },
}

/// A transaction that changed the run, or was to change it.
#[derive(Debug)]
pub struct RunStep {
    /// By the clock of the server that asked for it.
    pub at: Timestamp,
    /// Nothing if only time passed, and in the first step.
    pub what: Vec<Observed>,
    pub answer: StepAnswer,
    pub released: Released,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepAnswer {
    Done,
    Refused,
}

/// What happened, as the source saw it.
#[derive(Debug, Clone)]
pub enum Observed {
    Ended { job: String, end: JobEnd, output: Option<Vec<u8>> },
    Decided { node: usize, is_approved: bool },
    Arrived { event: String, payload: Option<Vec<u8>> },
    Skipped { node: usize },
    Cancelled,
    Resumed { skip: Vec<usize> },
}

/// The jobs that a step made.
#[derive(Debug)]
pub enum Released {
    Seen(Vec<NodeJob>),
    /// The source knows jobs only at the end of the run: [`RunAtEnd::jobs`].
    Unseen,
}

#[derive(Debug, Clone, PartialEq)]
pub struct NodeJob {
    pub job: String,
    /// Tasks that run after the nodes come after them.
    pub node: usize,
    /// The place in the list of a node with `for_each`; otherwise 0.
    pub element: u32,
    /// `None` if the source does not read it.
    pub input: Option<Value>,
}

/// The run as the system shows it at the end.
#[derive(Debug)]
pub struct RunAtEnd {
    /// `None` if it is not there.
    pub status: Option<String>,
    pub nodes: Vec<String>,
    /// The last job of each node, for sources that do not see when jobs are made.
    pub jobs: Vec<NodeJob>,
}

impl WorkflowRun {
    pub(super) fn place(&self, node: usize) -> String {
        format!("`{}`", self.definition.name(node))
    }

    pub(super) fn jobs_at_end(&self) -> BTreeMap<(usize, u32), &NodeJob> {
        self.at_end.jobs.iter().map(|job| ((job.node, job.element), job)).collect()
    }
}
