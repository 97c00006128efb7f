//! The window: which jobs are in memory.
//!
//! A job may be left out of the window at any time, as long as it is remembered from
//! where to read it again; see [`super::parking`]. It may never be taken in twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::id::{JobId, ShardId};
use crate::job::JobKey;
use crate::schedule::ScheduleReply;
use crate::shard::event::{Adopted, Loaded, Send, TakenSchedules};
use crate::shard::live::{Denial, Live, Run, Shard, Stage};
use crate::shard::ready::ClassId;
use crate::shard::write::{Epoch, JobWrite, StartsId, Write};
use crate::shard::{Owner, planted};
use crate::task::{Priority, Task};
use crate::time::{Span, Timestamp};

/// Changes of tasks that are remembered, for rows that were read before them.
const CHANGED_TASKS_MAX: usize = 256;

/// Places in the window that a class has in any case.
const CLASS_SURE: usize = 16;

impl Owner {
    /// Takes a shard over: what ran under the former owner goes on, and waits for
    /// its worker to report it.
    pub(super) fn acquired(&mut self, id: ShardId, epoch: Epoch, spent: Vec<StartsId>, schedules: TakenSchedules) {
        self.forget(id);
        self.acquisitions += 1;
        let place = usize::from(id.0);
        if self.shards.len() <= place {
            self.shards.resize_with(place + 1, || None);
        }
        self.shards[place] = Some(Box::new(Shard::new(id, epoch, schedules, self.now)));
        self.request_schedules(id, None);
        for starts in spent {
            self.push(JobWrite::CloseStarts(starts));
        }
    }

    /// Takes over what runs in a shard that was just acquired.
    pub(super) fn adopt_all(&mut self, shard: ShardId, running: Vec<Adopted>, whole_since: Epoch) {
        if planted!(self.config, TakeoverForgetsRunning) {
            return;
        }
        let unsent = self.unsent.remove(&shard).unwrap_or_default();
        for adopted in running {
            let starts = adopted.start.starts;
            let is_unsent = unsent.contains(&(starts, adopted.start.start.key.id));
            let is_believed = planted!(self.config, OldStartBelieved);
            // Otherwise its end may have been committed and lost, and the worker has forgotten it for that reason.
            let proves = starts.epoch >= whole_since || is_unsent || is_believed;
            let denial = if proves { Denial::Proves } else { Denial::ProvesNothing };
            self.adopt(shard, adopted, denial);
        }
    }

    fn adopt(&mut self, shard: ShardId, adopted: Adopted, denial: Denial) {
        let start = adopted.start.start;
        let class = self.ready.class_of(&adopted.job.task, &mut self.workers);
        let mut live = Live::new(adopted.job, class, start.picked_up_at);
        // Its worker may have ended it in time, and needs some to come back and say so.
        let deadline = (start.started_at + live.task.spec.time_to_end()).max(self.now + self.config.worker_silence);
        live.stage = Stage::Running(Run {
            deadline,
            attempt: start.attempt,
            worker: start.worker,
            started_at: start.started_at,
            starts: Some(adopted.start.starts),
            cancel: adopted.start.cancel,
            denial,
        });
        self.workers.expect(start.worker, start.key.id, self.now, &mut self.ready);
        // A worker that is connected already must say again what it holds.
        if self.workers.is_connected(start.worker) && !self.effects.disconnects.contains(&start.worker) {
            self.effects.disconnects.push(start.worker);
        }
        let shard = self.shard_mut(shard).expect("the shard was just acquired");
        *shard.open_starts.entry(adopted.start.starts).or_default() += 1;
        shard.jobs.insert(start.key.id, live);
    }

    /// Drops everything about a shard. Its rows are somebody else's business now.
    pub(super) fn forget(&mut self, id: ShardId) {
        let Some(shard) = self.shards.get_mut(usize::from(id.0)).and_then(Option::take) else { return };
        let mut unsent = BTreeSet::new();
        for live in shard.jobs.values() {
            if let Stage::Starting(Run { starts: Some(starts), .. }) = live.stage {
                unsent.insert((starts, live.key.id));
            }
            match live.stage {
                Stage::Waiting => {
                    self.window_len -= 1;
                    self.ready.stop_waiting(live.class, live.key);
                }
                Stage::Ready => {
                    self.window_len -= 1;
                    self.ready.remove(live.class, live.rank());
                }
                Stage::Starting(run) | Stage::Running(run) => {
                    self.workers.release(run.worker, live.key.id, &mut self.ready);
                }
                Stage::Ending { .. } => {}
            }
        }
        self.outbox.forget(id);
        // What was started and not yet sent is for the next owner to take back.
        self.effects.sends.retain(|(_, _, send)| match send {
            Send::Assign(start) if start.key.shard() == id => {
                let stage = shard.jobs.get(&start.key.id).map(|live| live.stage);
                if let Some(Stage::Running(Run { starts: Some(starts), .. })) = stage {
                    unsent.insert((starts, start.key.id));
                }
                false
            }
            _ => true,
        });
        // Those of an earlier time are known to whoever owned the shard since.
        self.unsent.insert(id, unsent);
        self.answer_not_owner(id, &shard.deferred);
        let askers = shard.schedules.askers();
        self.effects.schedule_replies.extend(askers.map(|token| (token, ScheduleReply::NotOwner)));
    }

