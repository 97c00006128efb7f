//! The workers that this server knows, what each of them runs, and when it was
//! last heard of.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::attempt::AttemptNo;
use crate::id::{JobId, WorkerId};
use crate::lifecycle::JobState;
use crate::shard::event::{CreditKept, Found, LostWorker, Send, StreamId, WorkerSpec};
use crate::shard::judge::End;
use crate::shard::live::{Denial, IdSet, Run, Stage};
use crate::shard::ready::{ClassId, Ready};
use crate::shard::write::CancelMark;
use crate::shard::{Lookup, Owner, planted};
use crate::time::{Span, Timestamp};

/// Held attempts of a hello that are looked up. More of them come from an outage, and are reported soon.
const HELD_LOOKUPS_MAX: usize = 64;

pub(super) struct Worker {
    pub(super) spec: WorkerSpec,
    /// `None` while it is away.
    pub(super) stream: Option<StreamId>,
    /// The last connection it said hello on, open or not. A hello of an earlier one that is
    /// read only now says nothing about what was sent since.
    newest: Option<StreamId>,
    pub(super) seen_at: Timestamp,
    /// What it runs for us, and what is being started on it.
    pub(super) jobs: IdSet<JobId>,
    /// Attempts of our shards that it holds although we gave them up, or another run of it
    /// left them. They fill its slots until it reports them, or until we stop believing it:
    /// it may have told another server.
    left_over: BTreeSet<(JobId, AttemptNo)>,
    left_over_until: Timestamp,
    pub(super) classes: Vec<ClassId>,
    /// The demand that it was told on this connection.
    pub(super) demand_told: u32,
}

impl Worker {
    /// One that is only known from a start that it was given.
    fn absent(now: Timestamp) -> Self {
        let spec = WorkerSpec { queues: Vec::new(), capabilities: Vec::new(), labels: BTreeMap::new(), credit: 0 };
        Self {
            spec,
            stream: None,
            newest: None,
            seen_at: now,
            jobs: IdSet::default(),
            left_over: BTreeSet::new(),
            left_over_until: now,
            classes: Vec::new(),
            demand_told: 0,
        }
    }

    /// Slots in use are counted from what it runs, never kept as a number.
    fn in_use(&self) -> usize {
        self.jobs.len() + self.left_over.len()
    }

    pub(super) fn free(&self) -> usize {
        if self.stream.is_none() {
            return 0;
        }
        (self.spec.credit as usize).saturating_sub(self.in_use())
    }

    /// More than it granted was in use, and something of it ends.
    fn is_overdrawn(&self) -> bool {
        self.stream.is_some() && self.in_use() > self.spec.credit as usize
    }

    fn credit_kept(&self) -> CreditKept {
        let told = self.spec.credit;
        CreditKept { told, bound: told.max(u32::try_from(self.in_use()).unwrap_or(u32::MAX)) }
    }
}

#[derive(Default)]
pub(super) struct Workers {
    known: BTreeMap<WorkerId, Worker>,
    /// Those whose credit changed, or is kept to at last: they are to be told.
    credit_untold: BTreeSet<WorkerId>,
}

