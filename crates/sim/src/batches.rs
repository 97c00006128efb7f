//! Batches, and those who submit and cancel them while servers come and go.
//!
//! What follows from the end of a member is worked out by the core in the store's transaction, as in production. Servers look at the
//! batches of their shards twice a second, as the duty `batches` does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::batch::{
    BatchEvent, BatchMember, BatchOutcome, BatchStart, BatchState, BatchStatus, Contract, MemberRef, OnStartTimeout,
    Unplaceable, member_job,
};
use punctual_core::schedule::By;
use punctual_core::shard::event::{Command, Loaded};
use punctual_core::task::Task;
use punctual_core::{BatchId, JobId, ShardId, Span, Timestamp};
use punctual_store::{BatchRow, NewJob, Submission};

use crate::history::Fact;
use crate::plan::TaskBehavior;
use crate::rng::Rng;
use crate::simulation::{Action, Health, Node, Simulation};

const LOOK_EVERY: Span = Span::from_millis(500);
/// Batches that have not ended this long after the faults are cancelled: a gang may need more slots than there are.
const CANCELLED_AFTER: Span = Span::from_secs(60);
const SEED: u64 = 0x6261_7463_6865;

pub(crate) struct Batches {
    rng: Rng,
    unsubmitted: usize,
    /// As they were submitted.
    submitted: BTreeMap<BatchId, BatchRow>,
    /// Members that start together.
    ganged: BTreeSet<JobId>,
}

pub(crate) enum BatchStep {
    Submit,
    /// The server at this place looks at the batches of its shards.
    Look(usize),
    Cancel(BatchId),
    /// A change takes effect at the store.
    Change {
        by: Node,
        id: BatchId,
        event: BatchEvent,
        at: Timestamp,
    },
    /// The store has answered the server that asked for a change.
    Changed {
        by: Node,
        rows: Vec<Loaded>,
        cancels: Vec<JobId>,
    },
}

impl Batches {
    /// A third of the seeds have some, so that the others mean what they meant before there were any.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ SEED);
        let unsubmitted = if seed % 3 == 1 { rng.range(1, 6) as usize } else { 0 };
        Self { rng, unsubmitted, submitted: BTreeMap::new(), ganged: BTreeSet::new() }
    }

    /// Whether a job that has not started waits for others of its batch.
    pub(crate) fn is_ganged(&self, job: JobId) -> bool {
        self.ganged.contains(&job)
    }
}

impl Simulation {
    pub(crate) fn plan_batches(&mut self) {
        let count = self.batches.unsubmitted;
        if count == 0 {
            return;
        }
        let chaos_ms = self.plan.chaos.as_micros() / 1000;
        for _ in 0..count {
            let at = self.batches.rng.millis(0, chaos_ms);
            self.after(at, Action::Batches(BatchStep::Submit));
        }
        for place in 0..self.servers.len() {
            self.after(LOOK_EVERY, Action::Batches(BatchStep::Look(place)));
        }
    }

    /// Whether all batches have ended.
    pub(crate) fn are_batches_over(&self) -> bool {
        let has_ended = |id: &BatchId| self.store.batch(*id).is_none_or(|row| row.status.is_final());
        self.batches.unsubmitted == 0 && self.batches.submitted.keys().all(has_ended)
    }

    /// What was submitted, and what is left of it.
    pub(crate) fn batches_at_end(&self) -> Vec<(BatchRow, Option<BatchRow>)> {
        self.batches.submitted.values().map(|row| (row.clone(), self.store.batch(row.id))).collect()
    }

    pub(crate) fn batch_step(&mut self, step: BatchStep) {
        match step {
            BatchStep::Submit => self.submit_batch(),
            BatchStep::Look(place) => self.look_at_batches(place),
            BatchStep::Cancel(id) => {
                let Some(by) = self.draw_batch_server() else { return };
                let at = self.server_now(by.place);
                let event = BatchEvent::Cancel { who: "client".to_owned() };
                let delay = self.store_delay();
                self.after(delay, Action::Batches(BatchStep::Change { by, id, event, at }));
            }
            BatchStep::Change { by, id, event, at } => self.change_batch(by, id, event, at),
            BatchStep::Changed { by, rows, cancels } => {
                if self.is_server_alive(by) && self.servers[by.place].health == Health::Up {
                    self.hint(rows);
                    for job in cancels {
                        self.order(job, Command::Cancel);
                    }
                }
            }
        }
    }

    fn draw_batch_server(&mut self) -> Option<Node> {
        let up: Vec<Node> =
            self.servers.iter().filter(|server| server.health == Health::Up).map(|server| server.node()).collect();
        self.batches.rng.pick_or_none(&up).copied()
    }

