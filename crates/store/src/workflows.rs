//! Workflows, and their runs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::schedule::By;
use punctual_core::shard::write::{Batch, JobWrite, Void};
use punctual_core::task::Priority;
use punctual_core::workflow::{
    Graph, GraphNode, Known, Missing, NodeRef, Refusal, RunEvent, RunHead, RunState, RunStatus, Step, WorkflowSpec,
    step,
};
use punctual_core::{JobId, NamespaceId, RunId, Span, TaskId, Timestamp};
use serde_json::Value;

use crate::{NewJob, Result, RunSteps, StoreError};

/// Workflows of a namespace.
pub const WORKFLOWS_MAX: usize = 1_000;
/// Versions of one workflow.
pub const VERSIONS_MAX: usize = 1_000;

/// The tasks of a run are kept for this long after its time is over, for what runs after its nodes.
const TASKS_KEPT: Span = Span::from_secs(30 * 24 * 3600);

/// One version of a definition. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRow {
    pub namespace: NamespaceId,
    pub name: String,
    /// From 1.
    pub version: u32,
    /// A [`WorkflowSpec`] as JSON.
    pub spec: String,
    pub made: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkflowStored {
    /// This version is new.
    New(u32),
    /// The newest version is the same.
    Unchanged(u32),
    /// There are as many workflows, or versions of this one, as may be.
    Full,
}

/// A run as a store keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    pub id: RunId,
    pub namespace: NamespaceId,
    pub workflow: String,
    pub version: u32,
    pub made: By,
    pub input: Option<Bytes>,
    /// Of each node; none for gates.
    pub tasks: Vec<Option<(TaskId, Priority)>>,
    pub state: RunState,
    pub status: RunStatus,
}

impl RunRow {
    /// Its state in a column; [`RunState::from_bytes`] reads it back.
    pub fn state_bytes(&self) -> Vec<u8> {
        self.state.to_bytes(self.id)
    }

    /// The same run in another state.
    fn in_state(&self, state: RunState, status: RunStatus) -> Self {
        let Self { id, namespace, workflow, version, made, input, tasks, state: _, status: _ } = self;
        Self {
            id: *id,
            namespace: *namespace,
            workflow: workflow.clone(),
            version: *version,
            made: made.clone(),
            input: input.clone(),
            tasks: tasks.clone(),
            state,
            status,
        }
    }

    /// Until when its tasks are needed.
    pub fn tasks_used_until(&self) -> Timestamp {
        self.state.deadline + TASKS_KEPT
    }
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunChange {
    pub row: RunRow,
    /// The jobs that were stored.
    pub jobs: Vec<NewJob>,
    /// Jobs that are to be cancelled.
    pub cancels: Vec<JobId>,
    /// The request was refused, and nothing was changed.
    pub refused: Option<Refusal>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFilter {
    pub namespace: NamespaceId,
    pub workflow: Option<String>,
    /// Only older ones.
    pub before: Option<RunId>,
    pub limit: usize,
}

/// A run that is to be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueRun {
    /// Since when.
    pub at: Timestamp,
    pub id: RunId,
    /// Only its job is still to hear of it.
    pub has_ended: bool,
}

/// The end of a job of a run reaches its run in [`Transitions::apply`](crate::Transitions::apply), in the transaction that ends
/// the job. Nothing else of a run is fenced: whoever changes it locks its row.
///
/// A step that cannot be stored ends its run, and never the transaction that it is a part of: [`RunStep::broken`].
#[async_trait]
pub trait Workflows: Send + Sync + 'static {
    /// Stores a new version unless the newest one has the same spec. `row.version` says nothing.
    async fn put_workflow(&self, row: WorkflowRow) -> Result<WorkflowStored>;

