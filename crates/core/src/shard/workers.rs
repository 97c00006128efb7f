//! The workers that this server knows, what each of them runs, and when it was
//! last heard of.

use std::collections::{BTreeMap, BTreeSet};

use crate::attempt::AttemptNo;
use crate::id::{JobId, WorkerId};
use crate::shard::event::{Send, StreamId, WorkerSpec};
use crate::shard::judge::End;
use crate::shard::live::{IdSet, Stage};
use crate::shard::ready::{ClassId, Ready};
use crate::shard::write::CancelMark;
use crate::shard::{Bug, Owner};
use crate::time::{Span, Timestamp};

pub(super) struct Worker {
    pub(super) spec: WorkerSpec,
    /// `None` while it is away.
    pub(super) stream: Option<StreamId>,
    pub(super) seen_at: Timestamp,
    /// What it runs for us, and what is being started on it.
    pub(super) jobs: IdSet<JobId>,
    /// Attempts of our shards that it holds although we gave them up, or another run of it
    /// left them. They fill its slots until it reports them, or until we stop believing it:
    /// it may have told another server.
    left_over: BTreeSet<(JobId, AttemptNo)>,
    left_over_until: Timestamp,
    pub(super) classes: Vec<ClassId>,
}

impl Worker {
    /// One that is only known from a start that it was given.
    fn absent(now: Timestamp) -> Self {
        let spec = WorkerSpec { queues: Vec::new(), capabilities: Vec::new(), labels: BTreeMap::new(), credit: 0 };
        Self {
            spec,
            stream: None,
            seen_at: now,
            jobs: IdSet::default(),
            left_over: BTreeSet::new(),
            left_over_until: now,
            classes: Vec::new(),
        }
    }

    /// Slots in use are counted from what it runs, never kept as a number.
    pub(super) fn free(&self) -> usize {
        if self.stream.is_none() {
            return 0;
        }
        (self.spec.credit as usize).saturating_sub(self.jobs.len() + self.left_over.len())
    }
}

#[derive(Default)]
pub(super) struct Workers(BTreeMap<WorkerId, Worker>);

impl Workers {
    pub(super) fn get(&self, id: WorkerId) -> Option<&Worker> {
        self.0.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        self.0.iter().map(|(id, worker)| (*id, worker))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (WorkerId, &mut Worker)> {
        self.0.iter_mut().map(|(id, worker)| (*id, worker))
    }

    pub(super) fn is_connected(&self, id: WorkerId) -> bool {
        self.0.get(&id).is_some_and(|worker| worker.stream.is_some())
    }

    /// Whether it is there and still counts on this job. One that was given up and came
    /// back does not.
    pub(super) fn awaits(&self, id: WorkerId, job: JobId) -> bool {
        self.0.get(&id).is_some_and(|worker| worker.stream.is_some() && worker.jobs.contains(&job))
    }

    /// A start names this worker; it may or may not come back.
    pub(super) fn expect(&mut self, id: WorkerId, job: JobId, now: Timestamp, ready: &mut Ready) {
        let worker = self.0.entry(id).or_insert_with(|| Worker::absent(now));
        worker.jobs.insert(job);
        if worker.free() == 0 {
            ready.set_busy(id, worker);
        }
    }

    fn connect(&mut self, id: WorkerId, stream: StreamId, spec: WorkerSpec, now: Timestamp, ready: &mut Ready) {
        let worker = self.0.entry(id).or_insert_with(|| Worker::absent(now));
        ready.set_busy(id, worker);
        worker.spec = spec;
        worker.left_over.clear();
        worker.stream = Some(stream);
        worker.seen_at = now;
        worker.classes = ready.classes_for(worker);
        if worker.free() > 0 {
            ready.set_idle(id, worker);
        }
    }

    pub(super) fn disconnect(&mut self, id: WorkerId, stream: StreamId, ready: &mut Ready) {
        let Some(worker) = self.0.get_mut(&id).filter(|worker| worker.stream == Some(stream)) else { return };
        worker.stream = None;
        ready.set_busy(id, worker);
        if worker.jobs.is_empty() {
            self.0.remove(&id);
        }
    }

    pub(super) fn set_credit(&mut self, id: WorkerId, stream: StreamId, credit: u32, ready: &mut Ready) {
        let Some(worker) = self.0.get_mut(&id).filter(|worker| worker.stream == Some(stream)) else { return };
        worker.spec.credit = credit;
        if worker.free() > 0 {
            ready.set_idle(id, worker);
        } else {
            ready.set_busy(id, worker);
        }
    }

    pub(super) fn seen(&mut self, id: WorkerId, now: Timestamp) {
        if let Some(worker) = self.0.get_mut(&id) {
            worker.seen_at = worker.seen_at.max(now);
        }
    }

    pub(super) fn occupy(&mut self, id: WorkerId, job: JobId, ready: &mut Ready) {
        let worker = self.0.get_mut(&id).expect("jobs are given to known workers");
        worker.jobs.insert(job);
        if worker.free() == 0 {
            ready.set_busy(id, worker);
        }
    }

    pub(super) fn release(&mut self, id: WorkerId, job: JobId, ready: &mut Ready) {
        let Some(worker) = self.0.get_mut(&id) else { return };
        let was_full = worker.free() == 0;
        worker.jobs.remove(&job);
        if was_full && worker.free() > 0 {
            ready.set_idle(id, worker);
        }
        if worker.stream.is_none() && worker.jobs.is_empty() {
            self.0.remove(&id);
        }
    }

    /// The worker told us how an attempt went that we did not count as running on it.
    pub(super) fn reported(&mut self, id: WorkerId, attempt: (JobId, AttemptNo), ready: &mut Ready) {
        let Some(worker) = self.0.get_mut(&id) else { return };
        if worker.left_over.remove(&attempt) && worker.free() > 0 {
            ready.set_idle(id, worker);
        }
    }

    fn set_left_over(
        &mut self,
        id: WorkerId,
        left_over: BTreeSet<(JobId, AttemptNo)>,
        until: Timestamp,
        ready: &mut Ready,
    ) {
        let Some(worker) = self.0.get_mut(&id) else { return };
        worker.left_over = left_over;
        worker.left_over_until = until;
        if worker.free() == 0 {
            ready.set_busy(id, worker);
        }
    }

    /// Counts slots as free again whose attempts nobody reported in time. A worker that
    /// still has no room gives back what it is sent.
    pub(super) fn forget_left_over(&mut self, now: Timestamp, ready: &mut Ready) {
        for (id, worker) in &mut self.0 {
            if !worker.left_over.is_empty() && now > worker.left_over_until {
                worker.left_over.clear();
                if worker.free() > 0 {
                    ready.set_idle(*id, worker);
                }
            }
        }
    }

    pub(super) fn forgive(&mut self, gap: Span, now: Timestamp) {
        for worker in self.0.values_mut() {
            worker.seen_at = (worker.seen_at + gap).min(now);
        }
    }

    pub(super) fn clamp_seen(&mut self, now: Timestamp) {
        for worker in self.0.values_mut() {
            worker.seen_at = worker.seen_at.min(now);
        }
    }

    fn take_silent(&mut self, before: Timestamp, ready: &mut Ready) -> Vec<(WorkerId, Worker)> {
        let silent: Vec<_> = self.0.iter().filter(|(_, worker)| worker.seen_at < before).map(|(id, _)| *id).collect();
        let mut taken = Vec::with_capacity(silent.len());
        for id in silent {
            let worker = self.0.remove(&id).expect("it was just found");
            ready.set_busy(id, &worker);
            taken.push((id, worker));
        }
        taken
    }
}

impl Owner {
    /// Sends on the worker's present connection; a worker that is away gets nothing.
    pub(super) fn send(&mut self, id: WorkerId, send: Send) {
        if let Some(stream) = self.workers.get(id).and_then(|worker| worker.stream) {
            self.effects.sends.push((id, stream, send));
        }
    }

