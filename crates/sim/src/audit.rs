//! Checks the simulation once a second after the faults have stopped: what is due must start
//! where a worker is idle, and what runs must have somebody who runs it.

use std::collections::BTreeSet;

use punctual_core::task::Task;
use punctual_core::{JobId, ShardId, Span};

use crate::history::Fact;
use crate::simulation::{Health, Simulation};

/// From here on the faults are no excuse: leases have run out, silent workers are
/// dead, and everything has been swept once.
const SETTLED_AFTER: Span = Span::from_secs(30);
/// A missed hint costs one floor sweep of 10 s; the rest is for reading and writing.
const LATE_MAX: Span = Span::from_secs(15);
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
                if gone > GONE_MAX && self.waits.insert(id, self.now).is_none() {
                    self.note(Fact::Orphaned { id, worker, gone });
                }
            }
        }
        self.audit_due(&running);
    }

    fn audit_due(&mut self, running: &BTreeSet<JobId>) {
        let mut waits = BTreeSet::new();
        for job in self.store.hot() {
            let id = job.key.id;
            let is_neglected = job.key.due_at < self.now
                && !running.contains(&id)
                && self.store.task(job.task).waits_for.is_none()
                && self.could_start(id, self.store.task(job.task));
            if is_neglected {
                waits.insert(id);
            }
        }
        self.waits.retain(|id, _| waits.contains(id));
        for id in waits {
            let since = *self.waits.entry(id).or_insert(self.now);
            let late = self.now.since(since);
            if late == LATE_MAX {
                self.note(Fact::Neglected { id, late });
            }
        }
    }

    /// The job's shard has an owner, and that owner has an idle worker which serves the
    /// queue and its namespace. However many jobs of others wait, this one should not.
    fn could_start(&self, id: JobId, task: &Task) -> bool {
        self.servers.iter().filter(|server| server.health == Health::Up).any(|server| {
            let status = server.owner.worker_status();
            let is_idle = |worker: &crate::worker::Worker| {
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
