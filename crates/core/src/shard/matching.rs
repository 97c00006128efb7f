//! Which worker runs which job.

use crate::id::{BatchId, JobId, WorkerId};
use crate::shard::Owner;
use crate::shard::fleet::{IdleWorker, PoolId};
use crate::shard::live::{Denial, Run, Stage};
use crate::shard::write::{CancelMark, JobWrite, Start};

/// One turn of matching takes at most so many jobs of a pool, so that pools
/// which share workers share them in order of age.
const TURN_MAX: usize = 64;

impl Owner {
    /// Gives due jobs to free slots, the oldest first.
    pub(super) fn match_ready(&mut self) {
        self.match_gangs();
        loop {
            let pools = self.window.ready_pools(|pool| self.fleet.has_idle(pool) && self.room_in(pool) > 0);
            if pools.is_empty() {
                return;
            }
            for pool in pools {
                self.match_pool(pool);
            }
        }
    }

    fn match_pool(&mut self, pool: PoolId) {
        // An earlier pool may have taken the last slot.
        let Some(IdleWorker { id: worker, free, idle }) = self.fleet.next_idle(pool) else { return };
        let fair_share = self.window.queued_in(pool).div_ceil(idle);
        let count = fair_share.min(free).min(TURN_MAX).min(self.room_in(pool));
        for id in self.window.take_ready(pool, count) {
            self.start(id, worker, None);
        }
    }

    /// `gang`: with all others of it.
    pub(super) fn start(&mut self, id: JobId, worker: WorkerId, gang: Option<BatchId>) {
        let now = self.now;
        let live = self.shards.live_mut(id).expect("a ready job is in memory");
        let attempt = live.counters.next_attempt;
        let start = Start { key: live.key, attempt, worker, picked_up_at: live.picked_up_at, started_at: now, gang };
        let deadline = now + live.task.spec.time_to_end();
        let cancel = CancelMark::None;
        live.stage = Stage::Starting(Run {
            attempt,
            worker,
            started_at: now,
            deadline,
            starts: None,
            cancel,
            denial: Denial::Proves,
        });
        let planned = live.first_run_of();
        self.running_quotas.runs(live.task.namespace, id);
        self.fleet.occupy(worker, id);
        if let Some(source) = planned {
            self.run_starts(source, id);
        }
        self.push(JobWrite::Start(start));
        #[cfg(feature = "planted-bugs")]
        self.send_before_durable(id, worker);
    }
}
