//! What people and programs may know of the owner's memory.

use std::collections::BTreeSet;

use crate::attempt::AttemptNo;
use crate::id::{JobId, ShardId, TaskId, WorkerId};
use crate::job::JobKey;
use crate::lifecycle::JobState;
use crate::shard::Owner;
use crate::shard::live::{Live, Run, Stage};
use crate::shard::write::{CancelMark, Epoch};
use crate::time::{Span, Timestamp};

/// A running attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveView {
    pub key: JobKey,
    pub attempt: AttemptNo,
    pub worker: WorkerId,
    pub picked_up_at: Timestamp,
    pub started_at: Timestamp,
    pub cancel_requested: bool,
    /// Whether the worker is connected. If not, the attempt is given up after the worker was silent for too long.
    pub worker_is_connected: bool,
}

/// What this owner has made durable since it was made, and what it holds now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub cancelled: u64,
    pub lost: u64,
    pub quarantined: u64,
    pub deleted: u64,
    pub retried: u64,
    pub stale: u64,
    pub commits: u64,
    pub running: u64,
    pub ready: u64,
    pub waiting: u64,
    pub workers: u64,
}

impl Counts {
    pub(super) fn finished(&mut self, state: JobState) {
        let count = match state {
            JobState::Succeeded => &mut self.succeeded,
            JobState::Failed => &mut self.failed,
            JobState::Cancelled => &mut self.cancelled,
            JobState::Lost => &mut self.lost,
            JobState::Quarantined => &mut self.quarantined,
            JobState::Deleted => &mut self.deleted,
            JobState::Scheduled | JobState::Running => return,
        };
        *count += 1;
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerStatus {
    pub id: WorkerId,
    pub is_connected: bool,
    pub credit: u32,
    pub running: u32,
    pub seen_at: Timestamp,
}

impl Owner {
    /// The running attempt of a job, if it has one.
    pub fn running(&self, id: JobId) -> Option<LiveView> {
        self.shard(id.shard())?.jobs.get(&id).and_then(|live| self.running_view(live))
    }

    /// What runs of these jobs, as people see it.
    pub fn shown_running(&self, ids: &[JobId]) -> Vec<LiveView> {
        let live = ids.iter().filter_map(|id| self.shard(id.shard())?.jobs.get(id));
        live.filter_map(|live| self.shown_view(live)).collect()
    }

    /// Everything that runs, as people see it, in order of key.
    pub fn all_shown_running(&self) -> Vec<LiveView> {
        let live = self.shards.all_live();
        let mut views: Vec<_> = live.filter_map(|live| self.shown_view(live)).collect();
        views.sort_unstable_by_key(|view| view.key);
        views
    }

    /// Everything that runs, in order of key.
    pub fn all_running(&self) -> Vec<LiveView> {
        let mut views: Vec<_> =
            self.owned().flat_map(|shard| shard.jobs.values().filter_map(|live| self.running_view(live))).collect();
        views.sort_unstable_by_key(|view| view.key);
        views
    }

    pub fn worker_status(&self) -> Vec<WorkerStatus> {
        self.fleet.status()
    }

    pub fn worker_is_connected(&self, id: WorkerId) -> bool {
        self.fleet.is_connected(id)
    }

    pub fn counts(&self) -> Counts {
        let ready = self.window.ready_len() as u64;
        let waiting = (self.window.len() as u64).saturating_sub(ready);
        Counts { running: self.fleet.running(), ready, waiting, workers: self.fleet.connected(), ..self.counts }
    }

    /// How often a shard was acquired. A worker's hello counts only if it answers a greeting
    /// that was made since: what it leaves out of a shard's attempts, it never received.
    pub fn acquisitions(&self) -> u64 {
        self.takeovers.count()
    }

    /// How long the job has waited that waits longest for a worker that is connected. One that no such worker can run, or
    /// whose queue is paused, says nothing about how well they keep up.
    pub fn lag(&self) -> Span {
        let served = self.fleet.served_pools();
        let served: BTreeSet<_> = served.into_iter().filter(|pool| !self.is_paused(*pool)).collect();
        let is_served = |live: &&Live| matches!(live.stage, Stage::Ready) && served.contains(&live.pool);
        let ready = self.shards.all_live().filter(is_served);
        ready.map(|live| live.key.due_at).min().map_or(Span::ZERO, |due_at| self.now.since(due_at))
    }

    /// The tasks in memory that wait for their file, with their known revisions. The notification that a file has
    /// arrived may have been lost.
    pub fn tasks_that_wait(&self) -> Vec<(TaskId, u32)> {
        // Most of the time no pool waits for a file, and no job has to be looked at.
        if !self.window.has_pool(|pool| self.fleet.awaits_arrival(pool)) {
            return Vec::new();
        }
        let tasks = self.shards.all_live().map(|live| &live.task);
        let waiting = tasks.filter(|task| task.waits_for.is_some()).map(|task| (task.id, task.revision));
        waiting.collect::<BTreeSet<_>>().into_iter().collect()
    }

    pub fn owned_shards(&self) -> Vec<(ShardId, Epoch)> {
        self.owned().map(|shard| (shard.id, shard.epoch)).collect()
    }

    pub(super) fn running_view(&self, live: &Live) -> Option<LiveView> {
        let Stage::Running(run) = live.stage else { return None };
        Some(self.view_of(live, run))
    }

    /// A job is shown as running until its end is durable, because it is not found anywhere else before.
    fn shown_view(&self, live: &Live) -> Option<LiveView> {
        match live.stage {
            Stage::Running(run) | Stage::Ending { run: Some(run) } => Some(self.view_of(live, run)),
            Stage::Waiting | Stage::Ready | Stage::Starting(_) | Stage::Ending { run: None } => None,
        }
    }

    fn view_of(&self, live: &Live, run: Run) -> LiveView {
        LiveView {
            key: live.key,
            attempt: run.attempt,
            worker: run.worker,
            picked_up_at: live.picked_up_at,
            started_at: run.started_at,
            cancel_requested: run.cancel == CancelMark::Recorded,
            worker_is_connected: self.fleet.is_connected(run.worker),
        }
    }
}
