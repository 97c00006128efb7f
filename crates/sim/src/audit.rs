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
                if gone > GONE_MAX && self.waits.insert(id, self.now).is_none() {
                    self.note(Fact::Orphaned { id, worker, gone });
                }
            }
        }
        self.audit_due(&running);
    }

    fn audit_due(&mut self, running: &BTreeSet<JobId>) {
        let (mut waits, mut far_waits) = (BTreeSet::new(), BTreeSet::new());
        for job in self.store.hot() {
            let (id, task) = (job.key.id, self.store.task(job.task));
            if job.key.due_at >= self.now || running.contains(&id) || task.waits_for.is_some() {
                continue;
            }
            if self.could_start(id, task) {
                waits.insert(id);
            }
            if self.could_be_reached(id.shard(), task) {
                far_waits.insert(id);
            }
        }
        let mut known = (std::mem::take(&mut self.waits), std::mem::take(&mut self.far_waits));
        for (known, waits, max) in [(&mut known.0, waits, LATE_MAX), (&mut known.1, far_waits, REACHED_MAX)] {
            known.retain(|id, _| waits.contains(id));
            for id in waits {
                let late = self.now.since(*known.entry(id).or_insert(self.now));
                if late == max {
                    self.note(Fact::Neglected { id, late });
                }
            }
        }
        (self.waits, self.far_waits) = known;
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
