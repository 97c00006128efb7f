//! Checks the simulation once a second after the faults have stopped: what is due must start
//! where a worker is idle, and what runs must have somebody who runs it.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::shard::write::{JobWrite, Write};
use punctual_core::task::Task;
use punctual_core::{JobId, JobKey, ShardId, Span, WorkerId};

use crate::conductor::Flows;
use crate::history::Fact;
use crate::simulation::{Health, Simulation};
use crate::worker::Worker;

pub(crate) const AUDIT_EVERY: Span = Span::from_secs(1);

/// From here on the faults are no excuse: leases have run out, silent workers are
/// dead, and everything has been swept once.
const SETTLED_AFTER: Span = Span::from_secs(30);
/// A missed hint costs one floor sweep of 10 s; the rest is for reading and writing.
const LATE_MAX: Span = Span::from_secs(15);
/// A worker that is connected to other servers is asked for, twice if need be, and its slots move.
const REACHED_MAX: Span = Span::from_secs(45);
const GONE_MAX: Span = Span::from_secs(60);

impl Simulation {
    pub(crate) fn audit(&mut self) {
        let Some(healed_at) = self.healed_at else { return };
        if self.now.since(healed_at) < SETTLED_AFTER {
            return;
        }
        let mut running: BTreeSet<JobId> = BTreeSet::new();
        for shard in (0..self.plan.shards).map(ShardId) {
            for adopted in self.store.open_starts(shard).0 {
                let (id, worker) = (adopted.start.start.key.id, adopted.start.start.worker);
                running.insert(id);
                let died = self.workers.iter().find_map(|place| place.died.get(&worker).copied());
                let gone = died.map(|at| self.now.since(at.max(healed_at))).unwrap_or_default();
                if gone > GONE_MAX && self.orphans.insert(id) {
                    self.note(Fact::Orphaned { id, worker, gone });
                }
            }
        }
        // While a gang waits for slots, free ones are left to it. It gives up after its start timeout.
        if self.servers.iter().any(|server| server.owner.holding_gang().is_some()) {
            self.waits.clear();
            self.far_waits.clear();
            return;
        }
        self.audit_due(&running);
    }

    fn audit_due(&mut self, running: &BTreeSet<JobId>) {
        let starts = self.starts_of_last_second();
        let (mut waits, mut far_waits) = (BTreeSet::new(), BTreeMap::new());
        for job in self.store.hot() {
            let (id, task) = (job.key.id, self.store.task(job.task));
            let waits_for_others = self.batches.is_ganged(id) && !job.counters.has_started();
            if job.key.due_at >= self.now || waits_for_others || running.contains(&id) || task.waits_for.is_some() {
                continue;
            }
            if Flows::is_flow(task) {
                // The server that owns its shard runs it.
                if self.could_conduct(id) {
                    waits.insert(job.key);
                }
                continue;
            }
            if self.could_start(id, task) {
                waits.insert(job.key);
            }
            if self.could_be_reached(id.shard(), task) {
                let fits = |worker: &&Worker| {
                    worker.queues.contains(&task.spec.queue) && worker.namespaces.serves(task.namespace)
                };
                let is_in_line = starts.iter().any(|(worker, key)| {
                    key.due_at < job.key.due_at && self.workers.iter().filter(fits).any(|fitting| fitting.id == *worker)
                });
                far_waits.insert(job.key, is_in_line);
            }
        }
        let mut known = (std::mem::take(&mut self.waits), std::mem::take(&mut self.far_waits));
        known.0.retain(|key, _| waits.contains(key));
        for key in waits {
            let late = self.now.since(*known.0.entry(key).or_insert(self.now));
            if late == LATE_MAX {
                self.note(Fact::Neglected { id: key.id, late });
            }
        }
        known.1.retain(|key, _| far_waits.contains_key(key));
        for (key, is_in_line) in far_waits {
            let late = known.1.entry(key).or_insert(Span::ZERO);
            // A slot is empty for a moment after each job, and the jobs before this one fill it.
            if is_in_line {
                continue;
            }
            *late = Span::from_micros(late.as_micros() + AUDIT_EVERY.as_micros());
            let late = *late;
            if late == REACHED_MAX {
                self.note(Fact::Neglected { id: key.id, late });
            }
        }
        (self.waits, self.far_waits) = known;
    }

    /// The jobs that workers were given since the last look.
    fn starts_of_last_second(&self) -> Vec<(WorkerId, JobKey)> {
        let since = self.now - AUDIT_EVERY;
        let starts = self.history.after(since).filter_map(|fact| match fact {
            Fact::Committed { batch, .. } => Some(batch.writes.iter().filter_map(|write| match write {
                Write::Job(JobWrite::Start(start)) => Some((start.worker, start.key)),
                _ => None,
            })),
            _ => None,
        });
        starts.flatten().collect()
    }

    fn could_conduct(&self, id: JobId) -> bool {
        let mut up = self.servers.iter().filter(|server| server.health == Health::Up);
        up.any(|server| {
            server.conductor.is_connected() && server.owner.owned_shards().iter().any(|(shard, _)| *shard == id.shard())
        })
    }

    /// The job's shard has an owner, and that owner has an idle worker which serves the
    /// queue and its namespace. However many jobs of others wait, this one should not.
    fn could_start(&self, id: JobId, task: &Task) -> bool {
        self.servers.iter().filter(|server| server.health == Health::Up).any(|server| {
            let status = server.owner.worker_status();
            let is_idle = |worker: &Worker| {
                worker.queues.contains(&task.spec.queue)
                    && worker.namespaces.serves(task.namespace)
                    && worker.is_connected_to(server.place)
                    && status.iter().any(|seen| seen.id == worker.id && seen.is_connected && seen.running < seen.credit)
            };
            server.owner.owned_shards().iter().any(|(shard, _)| *shard == id.shard())
                && self.workers.iter().any(is_idle)
        })
    }
}