    fn submit_batch(&mut self) {
        let Some(by) = self.draw_batch_server() else {
            return self.after(Span::from_secs(1), Action::Batches(BatchStep::Submit));
        };
        self.batches.unsubmitted -= 1;
        let now = self.server_now(by.place);
        let tasks = self.tasks_of_batch();
        let rng = &mut self.batches.rng;
        let is_gang = rng.percent(60);
        let contract = Contract {
            start: if is_gang { BatchStart::Together } else { BatchStart::Independent },
            start_timeout: is_gang.then(|| Span::from_secs(rng.range(5, 40))),
            on_start_timeout: *rng.pick(&[OnStartTimeout::Fail, OnStartTimeout::Fail, OnStartTimeout::Wait]),
            unplaceable: Unplaceable::Wait,
            outcome: if rng.percent(65) { BatchOutcome::AllOrNothing } else { BatchOutcome::FinishAll },
        };
        let size = rng.range(1, if is_gang { 5 } else { 9 }) as usize;
        let draw = |rng: &mut Rng| rng.below(tasks.len()) as u16;
        let members: Vec<BatchMember> = (0..size)
            .map(|_| BatchMember { task: draw(rng), compensation: rng.percent(75).then(|| draw(rng)) })
            .collect();
        let shard = ShardId(rng.below(usize::from(self.plan.shards)) as u16);
        let id = BatchId::new(now, shard, rng.next());
        let due_at = now + if rng.percent(50) { Span::ZERO } else { rng.millis(0, 30_000) };
        let state = BatchState::new(size, contract);
        let row = BatchRow {
            id,
            namespace: tasks[0].namespace,
            name: None,
            made: By { at: now, who: "client".to_owned() },
            requester: None,
            due_at,
            tasks: tasks.iter().map(|task| (task.id, task.spec.priority)).collect(),
            members,
            status: BatchStatus::Active,
            state,
        };
        let cancelled_after = (self.batches.rng.percent(15)).then(|| self.batches.rng.millis(0, 60_000));
        if let Some(delay) = cancelled_after {
            self.after(delay, Action::Batches(BatchStep::Cancel(id)));
        }
        let late = Span::from_micros(self.plan.chaos.as_micros() + CANCELLED_AFTER.as_micros());
        self.after(late, Action::Batches(BatchStep::Cancel(id)));
        self.store_batch(row, &tasks);
    }

    /// Tasks of one namespace, most of whose jobs can succeed.
    fn tasks_of_batch(&mut self) -> Vec<Arc<Task>> {
        let first = Arc::clone(self.batches.rng.pick(&self.plan.tasks));
        let mut tasks: Vec<Arc<Task>> =
            self.plan.tasks.iter().filter(|task| task.namespace == first.namespace).map(Arc::clone).collect();
        let is_sound = |task: &Arc<Task>| matches!(self.plan.behavior_of(task.id), TaskBehavior::Mixed);
        if tasks.iter().any(is_sound) {
            tasks.retain(is_sound);
        }
        tasks
    }

    fn store_batch(&mut self, row: BatchRow, tasks: &[Arc<Task>]) {
        let size = row.members.len();
        let (mut jobs, mut rows) = (Vec::new(), Vec::new());
        for (place, member) in (0..).zip(&row.members) {
            let task = &tasks[usize::from(member.task)];
            let job = NewJob {
                id: member_job(row.id, row.due_at, place),
                namespace: task.namespace,
                task: task.id,
                priority: task.spec.priority,
                submitted_at: row.made.at,
                tracing_id: None,
                source: None,
                requester: None,
                node: None,
                member: Some(MemberRef::member(row.id, place, size, &row.state.contract)),
                input: None,
            };
            if row.state.contract.start == BatchStart::Together {
                self.batches.ganged.insert(job.id);
            }
            let request = self.clients.add(job.id);
            self.note(Fact::Submit { request, jobs: vec![job.id], task: Arc::clone(task) });
            self.note(Fact::SubmitOk { request, jobs: vec![job.id] });
            rows.push(Loaded { row: job.row(), task: Arc::clone(task) });
            jobs.push(job);
        }
        self.store.submit(Submission { jobs, idempotency: None, batch: Some(Box::new(row.clone())) });
        self.note(Fact::BatchStored { row: Box::new(row.clone()) });
        self.batches.submitted.insert(row.id, row);
        self.hint(rows);
    }

    fn look_at_batches(&mut self, place: usize) {
        self.after(LOOK_EVERY, Action::Batches(BatchStep::Look(place)));
        if self.servers[place].health != Health::Up {
            return;
        }
        let (by, at) = (self.servers[place].node(), self.server_now(place));
        let owned: BTreeSet<ShardId> =
            self.servers[place].owner.owned_shards().into_iter().map(|(shard, _)| shard).collect();
        for id in self.store.due_batches(at).into_iter().filter(|id| owned.contains(&id.shard())) {
            let delay = self.store_delay();
            self.after(delay, Action::Batches(BatchStep::Change { by, id, event: BatchEvent::Tick, at }));
        }
    }

    fn change_batch(&mut self, by: Node, id: BatchId, event: BatchEvent, at: Timestamp) {
        // What a server asked for before it died may arrive.
        if !self.is_server_alive(by) && self.batches.rng.percent(50) {
            return;
        }
        let is_cancel = matches!(event, BatchEvent::Cancel { .. });
        let change = match self.store.change_batch(id, event, at) {
            Ok(Some(change)) => change,
            // It is lost with the commits that a standby did not have.
            Ok(None) => return,
            Err(text) => return self.note(Fact::Broken { text }),
        };
        if is_cancel && !change.is_refused {
            self.note(Fact::BatchCancelled { id });
        }
        let mut rows = Vec::new();
        for job in &change.jobs {
            let request = self.clients.add(job.id);
            let task = Arc::clone(self.store.task(job.task));
            self.note(Fact::Submit { request, jobs: vec![job.id], task: Arc::clone(&task) });
            self.note(Fact::SubmitOk { request, jobs: vec![job.id] });
            if let Some(member) = job.member {
                self.note(Fact::CompensationStored { batch: id, place: member.place });
            }
            rows.push(Loaded { row: job.row(), task });
        }
        let delay = self.store_delay();
        self.after(delay, Action::Batches(BatchStep::Changed { by, rows, cancels: change.cancels }));
    }
}