    /// The shard is to be given up soon. Nothing of it starts any more; what was decided
    /// becomes durable, and what runs can still be reported.
    pub(super) fn retire(&mut self, id: ShardId) {
        let Some(shard) = self.shard_mut(id) else { return };
        shard.is_retiring = true;
        let waiting: Vec<JobId> =
            shard.jobs.values().filter(|live| live.is_in_window()).map(|live| live.key.id).collect();
        for job in waiting {
            self.dequeue(job);
            self.shard_mut(id).expect("it was found above").remove(job);
        }
    }

    /// Whether everything that was decided for the shard is durable, or was refused. Once it
    /// is so for a shard that retires, every start on record was sent.
    pub fn is_quiet(&self, shard: ShardId) -> bool {
        !self.outbox.holds(shard)
    }

    /// Takes a job that has just become durable, or was found again, into memory if its
    /// time is near and there is room.
    pub(super) fn admit(&mut self, job: Loaded) {
        let job = self.with_newest_task(job);
        let key = job.row.key;
        if key.due_at > self.now + self.config.look_ahead {
            // The sweep has not come so far, and will.
            return;
        }
        let class = self.ready.class_of(&job.task, &mut self.workers);
        let task = job.task.id;
        if self.is_parked(class, key, job.row.priority) || !self.take_in(job, class) {
            self.park(class, key, task);
        }
    }

    /// Takes a job into memory, unless it is there. False when there is no room, not even
    /// in the place of a job of the class that is due later.
    pub(super) fn take_in(&mut self, job: Loaded, class: ClassId) -> bool {
        let (key, now) = (job.row.key, self.now);
        let Some(shard) = self.shard_mut(key.shard()).filter(|shard| !shard.is_retiring) else { return true };
        if shard.jobs.contains_key(&key.id) {
            return true;
        }
        if self.room_for(class, job.row.priority) == 0 && !self.make_room_before(class, key) {
            return false;
        }
        let mut live = Live::new(job, class, now);
        if let Some(source) = live.tracked()
            && let Some(shard) = self.shard_mut(source.schedule.shard())
        {
            shard.schedules.run_seen(source.schedule, key.id);
        }
        self.enqueue(&mut live);
        let shard = self.shard_mut(key.shard()).expect("the shard was found above");
        shard.jobs.insert(key.id, live);
        true
    }

    /// Leaves the job of the class that is due last to the store again, if it is due after
    /// `key`. Without this, jobs of one shard that are not yet due could keep out jobs of
    /// another that are.
    fn make_room_before(&mut self, class: ClassId, key: JobKey) -> bool {
        let Some(last) = self.ready.last_waiting(class).filter(|last| *last > key) else { return false };
        self.dequeue(last.id);
        let shard = self.shard_mut(last.shard()).expect("waiting jobs are of owned shards");
        if let Some(live) = shard.remove(last.id) {
            self.park(class, last, live.task.id);
        }
        true
    }

    /// Puts a job among those that wait for their time, or for a worker.
    fn enqueue(&mut self, live: &mut Live) {
        self.window_len += 1;
        if live.key.due_at <= self.start_limit() {
            live.stage = Stage::Ready;
            self.ready.insert(live.class, live.rank());
        } else {
            live.stage = Stage::Waiting;
            self.ready.wait(live.class, live.key);
        }
    }

    /// A job in memory waits again, under a new key.
    pub(super) fn readmit(&mut self, id: JobId) {
        let horizon = self.now + self.config.look_ahead;
        let Some(shard) = self.shard_mut(id.shard()) else { return };
        let Some(mut live) = shard.jobs.remove(&id) else { return };
        let (class, key) = (live.class, live.key);
        if shard.is_retiring {
            shard.reads.left(id);
            return;
        }
        let is_near = key.due_at <= horizon;
        let is_taken = is_near
            && !self.is_parked(class, key, live.priority)
            && (self.room_for(class, live.priority) > 0 || self.make_room_before(class, key));
        if is_taken {
            live.picked_up_at = self.now;
            self.enqueue(&mut live);
            let shard = self.shard_mut(id.shard()).expect("the shard was found above");
            shard.jobs.insert(id, live);
            return;
        }
        let shard = self.shard_mut(id.shard()).expect("the shard was found above");
        shard.reads.left(id);
        if is_near {
            self.park(class, key, live.task.id);
        }
    }

