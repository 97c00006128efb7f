//! The window: which jobs are in memory, and what to read next.
//!
//! A job may be left out of the window at any time, as long as the cursor stays
//! before it: then a read brings it back. It may never be taken in twice.

use std::sync::Arc;

use crate::id::{JobId, ShardId};
use crate::job::JobKey;
use crate::shard::event::{Adopted, Lane, Load, Loaded};
use crate::shard::live::{Live, Run, Shard, Stage};
use crate::shard::write::{Epoch, StartsId, Write};
use crate::shard::{Bug, Owner};
use crate::task::{Priority, Task};
use crate::time::{Span, Timestamp};

impl Owner {
    /// Takes a shard over: what ran under the former owner goes on, and waits for
    /// its worker to report it.
    pub(super) fn acquired(&mut self, id: ShardId, epoch: Epoch, running: Vec<Adopted>, spent: Vec<StartsId>) {
        self.forget(id);
        let place = usize::from(id.0);
        if self.shards.len() <= place {
            self.shards.resize_with(place + 1, || None);
        }
        self.shards[place] = Some(Box::new(Shard::new(id, epoch)));
        self.outbox.extend(spent.into_iter().map(Write::CloseStarts));
        if self.config.has(Bug::TakeoverForgetsRunning) {
            return;
        }
        for adopted in running {
            self.adopt(id, adopted);
        }
    }

