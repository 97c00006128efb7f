//! What happened, in order: what clients asked and heard, what the execution
//! itself saw, what the store took, and the faults. Only ever appended to.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use punctual_core::attempt::{Details, Outcome};
use punctual_core::namespace::ServedNamespaces;
use punctual_core::notice::Notice;
use punctual_core::schedule::{OccurrenceRow, ScheduleCommand, ScheduleReply};
use punctual_core::shard::event::{Command, Reply, Token};
use punctual_core::shard::write::{JobWrite, ScheduleWrite, SharedBatch, Void, Write};
use punctual_core::task::Task;
use punctual_core::workflow::{NodeRef, RunEvent};
use punctual_core::{
    AttemptNo, BatchId, JobId, RunId, ScheduleId, ServerId, ShardId, Span, TaskId, Timestamp, WorkerId,
};
use punctual_promises::StartRecord;
use punctual_store::{BatchRow, JobRecord, Owned, RunRow};

use crate::queues::QueueKey;

/// One request to submit; repeating it keeps its number, and so its idempotency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestNo(pub u64);

#[derive(Debug, Clone)]
pub enum Fact {
    // The clients.
    Submit {
        request: RequestNo,
        jobs: Vec<JobId>,
        task: Arc<Task>,
    },
    SubmitOk {
        request: RequestNo,
        jobs: Vec<JobId>,
    },
    Ask {
        token: Token,
        id: JobId,
        command: Command,
    },
    Answer {
        token: Token,
        reply: Reply,
    },

    AskSchedule {
        token: Token,
        id: ScheduleId,
        command: ScheduleCommand,
    },
    AnswerSchedule {
        token: Token,
        reply: ScheduleReply,
    },

    /// The calendar has closed, or is open again.
    Calendar {
        is_closed: bool,
    },

    /// The file that a task waits for is there.
    Arrived {
        task: TaskId,
    },

    // Runs of workflows, as the store takes them.
    RunStarted {
        run: RunId,
        definition: Arc<str>,
        input: Option<Bytes>,
        /// By the clock of the server, as in what follows.
        at: Timestamp,
    },
    RunChanged {
        run: RunId,
        event: RunEvent,
        at: Timestamp,
        is_refused: bool,
    },
    /// A job of a run is in the store.
    Released {
        run: RunId,
        node: NodeRef,
        job: JobId,
        input: Option<Bytes>,
    },

    // Batches, as the store takes them.
    BatchStored {
        row: Box<BatchRow>,
    },
    BatchCancelled {
        id: BatchId,
    },
    /// A job that undoes the member at this place is in the store.
    CompensationStored {
        batch: BatchId,
        place: u16,
    },
    BatchFinal {
        id: BatchId,
        row: Option<Box<BatchRow>>,
    },

    Queue {
        queue: QueueKey,
        change: QueueChange,
    },

    // The witness: the execution itself.
    Joined {
        namespaces: ServedNamespaces,
        worker: WorkerId,
        slots: u32,
    },
    Begin {
        id: JobId,
        attempt: AttemptNo,
        worker: WorkerId,
        start: StartRecord,
    },
    End {
        id: JobId,
        attempt: AttemptNo,
        worker: WorkerId,
        how: ExecutionEnd,
    },
    /// A worker forgot an outcome because it was told that it may.
    Acked {
        id: JobId,
        attempt: AttemptNo,
    },

    // The store.
    Leased {
        server: ServerId,
        owned: Owned,
    },
    Committed {
        batch: SharedBatch,
        void: Void,
    },
    Fenced {
        server: ServerId,
        shards: Vec<ShardId>,
    },
    /// The store was asked for what cannot be, or the core panicked.
    Broken {
        text: String,
    },

    /// It has lost its last commits. These starts are open in what is left.
    WentBack {
        open: Vec<(JobId, AttemptNo)>,
    },

    // The nemesis, and those who look on.
    Fault(String),
    Healed,
    /// Due for this long while a worker that could run it was idle.
    Neglected {
        id: JobId,
        late: Span,
    },
    /// Runs on record although its worker has been gone for this long.
    Orphaned {
        id: JobId,
        worker: WorkerId,
        gone: Span,
    },
    /// A server gave a worker more than it had granted.
    OverCredit {
        worker: WorkerId,
        running: usize,
        credit: u32,
    },

    // The end.
    Final {
        id: JobId,
        record: Option<JobRecord>,
    },
    RunFinal {
        run: RunId,
        row: Option<Box<RunRow>>,
    },
    JobCount(usize),
    /// What waits to be passed on to people.
    Notices {
        notices: Vec<Notice>,
        /// Tasks of which nobody is told.
        quiet: BTreeSet<TaskId>,
    },
    /// The ledger of a schedule.
    Ledger {
        id: ScheduleId,
        rows: Vec<OccurrenceRow>,
    },
}

