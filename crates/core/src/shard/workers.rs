//! What workers say of themselves, and what follows for the attempts that they were given.

use std::collections::BTreeSet;

use crate::attempt::AttemptNo;
use crate::id::{JobId, WorkerId};
use crate::lifecycle::JobState;
use crate::shard::event::{Found, LostWorker, Send, StreamId, WorkerSpec};
use crate::shard::fleet::SilentWorker;
use crate::shard::judge::End;
use crate::shard::live::{Denial, Run, Stage};
use crate::shard::lookups::Lookup;
use crate::shard::write::CancelMark;
use crate::shard::{Owner, planted};

/// Held attempts of a hello that are looked up. More of them come from an outage, and are reported soon.
const HELD_LOOKUPS_MAX: usize = 64;

impl Owner {
    /// Sends on the worker's current connection; does nothing if the worker is disconnected.
    pub(super) fn send(&mut self, id: WorkerId, send: Send) {
        if let Some(stream) = self.fleet.stream(id) {
            self.effects.sends.push((id, stream, send));
        }
    }

    /// Answers every change of a credit, so that a worker knows when it may promise the same
    /// slots to another server.
    pub(super) fn tell_credits(&mut self) {
        for (id, kept) in self.fleet.take_credits() {
            self.send(id, Send::Credit(kept));
        }
    }

    /// Tells workers how many ready jobs wait for lack of credit. Must be called after all free slots were assigned.
    pub(super) fn tell_demands(&mut self) {
        let paused = self.paused_pools();
        for (id, stream, demand) in self.fleet.demands(&self.window, &paused, self.now) {
            self.effects.sends.push((id, stream, Send::Demand(demand)));
        }
    }

    /// Whether this worker said hello on a later connection than `stream`.
    pub fn heard_later(&self, id: WorkerId, stream: StreamId) -> bool {
        !planted!(self.config, LateHelloBelieved) && self.fleet.heard_later(id, stream)
    }

    /// Handles a worker's hello, which says what it holds. An assignment that the worker does not hold was never
    /// received, unless the database has lost the commit of its end.
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
        self.fleet.connect(id, stream, spec, self.now);
        if id == WorkerId::WORKFLOWS {
            for job in self.fleet.jobs_of(id) {
                self.start_run_again(job);
            }
            return;
        }
        let held: BTreeSet<(JobId, AttemptNo)> = held.iter().copied().collect();
        for job in self.fleet.jobs_of(id) {
            let Some(Run { attempt, cancel, denial, .. }) = self.running_attempt(job) else { continue };
            let is_held = held.contains(&(job, attempt)) && !planted!(self.config, HeldIsIgnored);
            match denial {
                Denial::Proves if !is_held => self.end_attempt(job, End::NeverReceived),
                Denial::ProvesNothing if !is_held => self.end_attempt(job, End::Denied),
                Denial::Proves | Denial::ProvesNothing
                    if cancel == CancelMark::Recorded && self.is_cancel_durable(job) =>
                {
                    self.send(id, Send::Cancel { id: job, attempt });
                }
                Denial::Proves | Denial::ProvesNothing => {}
            }
        }
        let mut left_over = BTreeSet::new();
        for (job, attempt) in held {
            let is_counted = self.fleet.has_job(id, job);
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
        self.fleet.set_left_over(id, left_over, until);
    }

    /// Has the run of a job be started that a former owner began with, or this one on an earlier connection. It is started
    /// once, however often that is asked for.
    pub(super) fn start_run_again(&mut self, job: JobId) {
        if planted!(self.config, RunNotStartedAgain) {
            return;
        }
        let Some(run) = self.running_attempt(job) else { return };
        let Some(shard) = self.shard(job.shard()) else { return };
        let Some(live) = shard.jobs.get(&job) else { return };
        let origin = shard.schedules.origin_of(live);
        let assignment = live.assignment(shard.epoch, run.attempt, run.started_at, origin);
        self.send(run.worker, Send::Assign(assignment));
        if run.cancel == CancelMark::Recorded && self.is_cancel_durable(job) {
            self.send(run.worker, Send::Cancel { id: job, attempt: run.attempt });
        }
    }

    /// Whether the request to cancel a running attempt is in the store. A worker hears of it then and not before: if the
    /// write failed, the attempt would end as cancelled and the next owner would know of no request.
    pub(super) fn is_cancel_durable(&self, job: JobId) -> bool {
        // Only a request to cancel makes somebody wait for a running job.
        !self.answers.has_command(job)
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

    /// Stops an attempt that is over, because the first message may have been lost and nothing else would end it.
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

    /// Whether it is certain that nobody waits for this attempt any more. A job that is not in memory may be lost, and
    /// its late result still counts.
    fn is_superseded(&self, job: JobId, attempt: AttemptNo) -> bool {
        let Some(live) = self.shards.live(job) else { return false };
        let current = match live.stage {
            Stage::Starting(run) | Stage::Running(run) | Stage::Ending { run: Some(run) } => run.attempt,
            Stage::Waiting | Stage::Ready | Stage::Ending { run: None } => live.counters.next_attempt,
        };
        // Of a later one only a newer owner can know: then it is us who are superseded.
        attempt < current
    }

    /// Ends the attempts of workers that were not heard of for too long.
    pub(super) fn reap_silent_workers(&mut self) {
        self.fleet.forget_left_over(self.now);
        let before = self.now - self.config.worker_silence;
        for silent in self.fleet.take_silent(before) {
            self.lose(silent, &End::WorkerLost);
        }
    }

    /// Ends the attempts of workers that may not work any more.
    pub(super) fn lose_workers(&mut self, ids: &[WorkerId]) {
        for id in ids {
            if let Some(worker) = self.fleet.take(*id) {
                self.lose(worker, &End::WorkerCutOff);
            }
        }
    }

    fn lose(&mut self, SilentWorker { id, was_connected, seen_at, mut jobs }: SilentWorker, end: &End) {
        if was_connected {
            self.effects.disconnects.push(id);
        }
        // What is still being started is taken back when its start is durable.
        jobs.retain(|job| self.running_attempt(*job).is_some());
        let silent_for = self.now.since(seen_at);
        self.effects.lost_workers.push(LostWorker { worker: id, attempts: jobs.len(), silent_for });
        for job in jobs {
            self.end_attempt(job, end.clone());
        }
    }
}
