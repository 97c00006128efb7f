//! Which jobs come into memory.
//!
//! A job may be left out of the window at any time, as long as it is remembered from
//! where to read it again; see [`super::sweeps`]. It may never be taken in twice.

use std::sync::Arc;

use crate::id::JobId;
use crate::job::JobKey;
use crate::shard::event::Loaded;
use crate::shard::fleet::PoolId;
use crate::shard::live::Live;
use crate::shard::{Owner, planted};
use crate::task::Task;
use crate::time::{Span, Timestamp};

impl Owner {
    /// Takes a job that has just become durable, or was found again, into memory if its
    /// time is near and there is room.
    pub(super) fn admit(&mut self, job: Loaded) {
        let job = self.window.with_newest_task(job);
        let key = job.row.key;
        if key.due_at > self.now + self.config.look_ahead {
            // The sweep has not come so far, and will.
            return;
        }
        let pool = self.fleet.pool_of(&job.task);
        let task = job.task.id;
        let is_ganged = job.row.member.as_deref().is_some_and(|member| member.gang.is_some());
        let waits_behind = !is_ganged && self.is_parked(pool, key, job.row.priority);
        if waits_behind || !self.take_in(job, pool) {
            self.park(pool, key, task);
        }
    }

    /// Takes a job into memory, unless it is there. False when there is no room, not even
    /// in the place of a job of the pool that is due later.
    pub(super) fn take_in(&mut self, job: Loaded, pool: PoolId) -> bool {
        let (key, now) = (job.row.key, self.now);
        let Some(shard) = self.shard_mut(key.shard()).filter(|shard| !shard.is_retiring) else { return true };
        if shard.jobs.contains_key(&key.id) {
            return true;
        }
        let mut live = Live::new(job, pool, now);
        match live.gang() {
            Some((gang, _)) if !self.make_gang_room(gang) => {
                self.leave_out(key);
                return true;
            }
            Some(_) => {}
            None if self.window.room_for(pool, live.priority) == 0 && !self.make_room_before(pool, key) => {
                return false;
            }
            None => {}
        }
        if let Some(source) = live.tracked()
            && let Some(shard) = self.shard_mut(source.schedule.shard())
        {
            shard.schedules.run_seen(source.schedule, key.id);
        }
        self.window.enqueue(&mut live, self.start_limit());
        let shard = self.shard_mut(key.shard()).expect("the shard was found above");
        shard.jobs.insert(key.id, live);
        true
    }

    /// Leaves the job of the pool that is due last to the store again, if it is due after
    /// `key`. Without this, jobs of one shard that are not yet due could keep out jobs of
    /// another that are.
    fn make_room_before(&mut self, pool: PoolId, key: JobKey) -> bool {
        let Some(last) = self.window.last_waiting(pool).filter(|last| *last > key) else { return false };
        self.dequeue(last.id);
        let shard = self.shard_mut(last.shard()).expect("waiting jobs are of owned shards");
        if let Some(live) = shard.remove(last.id) {
            self.park(pool, last, live.task.id);
        }
        true
    }

    /// A job in memory waits again, under a new key.
    pub(super) fn readmit(&mut self, id: JobId) {
        let horizon = self.now + self.config.look_ahead;
        let Some(shard) = self.shard_mut(id.shard()) else { return };
        let Some(mut live) = shard.jobs.remove(&id) else { return };
        let (pool, key) = (live.pool, live.key);
        if shard.is_retiring {
            shard.sweeps.left(id);
            return;
        }
        let is_near = key.due_at <= horizon;
        let is_taken = is_near
            && live.gang().is_none_or(|(gang, _)| self.make_gang_room(gang))
            && !self.is_parked(pool, key, live.priority)
            && (self.window.room_for(pool, live.priority) > 0 || self.make_room_before(pool, key));
        if is_taken {
            live.picked_up_at = self.now;
            self.window.enqueue(&mut live, self.start_limit());
            let shard = self.shard_mut(id.shard()).expect("the shard was found above");
            shard.jobs.insert(id, live);
            return;
        }
        let shard = self.shard_mut(id.shard()).expect("the shard was found above");
        shard.sweeps.left(id);
        if is_near {
            self.park(pool, key, live.task.id);
        }
    }

    fn start_limit(&self) -> Timestamp {
        if planted!(self.config, EarlyStart) { self.now + Span::from_millis(50) } else { self.now }
    }

    /// Moves what has become due from its time to the queue for workers.
    pub(super) fn wake_due(&mut self) {
        let limit = self.start_limit();
        for id in self.window.take_due(limit) {
            self.window.wake(self.shards.live_mut(id).expect("a waiting key has its job"));
        }
    }

    /// Takes a job out of the window's queues; it stays in memory.
    pub(super) fn dequeue(&mut self, id: JobId) {
        self.window.dequeue(self.shards.live(id).expect("the job is in memory"));
    }

    /// A task has a new definition: waiting jobs follow it at once, running ones with their
    /// next attempt.
    pub(super) fn task_changed(&mut self, task: &Arc<Task>) {
        if !self.window.task_changed(task) {
            return;
        }
        self.schedules_follow_task(task);
        let pool = self.fleet.pool_of(task);
        let limit = self.start_limit();
        let mut ids: Vec<JobId> =
            self.shards.all_live().filter(|live| live.task.id == task.id).map(|live| live.key.id).collect();
        ids.sort_unstable();
        for id in ids {
            let live = self.shards.live_mut(id).expect("the job was found there");
            let is_in_window = live.is_in_window();
            if is_in_window {
                self.window.dequeue(live);
            }
            live.task = Arc::clone(task);
            live.pool = pool;
            if is_in_window {
                self.window.enqueue(live, limit);
            }
        }
        self.park_anew(task, pool);
    }
}