/// What happened to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueChange {
    /// A pause is stored.
    Paused,
    /// All who own shards have confirmed the pause.
    InForce,
    Resumed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutionEnd {
    Reported {
        outcome: Outcome,
        timed_out: bool,
        details: Option<Box<Details>>,
    },
    /// Stopped, or died with its worker: nobody reports it.
    Killed,
}

#[derive(Debug, Default)]
pub struct History {
    facts: Vec<(Timestamp, Fact)>,
}

impl History {
    pub fn push(&mut self, at: Timestamp, fact: Fact) {
        self.facts.push((at, fact));
    }

    pub fn iter(&self) -> impl Iterator<Item = (Timestamp, &Fact)> {
        self.facts.iter().map(|(at, fact)| (*at, fact))
    }

    /// Those after this time, the last one first.
    pub(crate) fn after(&self, time: Timestamp) -> impl Iterator<Item = &Fact> {
        self.facts.iter().rev().take_while(move |(at, _)| *at > time).map(|(_, fact)| fact)
    }

    /// A hash over all facts in their order: two runs of one seed have the same.
    pub fn hash(&self) -> u64 {
        let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
        for (at, fact) in &self.facts {
            write!(hash, "{}{fact:?}", at.as_micros()).expect("hashing does not fail");
        }
        hash.0
    }

    /// What concerns one job, one line each.
    pub fn slice(&self, id: JobId, from: Timestamp) -> Vec<String> {
        let mut tokens = Vec::new();
        let mut lines = Vec::new();
        for (at, fact) in &self.facts {
            if let Fact::Ask { token, id: asked, .. } = fact
                && *asked == id
            {
                tokens.push(*token);
            }
            if let Some(text) = fact.about(id, &tokens) {
                lines.push(format!("{:>12.6}  {text}", at.since(from).as_micros() as f64 / 1e6));
            }
        }
        lines
    }
}

impl History {
    /// What concerns one schedule, one line each.
    pub fn slice_schedule(&self, id: ScheduleId, from: Timestamp) -> Vec<String> {
        let mut tokens = Vec::new();
        let mut lines = Vec::new();
        for (at, fact) in &self.facts {
            if let Fact::AskSchedule { token, id: asked, .. } = fact
                && *asked == id
            {
                tokens.push(*token);
            }
            let texts = fact.about_schedule(id, &tokens);
            let since = at.since(from).as_micros() as f64 / 1e6;
            lines.extend(texts.into_iter().map(|text| format!("{since:>12.6}  {text}")));
        }
        lines
    }
}

impl History {
    /// What concerns one run of a workflow, one line each.
    pub fn slice_run(&self, id: RunId, from: Timestamp) -> Vec<String> {
        let mut lines = Vec::new();
        for (at, fact) in &self.facts {
            let since = at.since(from).as_micros() as f64 / 1e6;
            lines.extend(fact.about_run(id).into_iter().map(|text| format!("{since:>12.6}  {text}")));
        }
        lines
    }
}

impl Fact {
    fn about_run(&self, id: RunId) -> Vec<String> {
        match self {
            Self::RunStarted { run, .. }
            | Self::RunChanged { run, .. }
            | Self::Released { run, .. }
            | Self::RunFinal { run, .. }
                if *run == id =>
            {
                vec![format!("{self:?}")]
            }
            Self::Committed { batch, void } => {
                let end = |write: &Write| match write {
                    Write::Job(JobWrite::Settle(settle)) => {
                        let node = settle.node.as_ref().filter(|node| node.run == id)?;
                        let is_void = void.jobs.contains(&settle.key.id);
                        let (job, state) = (settle.key.id, settle.state);
                        Some(format!("{job} of {node:?} is {state}, void {is_void}, by {}", batch.at))
                    }
                    _ => None,
                };
                batch.writes.iter().filter_map(end).collect()
            }
            Self::Leased { owned, .. } if owned.shard == id.shard() => vec![format!("{self:?}")],
            Self::Fault(_) | Self::Healed | Self::Broken { .. } | Self::WentBack { .. } => vec![format!("{self:?}")],
            _ => Vec::new(),
        }
    }

