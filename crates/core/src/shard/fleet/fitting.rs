//! Which workers of the fleet another server could use, and which it lacks itself.

use crate::id::WorkerId;
use crate::shard::event::StreamId;
use crate::shard::fleet::pools::PoolId;
use crate::shard::fleet::worker::Worker;
use crate::shard::fleet::{Fleet, WorkerNeeds};

impl Fleet {
    /// What a worker of the pool must offer.
    pub(in crate::shard) fn needs_of(&self, pool: PoolId) -> Option<&WorkerNeeds> {
        self.pools.needs(pool)
    }

    /// Workers that run jobs of ours and are not connected, up to a limit. Each server is a worker of its own for workflows, and
    /// comes by itself.
    pub(in crate::shard) fn awaited(&self, limit: usize) -> Vec<WorkerId> {
        let is_awaited = |(id, worker): &(&WorkerId, &Worker)| {
            worker.stream.is_none() && !worker.jobs.is_empty() && **id != WorkerId::WORKFLOWS
        };
        self.workers.iter().filter(is_awaited).map(|(id, _)| *id).take(limit).collect()
    }

    /// Connected workers that meet the needs: those with a free slot first, and the others if they are wanted, too. `turn`
    /// rotates both, so that whoever asks again is given others.
    pub(in crate::shard) fn fitting(&self, needs: &WorkerNeeds, who: Who, limit: usize, turn: usize) -> Vec<WorkerId> {
        let mut fitting = match self.pools.idle_for(needs) {
            Some(idle) => rotated(idle.iter().copied(), idle.len(), turn, limit),
            None => self.meeting(needs, |worker| worker.free() > 0, turn, limit),
        };
        if who == Who::Anyone && fitting.len() < limit {
            let rest = limit - fitting.len();
            fitting.extend(self.meeting(needs, |worker| worker.free() == 0 && worker.is_connected(), turn, rest));
        }
        fitting
    }

    fn meeting(
        &self,
        needs: &WorkerNeeds,
        is_wanted: impl Fn(&Worker) -> bool,
        turn: usize,
        limit: usize,
    ) -> Vec<WorkerId> {
        let is_fitting = |worker: &Worker| is_wanted(worker) && needs.are_met_by(&worker.spec);
        let fitting: Vec<WorkerId> =
            self.workers.iter().filter(|(_, worker)| is_fitting(worker)).map(|(id, _)| *id).collect();
        rotated(fitting.iter().copied(), fitting.len(), turn, limit)
    }

    /// With its connection, if it has one and can go to another server.
    pub(in crate::shard) fn with_stream(&self, id: WorkerId) -> Option<(WorkerId, StreamId)> {
        let stream = self.stream(id).filter(|_| id != WorkerId::WORKFLOWS)?;
        Some((id, stream))
    }
}

/// Which workers are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// With a free slot.
    Idle,
    Anyone,
}

fn rotated(workers: impl Iterator<Item = WorkerId> + Clone, len: usize, turn: usize, limit: usize) -> Vec<WorkerId> {
    let first = if len > limit { turn.wrapping_mul(limit) % len } else { 0 };
    workers.clone().skip(first).chain(workers.take(first)).take(limit).collect()
}
