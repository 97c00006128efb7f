//! A worker. Keeps three promises that the owner relies on: an attempt is held from the
//! moment its assignment was read until its outcome is acknowledged; a hello names
//! everything that is held; and after a greeting, nothing that an older owner assigned is begun.

use crate::bounds::{ATTEMPTS, Grain};
use crate::cluster::Step;
use crate::link::{HeldSet, Link, StreamNo, ToServer, ToWorker, WorkerEnd};
use crate::mutations::Mutation;
use crate::queue::Queue;
use crate::state::{AttemptNo, Epoch, Event, HeldMark, JobNo, Outcome, Place, ServerNo, Worker};

/// Whether messages that were sent on a stream still arrive after the worker gives the stream up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelloSent {
    Lost,
    /// The server reads it later.
    Late,
}

/// What a worker does with an assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taking {
    Begin,
    GiveBack,
}

impl Step<'_> {
    fn worker(&mut self, place: Place) -> &mut Worker {
        &mut self.state.workers[usize::from(place)]
    }

    fn held(&mut self, place: Place, job: JobNo, attempt: AttemptNo) -> &mut HeldMark {
        &mut self.worker(place).held[usize::from(job)][attempt.index()]
    }

    fn link_at(&mut self, place: Place, server: ServerNo) -> &mut Link {
        &mut self.state.links[usize::from(server)][usize::from(place)]
    }

    pub(crate) fn read(&mut self, place: Place, server: ServerNo, taking: Taking) {
        match self.link_at(place, server).to_worker.take(0) {
            Some(ToWorker::Greeting { acquired, epoch }) => {
                let worker = self.worker(place);
                worker.known = worker.known.max(epoch.unwrap_or(Epoch(0)));
                self.say_hello(place, server, acquired);
            }
            Some(assign @ ToWorker::Assign { job, attempt, epoch }) => {
                if self.has(Mutation::AssignmentRepeated) {
                    self.link_at(place, server).to_worker.push(assign);
                }
                self.assigned(place, job, attempt, epoch, taking);
            }
            Some(ToWorker::Ack { job, attempt }) => {
                let held = self.held(place, job, attempt);
                if matches!(held, HeldMark::Done(_)) {
                    *held = HeldMark::No;
                }
            }
            Some(ToWorker::Cancel { job, attempt }) if *self.held(place, job, attempt) == HeldMark::Running => {
                self.finish(place, job, attempt, Outcome::Cancelled);
            }
            Some(ToWorker::Stop { job, attempt }) => *self.held(place, job, attempt) = HeldMark::No,
            Some(ToWorker::Cancel { .. }) | None => {}
        }
    }

    fn say_hello(&mut self, place: Place, server: ServerNo, acquired: u8) {
        let forgets = self.has(Mutation::HelloForgetsFinished);
        let worker = *self.worker(place);
        let mut held = HeldSet::default();
        for job in self.jobs() {
            for attempt in (1..=ATTEMPTS as u8).map(AttemptNo) {
                if is_named(worker.held[usize::from(job)][attempt.index()], forgets) {
                    held.insert(job, attempt);
                }
            }
        }
        let link = self.link_at(place, server);
        link.worker_end = WorkerEnd::Ready;
        if !link.is_cut {
            link.to_server.push((link.current, ToServer::Hello { worker: worker.id, acquired, held }));
        }
    }

    fn assigned(&mut self, place: Place, job: JobNo, attempt: AttemptNo, epoch: Epoch, taking: Taking) {
        if epoch < self.worker(place).known && !self.has(Mutation::WorkerIgnoresEpochs) {
            return self.saw(Event::AssignmentRefused);
        }
        let held = self.held(place, job, attempt);
        if *held != HeldMark::No {
            return;
        }
        match taking {
            Taking::GiveBack => *held = HeldMark::Done(Outcome::NotStarted),
            Taking::Begin => {
                *held = HeldMark::Running;
                self.state.witness.early |= self.is_early(job);
                let seen = self.seen(job, attempt);
                seen.begun = (seen.begun + 1).min(2);
                seen.began_undurable |= !seen.is_start_durable;
            }
        }
    }

    pub(crate) fn finish(&mut self, place: Place, job: JobNo, attempt: AttemptNo, outcome: Outcome) {
        *self.held(place, job, attempt) = HeldMark::Done(outcome);
        self.seen(job, attempt).came_to = Some(outcome);
    }

    /// Tells, or tells again, how an attempt went.
    pub(crate) fn tell(&mut self, place: Place, server: ServerNo, job: JobNo, attempt: AttemptNo) {
        let HeldMark::Done(outcome) = *self.held(place, job, attempt) else { return };
        let link = self.link_at(place, server);
        link.to_server.push((link.current, ToServer::Outcome { job, attempt, outcome }));
    }

    /// Gives the stream up, because it broke or seemed to, and opens the next.
    pub(crate) fn reconnect(&mut self, place: Place, server: ServerNo, said: HelloSent) {
        let reads_on = self.has(Mutation::ClosedStreamRead);
        let link = self.link_at(place, server);
        if !link.is_cut {
            self.state.left.breaks -= 1;
        }
        let link = self.link_at(place, server);
        link.close_worker_end(said, reads_on);
        link.reopen();
        let may_say_hello = link.to_server.is_empty();
        if self.bounds().grain == Grain::Coarse && may_say_hello {
            self.greet(server, place);
            self.read(place, server, Taking::Begin);
        }
    }

    /// The process dies and another takes its place. Running attempts are gone; outcomes are in the spool. Nothing else
    /// is remembered, not even the epochs.
    pub(crate) fn crash_worker(&mut self, place: Place) {
        self.state.left.worker_crashes -= 1;
        let keeps_name = self.has(Mutation::WorkerNameReused);
        let worker = self.worker(place);
        worker.id.life += u8::from(!keeps_name);
        worker.known = Epoch(0);
        for held in worker.held.as_flattened_mut() {
            if *held == HeldMark::Running {
                *held = HeldMark::No;
            }
        }
        for links in &mut self.state.links {
            let link = &mut links[usize::from(place)];
            link.close_worker_end(HelloSent::Late, false);
            link.reopen();
        }
    }
}

impl Link {
    fn close_worker_end(&mut self, said: HelloSent, reads_on: bool) {
        let current: StreamNo = self.current;
        if said == HelloSent::Lost {
            self.to_server.retain(|(stream, _)| *stream != current);
        }
        if !reads_on {
            self.to_worker = Queue::EMPTY;
        }
        // A greeting is for its own stream.
        self.to_worker.retain(|message| !matches!(message, ToWorker::Greeting { .. }));
    }
}

/// Whether a hello names an attempt in this condition.
fn is_named(held: HeldMark, forgets_finished: bool) -> bool {
    match held {
        HeldMark::No => false,
        HeldMark::Running => true,
        HeldMark::Done(_) => !forgets_finished,
    }
}