    /// A version of a workflow, or the newest one.
    async fn workflow(&self, namespace: NamespaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>>;

    /// The newest version of each workflow of a namespace, in order of name, after `after`.
    async fn list_workflows(
        &self,
        namespace: NamespaceId,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<WorkflowRow>>;

    /// Stores a run, and the jobs of the nodes that come first. Crash before: nothing happened. Crash after: the run goes
    /// on, although nobody knows its id.
    async fn start_run(&self, row: RunRow) -> Result<RunChange>;

    /// Applies an event to a run, and stores the jobs that follow from it, in one transaction that holds the run's row.
    /// `None` if there is no such run.
    async fn change_run(&self, id: RunId, event: RunEvent, now: Timestamp) -> Result<Option<RunChange>>;

    async fn run(&self, id: RunId) -> Result<Option<RunRow>>;

    /// The run, if it is of this namespace. One of another namespace takes as long as one that is not there, however large it is.
    async fn run_in(&self, namespace: NamespaceId, id: RunId) -> Result<Option<RunRow>>;

    /// The latest first.
    async fn list_runs(&self, filter: RunFilter) -> Result<Vec<RunRow>>;

    /// Runs that are to be looked at by now, the longest overdue first, after `after`.
    async fn due_runs(&self, now: Timestamp, after: Option<DueRun>, limit: usize) -> Result<Vec<DueRun>>;

    /// The node that a job is for.
    async fn node_of_job(&self, job: JobId) -> Result<Option<NodeRef>>;
}

/// Definitions that were read and checked. A step needs that of its run, which never changes, and reading it takes longer than
/// the step.
#[derive(Default)]
pub struct Graphs(Mutex<KeptGraphs>);

#[derive(Default)]
struct KeptGraphs {
    graphs: HashMap<(NamespaceId, String, u32), Arc<Graph>>,
    /// Of their texts.
    bytes: usize,
}

impl Graphs {
    /// The texts of what is kept may be this long together. Beyond it all are forgotten, and read again when they are needed.
    const KEPT_BYTES_MAX: usize = 16 << 20;

    fn kept(&self) -> MutexGuard<'_, KeptGraphs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of the run's version, if it is at hand.
    pub fn get(&self, row: &RunRow) -> Option<Arc<Graph>> {
        self.kept().graphs.get(&(row.namespace, row.workflow.clone(), row.version)).cloned()
    }

    /// Reads that of the run's version. It has to be durable.
    pub fn read(&self, row: &RunRow, spec: &str) -> Result<Arc<Graph>> {
        let graph = Arc::new(graph_of(row, spec)?);
        let mut kept = self.kept();
        if kept.bytes + spec.len() > Self::KEPT_BYTES_MAX {
            *kept = KeptGraphs::default();
        }
        let before = kept.graphs.insert((row.namespace, row.workflow.clone(), row.version), Arc::clone(&graph));
        if before.is_none() {
            kept.bytes += spec.len();
        }
        Ok(graph)
    }

    /// What was read may never have been: a transaction was rolled back, or the database has gone back in time.
    pub fn forget(&self) {
        *self.kept() = KeptGraphs::default();
    }
}

fn unreadable(row: &RunRow, what: &str) -> StoreError {
    StoreError::Inconsistent(format!("the definition of {}: {what}", row.id))
}

fn graph_of(row: &RunRow, spec: &str) -> Result<Graph> {
    let spec: WorkflowSpec = serde_json::from_str(spec).map_err(|error| unreadable(row, &error.to_string()))?;
    Graph::of(&spec).map_err(|faults| unreadable(row, &format!("{faults:?}")))
}

/// A run whose row is locked, and what a step of it needs.
pub struct OpenRun {
    row: RunRow,
    graph: Arc<Graph>,
    input: Value,
    pub known: Known,
}

/// What a step wants to be written.
pub struct RunStep {
    pub row: RunRow,
    pub wake_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub kept: Vec<(NodeRef, Bytes)>,
    pub jobs: Vec<NewJob>,
    pub cancels: Vec<JobId>,
    pub refused: Option<Refusal>,
}

impl OpenRun {
    /// `graph` is that of the run's version.
    pub fn new(row: RunRow, graph: Arc<Graph>) -> Result<Self> {
        if graph.nodes.len() != row.state.nodes.len() {
            return Err(unreadable(&row, "it has other nodes than the run"));
        }
        let input = row.input.as_deref().map(serde_json::from_slice).transpose();
        let input = input.map_err(|error| unreadable(&row, &error.to_string()))?.unwrap_or(Value::Null);
        Ok(Self { row, graph, input, known: Known::default() })
    }

    /// `spec` is that of the run's version.
    pub fn of_spec(row: RunRow, spec: &str) -> Result<Self> {
        let graph = graph_of(&row, spec)?;
        Self::new(row, Arc::new(graph))
    }

    pub fn id(&self) -> RunId {
        self.row.id
    }

    /// Whether a node runs one job for each element of a list.
    pub fn fans_out(&self, node: u16) -> bool {
        self.graph.nodes.get(usize::from(node)).is_some_and(GraphNode::fans_out)
    }

    /// Nodes of tasks that are not in the store any more fail when their turn comes.
    pub fn without_tasks(mut self, gone: &[TaskId]) -> Self {
        gone.iter().for_each(|task| self.known.task_is_gone(*task));
        self
    }

    /// An error names the nodes whose outputs have to be put into `known` first.
    pub fn step(&self, events: &[RunEvent], now: Timestamp) -> std::result::Result<RunStep, Missing> {
        let row = &self.row;
        let head = RunHead { id: row.id, input: &self.input, tasks: &row.tasks };
        let Step { state, status, releases, kept, cancels, wake_at, refused } =
            step(&self.graph, head, &self.known, row.state.clone(), events, now)?;
        let tracing_id = row.id.to_string();
        let job = |release: punctual_core::workflow::Release| NewJob {
            id: release.job,
            namespace: row.namespace,
            task: release.task,
            priority: release.priority,
            submitted_at: now,
            tracing_id: Some(tracing_id.clone()),
            source: None,
            requester: None,
            node: Some(release.node),
            member: None,
            input: release.input,
        };
        let jobs = releases.into_iter().map(job).collect();
        let ended_at = state.ended_at;
        let row = row.in_state(state, status);
        Ok(RunStep { row, wake_at, ended_at, kept, jobs, cancels, refused })
    }
}

impl RunStep {
    /// The end of a run that cannot go on, because what follows could not be stored or worked out.
    pub fn broken(row: RunRow, error: &StoreError, now: Timestamp) -> Self {
        let RunRow { state, .. } = row;
        let state = state.break_off(format!("the run could not go on: {error}"), now);
        let (status, ended_at) = (state.status(0), state.ended_at);
        let wake_at = state.awaits_report().then_some(now);
        let row = RunRow { state, status, ..row };
        Self { row, wake_at, ended_at, kept: Vec::new(), jobs: Vec::new(), cancels: Vec::new(), refused: None }
    }

    pub fn into_change(self) -> RunChange {
        RunChange { row: self.row, jobs: self.jobs, cancels: self.cancels, refused: self.refused }
    }
}

impl RunSteps {
    pub fn add(&mut self, row: &RunRow, jobs: &[NewJob]) {
        self.released.extend(jobs.iter().map(NewJob::row));
        if row.state.awaits_report() {
            self.ended.push(row.id);
        }
    }
}

/// The ends of jobs of runs that a batch brings, by run, in their order.
pub fn run_ends(batch: &Batch, void: &Void) -> BTreeMap<RunId, Vec<RunEvent>> {
    let mut ends: BTreeMap<RunId, Vec<RunEvent>> = BTreeMap::new();
    for (_, write) in batch.job_writes() {
        let JobWrite::Settle(settle) = write else { continue };
        let Some(node) = settle.node.as_deref() else { continue };
        let is_void = write.expects_waiting().is_some_and(|(key, _)| void.jobs.contains(&key.id));
        if !is_void {
            let event = RunEvent::Ended { node: *node, state: settle.state, output: settle.output.clone() };
            ends.entry(node.run).or_default().push(event);
        }
    }
    ends
}

const TASK_LEN: usize = 17;

/// The tasks of a run in a column: 16 bytes of id and one of priority for each node, all zero for none.
pub fn tasks_to_bytes(tasks: &[Option<(TaskId, Priority)>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(tasks.len() * TASK_LEN);
    for task in tasks {
        match task {
            Some((id, priority)) => {
                bytes.extend(id.to_bytes());
                bytes.push(priority.get() as u8);
            }
            None => bytes.extend([0; TASK_LEN]),
        }
    }
    bytes
}

/// `None` if they cannot be read.
pub fn tasks_from_bytes(bytes: &[u8]) -> Option<Vec<Option<(TaskId, Priority)>>> {
    if !bytes.len().is_multiple_of(TASK_LEN) {
        return None;
    }
    let read = |bytes: &[u8]| {
        if bytes.iter().all(|byte| *byte == 0) {
            return Some(None);
        }
        Some(Some((TaskId::from_bytes(&bytes[..16])?, Priority::new(bytes[16] as i8)?)))
    };
    bytes.chunks(TASK_LEN).map(read).collect()
}