    /// A worker says who it is and what it holds. What we gave it and it does not
    /// hold, it never received.
    pub(super) fn worker_hello(
        &mut self,
        id: WorkerId,
        stream: StreamId,
        spec: WorkerSpec,
        held: &[(JobId, AttemptNo)],
    ) {
        if self.workers.get(id).is_some_and(|worker| worker.stream > Some(stream)) {
            return;
        }
        self.workers.connect(id, stream, spec, self.now, &mut self.ready);
        let held: BTreeSet<(JobId, AttemptNo)> = held.iter().copied().collect();
        let mut ours: Vec<_> = self.workers.get(id).expect("it was just connected").jobs.iter().copied().collect();
        ours.sort_unstable();
        for job in ours {
            let Some((attempt, cancel)) = self.running_attempt(job) else { continue };
            let is_held = held.contains(&(job, attempt)) && !self.config.has(Bug::HeldIsIgnored);
            if !is_held {
                self.end_attempt(job, End::NeverReceived);
            } else if cancel == CancelMark::Recorded {
                self.send(id, Send::Cancel { id: job, attempt });
            }
        }
        let mut left_over = BTreeSet::new();
        for (job, attempt) in held {
            let is_counted = self.workers.get(id).is_some_and(|worker| worker.jobs.contains(&job));
            if self.is_superseded(job, attempt) {
                self.send(id, Send::Stop { id: job, attempt });
            } else if !is_counted && self.shard(job.shard()).is_some() {
                left_over.insert((job, attempt));
            }
        }
        let until = self.now + self.config.worker_silence;
        self.workers.set_left_over(id, left_over, until, &mut self.ready);
    }

    fn running_attempt(&self, job: JobId) -> Option<(AttemptNo, CancelMark)> {
        match self.shard(job.shard())?.jobs.get(&job)?.stage {
            Stage::Running(run) => Some((run.attempt, run.cancel)),
            Stage::Waiting | Stage::Ready | Stage::Starting(_) | Stage::Ending { .. } => None,
        }
    }

    /// Whether we know for certain that nobody waits for this attempt any more. A job
    /// that is not in memory may be lost, and its late result still counts.
    fn is_superseded(&self, job: JobId, attempt: AttemptNo) -> bool {
        let Some(live) = self.shard(job.shard()).and_then(|shard| shard.jobs.get(&job)) else { return false };
        let current = match live.stage {
            Stage::Starting(run) | Stage::Running(run) => run.attempt,
            Stage::Ending { attempt: Some(ending), .. } => ending,
            Stage::Waiting | Stage::Ready | Stage::Ending { attempt: None, .. } => live.counters.next_attempt,
        };
        // Of a later one only a newer owner can know: then it is us who are superseded.
        attempt < current
    }

    /// Ends the attempts of workers that were not heard of for too long.
    pub(super) fn reap_silent_workers(&mut self) {
        self.workers.forget_left_over(self.now, &mut self.ready);
        let before = self.now - self.config.worker_silence;
        for (id, worker) in self.workers.take_silent(before, &mut self.ready) {
            if worker.stream.is_some() {
                self.effects.disconnects.push(id);
            }
            let mut jobs: Vec<_> = worker.jobs.into_iter().collect();
            jobs.sort_unstable();
            for job in jobs {
                // What is still being started is taken back when its start is durable.
                if self.running_attempt(job).is_some() {
                    self.end_attempt(job, End::WorkerLost);
                }
            }
        }
    }
}
