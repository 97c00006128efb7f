//! What the owner keeps in memory of a shard and of each job near its time.

use std::sync::Arc;

use crate::attempt::AttemptNo;
use crate::batch::{Gang, MemberRef};
use crate::give_backs::{GiveBacks, GivenBack};
use crate::id::{JobId, ShardId, WorkerId};
use crate::id_map::{IdMap, IdSet};
use crate::job::{Counters, Input, JobKey};
use crate::schedule::{Source, SourceKind};
use crate::shard::event::{Command, Loaded, TakenSchedules, Token};
use crate::shard::fleet::PoolId;
use crate::shard::gangs::GangKey;
use crate::shard::schedules::Schedules;
use crate::shard::start_records::StartRecords;
use crate::shard::sweeps::Sweeps;
use crate::shard::write::{CancelMark, Epoch, StartsId};
use crate::task::{Priority, Task};
use crate::time::{Span, Timestamp};
use crate::workflow::NodeRef;

pub(super) struct Shard {
    pub(super) id: ShardId,
    pub(super) epoch: Epoch,
    /// The shard is about to be given up: none of its jobs start any more.
    pub(super) is_retiring: bool,
    pub(super) jobs: IdMap<JobId, Live>,
    pub(super) sweeps: Sweeps,
    /// Jobs outside memory with a write under way.
    pub(super) busy: IdSet<JobId>,
    pub(super) start_records: StartRecords,
    /// Commands on jobs with a write under way, to be looked at after it.
    pub(super) deferred: Vec<(Token, JobId, Command)>,
    pub(super) schedules: Schedules,
}

impl Shard {
    pub(super) fn new(id: ShardId, epoch: Epoch, schedules: TakenSchedules, now: Timestamp) -> Self {
        Self {
            id,
            epoch,
            is_retiring: false,
            jobs: IdMap::default(),
            sweeps: Sweeps::new(id, epoch),
            busy: IdSet::default(),
            start_records: StartRecords::default(),
            deferred: Vec::new(),
            schedules: Schedules::taken(schedules, now),
        }
    }

    /// Removes a job from memory, permanently or until a read brings it back.
    pub(super) fn remove(&mut self, id: JobId) -> Option<Live> {
        self.sweeps.left(id);
        self.jobs.remove(&id)
    }
}

/// A job in memory.
pub(super) struct Live {
    pub(super) key: JobKey,
    pub(super) task: Arc<Task>,
    pub(super) pool: PoolId,
    pub(super) priority: Priority,
    pub(super) counters: Counters,
    pub(super) tracing_id: Option<String>,
    pub(super) source: Option<Box<Source>>,
    pub(super) node: Option<Box<NodeRef>>,
    pub(super) member: Option<Box<MemberRef>>,
    pub(super) give_backs: Option<Box<GiveBacks>>,
    pub(super) input: Input,
    pub(super) picked_up_at: Timestamp,
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    /// The job waits for its due time.
    Waiting,
    /// The job is due and waits for a worker.
    Ready,
    /// The start is decided and not yet durable.
    Starting(Run),
    Running(Run),
    /// The end or the requeue is decided and not yet durable.
    Ending {
        /// The attempt that ends, if it has one.
        run: Option<Run>,
    },
}

impl Stage {
    /// The end or the move of a job that has no attempt under way.
    pub(super) const MOVING: Self = Self::Ending { run: None };

    /// The record of the start that is ending.
    pub(super) fn starts(self) -> Option<StartsId> {
        match self {
            Self::Ending { run } => run.and_then(|run| run.starts),
            Self::Waiting | Self::Ready | Self::Starting(_) | Self::Running(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) attempt: AttemptNo,
    pub(super) worker: WorkerId,
    pub(super) started_at: Timestamp,
    /// By this time the worker should have ended the attempt.
    pub(super) deadline: Timestamp,
    /// The durable record; known once the batch was made.
    pub(super) starts: Option<StartsId>,
    pub(super) cancel: CancelMark,
    pub(super) denial: Denial,
}

/// What it means if its worker does not know an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denial {
    /// The worker never received it: it would know it until its end is durable.
    Proves,
    /// Or its end was durable, and the database has gone back to before that.
    ProvesNothing,
}

impl Stage {
    /// Gives a running attempt more time.
    pub(super) fn prolong(&mut self, gap: Span) {
        if let Self::Starting(run) | Self::Running(run) = self {
            run.deadline = run.deadline + gap;
        }
    }
}

impl Live {
    pub(super) fn new(job: Loaded, pool: PoolId, picked_up_at: Timestamp) -> Self {
        let Loaded { row, task } = job;
        Self {
            key: row.key,
            task,
            pool,
            priority: row.priority,
            counters: row.counters,
            tracing_id: row.tracing_id,
            source: row.source,
            node: row.node,
            member: row.member,
            give_backs: row.give_backs,
            input: row.input,
            picked_up_at,
            stage: Stage::Waiting,
        }
    }

    pub(super) fn rank(&self) -> (i64, JobId) {
        (self.priority.rank(self.key.due_at), self.key.id)
    }

    /// The schedule that made it, if others may wait for its end.
    pub(super) fn tracked(&self) -> Option<Source> {
        self.source.as_deref().copied().filter(|source| source.is_tracked)
    }

    /// The job's last start, if it was taken back.
    pub(super) fn given_back(&self) -> Option<&GivenBack> {
        self.give_backs.as_ref()?.last.as_ref()
    }

    /// Since when the job should have run. A start that was taken back does not change this.
    pub(super) fn due_since(&self) -> Timestamp {
        self.given_back().map_or(self.key.due_at, |last| last.since)
    }

    /// The planned time that it runs, as long as no attempt of it has run.
    pub(super) fn first_run_of(&self) -> Option<Source> {
        let has_not_run = match self.given_back() {
            // It may have been made eligible again since it ran.
            Some(last) => last.since == self.key.id.due_at(),
            None => !self.counters.has_started(),
        };
        let is_planned = |source: &Source| match source.kind {
            SourceKind::Planned | SourceKind::Replayed => true,
            SourceKind::Manual | SourceKind::Backfill => false,
        };
        self.source.as_deref().copied().filter(|source| has_not_run && is_planned(source))
    }

    /// The gang that it starts with. Only its first start is one of all members together: what is started again, because it
    /// failed or was given back, starts by itself. One that somebody runs again is due later than at first.
    pub(super) fn gang(&self) -> Option<(GangKey, Gang)> {
        let member = self.member.as_deref()?;
        let gang = member.gang?;
        let is_first = !self.counters.has_started() && self.key.due_at <= self.key.id.due_at();
        is_first.then(|| (GangKey { due_at: self.key.id.due_at(), batch: member.batch }, gang))
    }

    /// Waits for its time or for a worker.
    pub(super) fn is_in_window(&self) -> bool {
        matches!(self.stage, Stage::Waiting | Stage::Ready)
    }
}