impl Workers {
    pub(super) fn get(&self, id: WorkerId) -> Option<&Worker> {
        self.known.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (WorkerId, &Worker)> {
        self.known.iter().map(|(id, worker)| (*id, worker))
    }

    pub(super) fn after(&mut self, id: Option<WorkerId>) -> impl Iterator<Item = (WorkerId, &mut Worker)> {
        let after = id.map_or(Bound::Unbounded, Bound::Excluded);
        self.known.range_mut((after, Bound::Unbounded)).map(|(id, worker)| (*id, worker))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (WorkerId, &mut Worker)> {
        self.known.iter_mut().map(|(id, worker)| (*id, worker))
    }

    pub(super) fn is_connected(&self, id: WorkerId) -> bool {
        self.known.get(&id).is_some_and(|worker| worker.stream.is_some())
    }

    /// Whether it is there and still counts on this job. One that was given up and came
    /// back does not.
    pub(super) fn awaits(&self, id: WorkerId, job: JobId) -> bool {
        self.known.get(&id).is_some_and(|worker| worker.stream.is_some() && worker.jobs.contains(&job))
    }

    /// A start names this worker; it may or may not come back.
    pub(super) fn expect(&mut self, id: WorkerId, job: JobId, now: Timestamp, ready: &mut Ready) {
        let worker = self.known.entry(id).or_insert_with(|| Worker::absent(now));
        worker.jobs.insert(job);
        if worker.free() == 0 {
            ready.set_busy(id, worker);
        }
    }

    fn connect(&mut self, id: WorkerId, stream: StreamId, spec: WorkerSpec, now: Timestamp, ready: &mut Ready) {
        let worker = self.known.entry(id).or_insert_with(|| Worker::absent(now));
        ready.set_busy(id, worker);
        worker.spec = spec;
        worker.left_over.clear();
        worker.stream = Some(stream);
        worker.newest = Some(stream);
        worker.seen_at = now;
        worker.demand_told = 0;
        worker.classes = ready.classes_for(worker);
        if worker.free() > 0 {
            ready.set_idle(id, worker);
        }
        self.credit_untold.insert(id);
    }

    pub(super) fn disconnect(&mut self, id: WorkerId, stream: StreamId, ready: &mut Ready) {
        let Some(worker) = self.known.get_mut(&id).filter(|worker| worker.stream == Some(stream)) else { return };
        worker.stream = None;
        ready.set_busy(id, worker);
        if worker.jobs.is_empty() {
            self.known.remove(&id);
        }
    }

    pub(super) fn set_credit(&mut self, id: WorkerId, stream: StreamId, credit: u32, ready: &mut Ready) {
        let Some(worker) = self.known.get_mut(&id).filter(|worker| worker.stream == Some(stream)) else { return };
        worker.spec.credit = credit;
        if worker.free() > 0 {
            ready.set_idle(id, worker);
        } else {
            ready.set_busy(id, worker);
        }
        self.credit_untold.insert(id);
    }

    pub(super) fn seen(&mut self, id: WorkerId, now: Timestamp) {
        if let Some(worker) = self.known.get_mut(&id) {
            worker.seen_at = worker.seen_at.max(now);
        }
    }

    pub(super) fn occupy(&mut self, id: WorkerId, job: JobId, ready: &mut Ready) {
        let worker = self.known.get_mut(&id).expect("jobs are given to known workers");
        worker.jobs.insert(job);
        if worker.free() == 0 {
            ready.set_busy(id, worker);
        }
    }

    pub(super) fn release(&mut self, id: WorkerId, job: JobId, ready: &mut Ready) {
        let Some(worker) = self.known.get_mut(&id) else { return };
        let was_full = worker.free() == 0;
        if worker.is_overdrawn() {
            self.credit_untold.insert(id);
        }
        worker.jobs.remove(&job);
        if was_full && worker.free() > 0 {
            ready.set_idle(id, worker);
        }
        if worker.stream.is_none() && worker.jobs.is_empty() {
            self.known.remove(&id);
        }
    }

    /// The worker told us how an attempt went that we did not count as running on it.
    pub(super) fn reported(&mut self, id: WorkerId, attempt: (JobId, AttemptNo), ready: &mut Ready) {
        let Some(worker) = self.known.get_mut(&id) else { return };
        let was_overdrawn = worker.is_overdrawn();
        if worker.left_over.remove(&attempt) {
            if was_overdrawn {
                self.credit_untold.insert(id);
            }
            if worker.free() > 0 {
                ready.set_idle(id, worker);
            }
        }
    }

    fn set_left_over(
        &mut self,
        id: WorkerId,
        left_over: BTreeSet<(JobId, AttemptNo)>,
        until: Timestamp,
        ready: &mut Ready,
    ) {
        let Some(worker) = self.known.get_mut(&id) else { return };
        worker.left_over = left_over;
        worker.left_over_until = until;
        if worker.free() == 0 {
            ready.set_busy(id, worker);
        }
    }

    /// Counts slots as free again whose attempts nobody reported in time. A worker that
    /// still has no room gives back what it is sent.
    pub(super) fn forget_left_over(&mut self, now: Timestamp, ready: &mut Ready) {
        for (id, worker) in &mut self.known {
            if !worker.left_over.is_empty() && now > worker.left_over_until {
                if worker.is_overdrawn() {
                    self.credit_untold.insert(*id);
                }
                worker.left_over.clear();
                if worker.free() > 0 {
                    ready.set_idle(*id, worker);
                }
            }
        }
    }

    pub(super) fn forgive(&mut self, gap: Span, now: Timestamp) {
        for worker in self.known.values_mut() {
            worker.seen_at = (worker.seen_at + gap).min(now);
        }
    }

    pub(super) fn clamp_seen(&mut self, now: Timestamp) {
        for worker in self.known.values_mut() {
            worker.seen_at = worker.seen_at.min(now);
        }
    }

    fn take_silent(&mut self, before: Timestamp, ready: &mut Ready) -> Vec<(WorkerId, Worker)> {
        let silent: Vec<_> =
            self.known.iter().filter(|(_, worker)| worker.seen_at < before).map(|(id, _)| *id).collect();
        let mut taken = Vec::with_capacity(silent.len());
        for id in silent {
            let worker = self.known.remove(&id).expect("it was just found");
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

    /// Answers every change of a credit, so that a worker knows when it may promise the same
    /// slots to another server.
    pub(super) fn tell_credits(&mut self) {
        for id in std::mem::take(&mut self.workers.credit_untold) {
            if let Some(worker) = self.workers.get(id) {
                let kept = worker.credit_kept();
                self.send(id, Send::Credit(kept));
            }
        }
    }

    /// Whether this worker said hello on a later connection than `stream`.
    pub fn heard_later(&self, id: WorkerId, stream: StreamId) -> bool {
        let is_later = |worker: &Worker| worker.newest > Some(stream);
        !planted!(self.config, LateHelloBelieved) && self.workers.get(id).is_some_and(is_later)
    }

    /// A worker says who it is and what it holds. What we gave it and it does not
    /// hold, it never received, unless the database has forgotten since that it ended.
    pub(super) fn worker_hello(
        &mut self,
        id: WorkerId,
        stream: StreamId,
        spec: WorkerSpec,
        held: &[(JobId, AttemptNo)],
    ) {
        if self.heard_later(id, stream) {
            return;
        }
        self.workers.connect(id, stream, spec, self.now, &mut self.ready);
        let held: BTreeSet<(JobId, AttemptNo)> = held.iter().copied().collect();
        let mut ours: Vec<_> = self.workers.get(id).expect("it was just connected").jobs.iter().copied().collect();
        ours.sort_unstable();
        for job in ours {
            let Some(Run { attempt, cancel, denial, .. }) = self.running_attempt(job) else { continue };
            let is_held = held.contains(&(job, attempt)) && !planted!(self.config, HeldIsIgnored);
            match denial {
                Denial::Proves if !is_held => self.end_attempt(job, End::NeverReceived),
                Denial::ProvesNothing if !is_held => self.end_attempt(job, End::Denied),
                Denial::Proves | Denial::ProvesNothing if cancel == CancelMark::Recorded => {
                    self.send(id, Send::Cancel { id: job, attempt });
                }
                Denial::Proves | Denial::ProvesNothing => {}
            }
        }
        let mut left_over = BTreeSet::new();
        for (job, attempt) in held {
            let is_counted = self.workers.get(id).is_some_and(|worker| worker.jobs.contains(&job));
            if self.is_superseded(job, attempt) {
                self.send(id, Send::Stop { id: job, attempt });
            } else if !is_counted && let Some(shard) = self.shard(job.shard()) {
                if !shard.jobs.contains_key(&job) && left_over.len() < HELD_LOOKUPS_MAX {
                    self.look_up(job, Lookup::Held { worker: id, attempt });
                }
                left_over.insert((job, attempt));
            }
        }
        let until = self.now + self.config.worker_silence;
        self.workers.set_left_over(id, left_over, until, &mut self.ready);
    }

    fn running_attempt(&self, job: JobId) -> Option<Run> {
        match self.shard(job.shard())?.jobs.get(&job)?.stage {
            Stage::Running(run) => Some(run),
            Stage::Waiting | Stage::Ready | Stage::Starting(_) | Stage::Ending { .. } => None,
        }
    }

    pub(super) fn stop_if_superseded(&mut self, worker: WorkerId, job: JobId, attempt: AttemptNo) {
        if self.is_superseded(job, attempt) {
            self.send(worker, Send::Stop { id: job, attempt });
        }
    }

    /// The word that the attempt is over may have been lost, and nobody else would end it.
    pub(super) fn stop_if_over(&mut self, worker: WorkerId, job: JobId, attempt: AttemptNo, found: &Found) {
        let is_over = match found {
            // Its late result still counts.
            Found::Finished { state: JobState::Lost, attempt: last, .. } if *last == Some(attempt) => false,
            Found::Finished { attempt: last, .. } => *last >= Some(attempt),
            Found::Waiting(waiting) => waiting.row.counters.next_attempt > attempt,
            Found::Absent => true,
        };
        if is_over {
            self.send(worker, Send::Stop { id: job, attempt });
        }
    }

    /// Whether we know for certain that nobody waits for this attempt any more. A job
    /// that is not in memory may be lost, and its late result still counts.
    fn is_superseded(&self, job: JobId, attempt: AttemptNo) -> bool {
        let Some(live) = self.shard(job.shard()).and_then(|shard| shard.jobs.get(&job)) else { return false };
        let current = match live.stage {
            Stage::Starting(run) | Stage::Running(run) | Stage::Ending { run: Some(run) } => run.attempt,
            Stage::Waiting | Stage::Ready | Stage::Ending { run: None } => live.counters.next_attempt,
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
            // What is still being started is taken back when its start is durable.
            jobs.retain(|job| self.running_attempt(*job).is_some());
            let silent_for = self.now.since(worker.seen_at);
            self.effects.lost_workers.push(LostWorker { worker: id, attempts: jobs.len(), silent_for });
            for job in jobs {
                self.end_attempt(job, End::WorkerLost);
            }
        }
    }
}