    fn about_schedule(&self, id: ScheduleId, tokens: &[Token]) -> Vec<String> {
        match self {
            Self::AskSchedule { id: of, .. } if *of == id => vec![format!("{self:?}")],
            Self::AnswerSchedule { token, .. } if tokens.contains(token) => vec![format!("{self:?}")],
            Self::Committed { batch, void } => {
                let is_of_it = |write: &&Write| match write {
                    Write::Schedule(ScheduleWrite::Add(row)) => row.id == id,
                    Write::Schedule(
                        ScheduleWrite::Edit { id: of, .. }
                        | ScheduleWrite::Set { id: of, .. }
                        | ScheduleWrite::Drop { id: of, .. },
                    ) => *of == id,
                    Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) => {
                        decision.occurrence.schedule == id
                    }
                    Write::Schedule(ScheduleWrite::Watermark { shard, .. }) => *shard == id.shard(),
                    _ => false,
                };
                let under = batch.epoch_of(id.shard());
                let text = |write: &Write| format!("Committed under {under:?}, void {void:?}: {write:?}");
                batch.writes.iter().filter(is_of_it).map(text).collect()
            }
            Self::Fenced { shards, .. } if shards.contains(&id.shard()) => vec![format!("{self:?}")],
            Self::Leased { owned, .. } if owned.shard == id.shard() => vec![format!("{self:?}")],
            Self::Fault(_) | Self::Healed | Self::Broken { .. } | Self::Calendar { .. } | Self::WentBack { .. } => {
                vec![format!("{self:?}")]
            }
            _ => Vec::new(),
        }
    }

    fn about(&self, id: JobId, tokens: &[Token]) -> Option<String> {
        match self {
            Self::Submit { request, jobs, task } => jobs.contains(&id).then(|| {
                let spec = &task.spec;
                format!(
                    "Submit {request:?} of {}, {:?} {:?}, retry {} except {:?}, node retry {}, timeout {}, queue timeout {:?}",
                    jobs.len(),
                    spec.delivery,
                    spec.on_lost,
                    spec.retry.max,
                    Vec::from(spec.retry.except),
                    spec.node_retry.max,
                    spec.timeout,
                    spec.queue_timeout
                )
            }),
            Self::SubmitOk { request, jobs } => jobs.contains(&id).then(|| format!("SubmitOk {request:?}")),
            Self::Committed { batch, void } => {
                let mut text = String::new();
                for write in batch.writes.iter().filter(|write| job_of(write) == Some(id)) {
                    write!(text, "Committed under {:?} void {} {write:?} ", batch.fences, void.jobs.contains(&id)).ok()?;
                }
                (!text.is_empty()).then_some(text)
            }
            Self::Answer { token, .. } => tokens.contains(token).then(|| format!("{self:?}")),
            Self::Ask { id: of, .. }
            | Self::Begin { id: of, .. }
            | Self::End { id: of, .. }
            | Self::Acked { id: of, .. }
            | Self::Neglected { id: of, .. }
            | Self::Orphaned { id: of, .. }
            | Self::Released { job: of, .. }
            | Self::Final { id: of, .. } => (*of == id).then(|| format!("{self:?}")),
            Self::Fenced { shards, .. } => shards.contains(&id.shard()).then(|| format!("{self:?}")),
            Self::Leased { owned, .. } => (owned.shard == id.shard()).then(|| format!("{self:?}")),
            Self::WentBack { open } => {
                let open: Vec<_> = open.iter().filter(|(of, _)| *of == id).collect();
                Some(format!("WentBack, with {open:?}"))
            }
            Self::Fault(_) | Self::Healed | Self::Broken { .. } | Self::Arrived { .. } | Self::Queue { .. } => Some(format!("{self:?}")),
            Self::Joined { .. }
            | Self::OverCredit { .. }
            | Self::JobCount(_)
            | Self::AskSchedule { .. }
            | Self::AnswerSchedule { .. }
            | Self::Notices { .. }
            | Self::Calendar { .. }
            | Self::RunStarted { .. }
            | Self::RunChanged { .. }
            | Self::RunFinal { .. }
            | Self::BatchStored { .. }
            | Self::BatchCancelled { .. }
            | Self::CompensationStored { .. }
            | Self::BatchFinal { .. }
            | Self::Ledger { .. } => None,
        }
    }
}

/// The job that a write is about.
pub fn job_of(write: &Write) -> Option<JobId> {
    match write {
        Write::Job(write) => write.job(),
        Write::Schedule(
            ScheduleWrite::Add(_)
            | ScheduleWrite::Edit { .. }
            | ScheduleWrite::Set { .. }
            | ScheduleWrite::Drop { .. }
            | ScheduleWrite::StartedLate(_)
            | ScheduleWrite::Watermark { .. },
        ) => None,
        Write::Notice(notice) => notice.job,
        Write::Schedule(ScheduleWrite::Decide(decision) | ScheduleWrite::Release(decision)) => decision.occurrence.job,
    }
}

struct Fnv(u64);

impl fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