    /// How many more jobs of this class the window takes. No class takes more than what
    /// is left for all others, so that one whose workers are busy or away never shuts out
    /// the rest. Beyond that, urgent jobs have a reserve, and every class has a few places
    /// however full the window is.
    pub(super) fn room_for(&self, class: ClassId, priority: Priority) -> usize {
        let max = self.config.window_max;
        let reserve = if priority > Priority::default() { max / 4 } else { 0 };
        let free = (max + reserve).saturating_sub(self.window_len);
        let sure = CLASS_SURE.min(max / 4).max(1);
        let in_window = self.ready.in_window(class);
        let share = if reserve > 0 { free } else { free.saturating_sub(in_window) };
        share.max(sure.saturating_sub(in_window))
    }

    fn start_limit(&self) -> Timestamp {
        if planted!(self.config, EarlyStart) { self.now + Span::from_millis(50) } else { self.now }
    }

    /// Moves what has become due from its time to the queue for workers.
    pub(super) fn wake_due(&mut self) {
        for key in self.ready.take_due(self.start_limit()) {
            let shard =
                self.shards[usize::from(key.shard().0)].as_deref_mut().expect("waiting jobs are of owned shards");
            let live = shard.jobs.get_mut(&key.id).expect("a waiting key has its job");
            live.stage = Stage::Ready;
            self.ready.insert(live.class, live.rank());
        }
    }

    /// Takes a job out of the window's queues; it stays in memory.
    pub(super) fn dequeue(&mut self, id: JobId) {
        let shard = self.shards[usize::from(id.shard().0)].as_deref_mut().expect("the job's shard is owned");
        let live = shard.jobs.get(&id).expect("the job is in memory");
        match live.stage {
            Stage::Waiting => self.ready.stop_waiting(live.class, live.key),
            Stage::Ready => self.ready.remove(live.class, live.rank()),
            Stage::Starting(_) | Stage::Running(_) | Stage::Ending { .. } => return,
        }
        self.window_len -= 1;
    }

    /// A task has a new definition: waiting jobs follow it at once, running ones with their
    /// next attempt.
    pub(super) fn task_changed(&mut self, task: &Arc<Task>) {
        // Two changes may be told in the wrong order.
        if self.changed_tasks.get(&task.id).is_some_and(|known| known.revision > task.revision) {
            return;
        }
        if self.changed_tasks.len() >= CHANGED_TASKS_MAX {
            self.changed_tasks.clear();
        }
        self.changed_tasks.insert(task.id, Arc::clone(task));
        self.schedules_follow_task(task);
        let class = self.ready.class_of(task, &mut self.workers);
        let ids = self.owned().flat_map(|shard| shard.jobs.values());
        let mut ids: Vec<JobId> = ids.filter(|live| live.task.id == task.id).map(|live| live.key.id).collect();
        ids.sort_unstable();
        for id in ids {
            let shard = self.shard_mut(id.shard()).expect("the job was found there");
            let is_in_window = shard.jobs.get(&id).is_some_and(Live::is_in_window);
            if is_in_window {
                self.dequeue(id);
            }
            let shard = self.shard_mut(id.shard()).expect("the job was found there");
            let mut live = shard.jobs.remove(&id).expect("the job was found there");
            live.task = Arc::clone(task);
            live.class = class;
            if is_in_window {
                self.enqueue(&mut live);
            }
            let shard = self.shard_mut(id.shard()).expect("the job was found there");
            shard.jobs.insert(id, live);
        }
        self.park_anew(task, class);
    }

    /// A row may have been read before its task was changed.
    pub(super) fn with_newest_task(&self, mut job: Loaded) -> Loaded {
        if let Some(newest) = self.changed_tasks.get(&job.task.id)
            && newest.revision > job.task.revision
        {
            job.task = Arc::clone(newest);
        }
        job
    }

    /// Takes a decided write, in the order in which decisions are made.
    pub(super) fn push(&mut self, write: impl Into<Write>) {
        self.outbox.push(write.into(), self.now);
    }

    /// One job of this record has durably ended; the last one closes it. Not sooner: a
    /// record that is closed while the end of one of its jobs fails would leave a row
    /// that looks as if it had never started.
    pub(super) fn release_start(&mut self, starts: Option<StartsId>) {
        let Some(starts) = starts else { return };
        let Some(shard) = self.shard_mut(starts.shard) else { return };
        let Some(open) = shard.open_starts.get_mut(&starts) else { return };
        *open -= 1;
        if *open == 0 {
            shard.open_starts.remove(&starts);
            self.push(JobWrite::CloseStarts(starts));
        }
    }
}