    fn adopt(&mut self, shard: ShardId, adopted: Adopted) {
        let start = adopted.start.start;
        let class = self.ready.class_of(&adopted.job.task, &mut self.workers);
        let mut live = Live::new(adopted.job, class, start.picked_up_at);
        live.stage = Stage::Running(Run {
            attempt: start.attempt,
            worker: start.worker,
            started_at: start.started_at,
            starts: Some(adopted.start.starts),
            cancel: adopted.start.cancel,
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
        for live in shard.jobs.values() {
            match live.stage {
                Stage::Waiting => self.window_len -= 1,
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
        self.outbox.retain(|write| write.shard() != id);
        self.answer_not_owner(id, &shard.deferred);
    }

    /// Takes a waiting job into memory if its time is near and there is room.
    pub(super) fn admit(&mut self, job: Loaded) {
        let (now, horizon) = (self.now, self.now + self.config.look_ahead);
        let key = job.row.key;
        let room = self.room_for(job.row.priority);
        let forgets = self.config.has(Bug::FullWindowForgets);
        let Some(shard) = self.shard_mut(key.shard()) else { return };
        if shard.jobs.contains_key(&key.id) || key.due_at > horizon {
            return;
        }
        if room == 0 {
            if !forgets {
                rewind(shard, key);
            }
            return;
        }
        let class = self.ready.class_of(&job.task, &mut self.workers);
        let mut live = Live::new(job, class, now);
        self.enqueue(&mut live);
        let shard = self.shard_mut(key.shard()).expect("the shard was found above");
        shard.jobs.insert(key.id, live);
    }

    /// Puts a job among those that wait for their time, or for a worker.
    fn enqueue(&mut self, live: &mut Live) {
        self.window_len += 1;
        if live.key.due_at <= self.start_limit() {
            live.stage = Stage::Ready;
            self.ready.insert(live.class, live.rank());
        } else {
            live.stage = Stage::Waiting;
            let key = live.key;
            let shard = self.shard_mut(key.shard()).expect("only jobs of owned shards are in memory");
            shard.waiting.insert(key);
        }
    }

    /// A job in memory waits again, under a new key.
    pub(super) fn readmit(&mut self, id: JobId) {
        let horizon = self.now + self.config.look_ahead;
        let Some(shard) = self.shard_mut(id.shard()) else { return };
        let Some(mut live) = shard.jobs.remove(&id) else { return };
        let has_room = self.room_for(live.priority) > 0;
        if live.key.due_at <= horizon && has_room {
            live.picked_up_at = self.now;
            self.enqueue(&mut live);
            let shard = self.shard_mut(id.shard()).expect("the shard was found above");
            shard.jobs.insert(id, live);
            return;
        }
        let shard = self.shard_mut(id.shard()).expect("the shard was found above");
        shard.reads.left(id);
        rewind(shard, live.key);
    }

    /// Urgent jobs have a reserve, so that a full window does not shut them out.
    fn room_for(&self, priority: Priority) -> usize {
        let reserve = if priority > Priority::default() { self.config.window_max / 4 } else { 0 };
        (self.config.window_max + reserve).saturating_sub(self.window_len)
    }

    fn start_limit(&self) -> Timestamp {
        if self.config.has(Bug::EarlyStart) { self.now + Span::from_millis(50) } else { self.now }
    }

    /// Moves what has become due from its time to the queue for workers.
    pub(super) fn wake_due(&mut self) {
        let limit = self.start_limit();
        for shard in self.shards.iter_mut().flatten() {
            while let Some(key) = shard.waiting.first().copied().filter(|key| key.due_at <= limit) {
                shard.waiting.pop_first();
                let live = shard.jobs.get_mut(&key.id).expect("a waiting key has its job");
                live.stage = Stage::Ready;
                self.ready.insert(live.class, live.rank());
            }
        }
    }

    /// Takes a job out of the window's queues; it stays in memory.
    pub(super) fn dequeue(&mut self, id: JobId) {
        let shard = self.shards[usize::from(id.shard().0)].as_deref_mut().expect("the job's shard is owned");
        let live = shard.jobs.get(&id).expect("the job is in memory");
        match live.stage {
            Stage::Waiting => {
                shard.waiting.remove(&live.key);
            }
            Stage::Ready => self.ready.remove(live.class, live.rank()),
            Stage::Starting(_) | Stage::Running(_) | Stage::Ending { .. } => return,
        }
        self.window_len -= 1;
    }

    /// The answer to a load.
    pub(super) fn page(&mut self, load: Load, jobs: Vec<Loaded>) {
        let ghosts = self.config.has(Bug::GhostRows);
        let Some(shard) = self.shard_mut(load.shard).filter(|shard| shard.epoch == load.epoch) else { return };
        let is_full = jobs.len() >= load.limit;
        let reached = match jobs.last() {
            Some(last) if is_full => last.row.key,
            _ => JobKey { due_at: load.until, id: JobId::last_at(Timestamp::MAX) },
        };
        let lane = shard.lane_mut(load.lane);
        let Some(read) = lane.in_flight.take() else { return };
        lane.cursor = Some(reached);
        lane.caught_up = !is_full;
        if let Some(rewound) = lane.rewound.take() {
            lane.cursor = lane.cursor.min(Some(rewound));
            lane.caught_up = false;
        }
        let fresh: Vec<_> =
            jobs.into_iter().filter(|job| ghosts || !shard.reads.is_outdated(read, job.row.key.id)).collect();
        shard.reads.end(read);
        for job in fresh {
            self.admit(job);
        }
    }

    /// Asks for the rows that come next, where there is room for them.
    pub(super) fn request_loads(&mut self) {
        let now = self.now;
        let horizon = now + self.config.look_ahead;
        let rooms = [self.room_for(Priority::default()), self.room_for(Priority::new(1).expect("1 is a priority"))];
        let config = &self.config;
        for shard in self.shards.iter_mut().flatten() {
            for (lane, room) in [(Lane::All, rooms[0]), (Lane::Urgent, rooms[1])] {
                let state = shard.lane_mut(lane);
                // A window that is nearly full is not worth a read of a few rows.
                let low_water = room >= config.window_max / 4 || room >= config.page_len;
                if state.in_flight.is_some() || !low_water || (state.caught_up && now < state.next_at) {
                    continue;
                }
                state.next_at = now + config.sweep_every;
                let limit = config.page_len.min(room);
                let after = state.cursor;
                self.effects.loads.push(Load {
                    shard: shard.id,
                    epoch: shard.epoch,
                    lane,
                    after,
                    until: horizon,
                    limit,
                });
                let read = shard.reads.begin();
                shard.lane_mut(lane).in_flight = Some(read);
            }
            request_floor_sweep(shard, now, config, &mut self.effects.loads);
        }
    }

    /// A task has a new definition: jobs that have not started follow it.
    pub(super) fn task_changed(&mut self, task: &Arc<Task>) {
        for shard in self.shards.iter_mut().flatten() {
            for live in shard.jobs.values_mut().filter(|live| live.task.id == task.id && live.is_in_window()) {
                live.task = Arc::clone(task);
            }
        }
    }

    /// Takes a decided write, in the order in which decisions are made.
    pub(super) fn push(&mut self, write: Write) {
        self.outbox.push_back(write);
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
            self.push(Write::CloseStarts(starts));
        }
    }

    /// A row that was just written is to be read at the next opportunity.
    pub(super) fn read_again(&mut self, key: JobKey) {
        let shard = self.shard_mut(key.shard()).expect("the key is of an owned shard");
        rewind(shard, key);
    }
}

/// Reads everything again from the first row up to where the sweep has come.
fn request_floor_sweep(shard: &mut Shard, now: Timestamp, config: &crate::shard::Config, loads: &mut Vec<Load>) {
    let Some(swept) = shard.all.cursor else { return };
    let floor = &mut shard.floor;
    if floor.in_flight.is_some() {
        return;
    }
    if floor.caught_up {
        floor.caught_up = false;
        floor.cursor = None;
        floor.next_at = now + config.floor_sweep_every;
    }
    if floor.cursor.is_none() && now < floor.next_at {
        return;
    }
    floor.in_flight = Some(shard.reads.begin());
    let until = swept.due_at.min(now + config.look_ahead);
    let load = Load {
        shard: shard.id,
        epoch: shard.epoch,
        lane: Lane::Floor,
        after: floor.cursor,
        until,
        limit: config.page_len,
    };
    loads.push(load);
}

/// Sets both cursors back so that the next read shows `key` again.
fn rewind(shard: &mut Shard, key: JobKey) {
    let before = JobKey { due_at: key.due_at - Span::from_micros(1), id: JobId::first_at(Timestamp::EPOCH) };
    for lane in [&mut shard.all, &mut shard.urgent] {
        if lane.in_flight.is_some() {
            lane.rewound = Some(lane.rewound.map_or(before, |earlier| earlier.min(before)));
        } else if lane.cursor > Some(before) {
            lane.cursor = Some(before);
            lane.caught_up = false;
        }
    }
}
