//! Taking shards over, and giving them up.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{JobId, ShardId, WorkerId};
use crate::shard::event::{Adopted, Send, TakenSchedules};
use crate::shard::live::{Denial, Live, Run, Shard, Stage};
use crate::shard::write::{Epoch, JobWrite, StartsId};
use crate::shard::{Answer, Owner, planted};

/// A start, by the record that it is in: a store that has lost commits may have another one of the same attempt.
type Unsent = (StartsId, JobId);

/// What is known of shards from one period of ownership to the next.
#[derive(Default)]
pub(super) struct Takeovers {
    /// How often a shard was acquired.
    count: u64,
    /// Starts of shards that were given up which were never sent, whatever the store says of them.
    unsent: BTreeMap<ShardId, BTreeSet<Unsent>>,
}

impl Takeovers {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    fn acquired(&mut self) {
        self.count += 1;
    }

    /// Records the starts of a shard that were not sent when it was given up. Those of an earlier period are known to
    /// the owners since.
    fn set_unsent(&mut self, shard: ShardId, unsent: BTreeSet<Unsent>) {
        self.unsent.insert(shard, unsent);
    }

    fn take_unsent(&mut self, shard: ShardId) -> BTreeSet<Unsent> {
        self.unsent.remove(&shard).unwrap_or_default()
    }
}

impl Owner {
    /// Takes a shard over: what ran under the former owner goes on, and waits for
    /// its worker to report it.
    pub(super) fn acquired(&mut self, id: ShardId, epoch: Epoch, spent: Vec<StartsId>, schedules: TakenSchedules) {
        self.forget(id);
        self.takeovers.acquired();
        self.running_quotas.acquired();
        if planted!(self.config, PauseForgotten) {
            self.paused_queues.forget_all();
        }
        self.shards.insert(Shard::new(id, epoch, schedules, self.now));
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
        let unsent = self.takeovers.take_unsent(shard);
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
        let pool = self.fleet.pool_of(&adopted.job.task);
        let mut live = Live::new(adopted.job, pool, start.picked_up_at);
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
        self.fleet.expect(start.worker, start.key.id, self.now);
        // A worker that is connected already must say again what it holds.
        let holds = start.worker != WorkerId::WORKFLOWS;
        if holds && self.fleet.is_connected(start.worker) && !self.effects.disconnects.contains(&start.worker) {
            self.effects.disconnects.push(start.worker);
        }
        self.running_quotas.runs(live.task.namespace, start.key.id);
        let shard = self.shard_mut(shard).expect("the shard was just acquired");
        shard.start_records.add(adopted.start.starts);
        shard.jobs.insert(start.key.id, live);
        if start.worker == WorkerId::WORKFLOWS {
            self.start_run_again(start.key.id);
        }
    }

    /// Drops everything about a shard. Its rows are somebody else's business now.
    pub(super) fn forget(&mut self, id: ShardId) {
        let Some(shard) = self.shards.remove(id) else { return };
        let mut unsent = BTreeSet::new();
        for live in shard.jobs.values() {
            if let Stage::Starting(Run { starts: Some(starts), .. }) = live.stage {
                unsent.insert((starts, live.key.id));
            }
            match live.stage {
                Stage::Waiting | Stage::Ready => self.window.dequeue(live),
                Stage::Starting(run) | Stage::Running(run) => self.fleet.release(run.worker, live.key.id),
                Stage::Ending { .. } => {}
            }
        }
        self.outbox.forget(id);
        self.running_quotas.forget(id);
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
        self.takeovers.set_unsent(id, unsent);
        self.answer_not_owner(id, &shard.deferred);
        let askers = shard.schedules.askers();
        self.effects.answers.extend(askers.map(|token| (token, Answer::NotOwner)));
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
}
