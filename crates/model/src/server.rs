//! A server at its streams: greetings, hellos, outcomes, and the commands of clients.

use crate::cluster::Step;
use crate::link::{HeldSet, Link, StreamNo, ToServer, ToWorker};
use crate::mutations::Mutation;
use crate::state::{
    AttemptNo, Call, Event, JobEnd, JobNo, Origin, Outcome, Place, Row, ServerNo, Stage, Verdict, WorkerId, Write,
};

impl Step<'_> {
    pub(crate) fn link(&mut self, server: ServerNo, worker: WorkerId) -> &mut Link {
        &mut self.state.links[usize::from(server)][usize::from(worker.place)]
    }

    /// Sends on the connection that the server believes in. What does not arrive, or finds no
    /// room, is lost; an assignment is only sent when there is room.
    pub(crate) fn send(&mut self, server: ServerNo, worker: WorkerId, message: ToWorker) {
        let room = self.bounds().messages;
        let link = self.link(server, worker);
        if link.connected() == Some(worker) && link.carries() && link.to_worker.len() < room {
            link.to_worker.push(message);
        }
    }

    pub(crate) fn greet(&mut self, server: ServerNo, place: Place) {
        let greeter = self.state.servers[usize::from(server)];
        let greeting = ToWorker::Greeting { acquired: greeter.acquired, epoch: greeter.shard.map(|shard| shard.epoch) };
        let link = &mut self.state.links[usize::from(server)][usize::from(place)];
        // There is something before it only if a worker reads on from a stream that it closed.
        let before = link.to_worker.take(0);
        link.to_worker.push(greeting);
        if let Some(before) = before {
            link.to_worker.push(before);
        }
    }

    /// The server finds that a connection has ended, or ends it for no good reason.
    pub(crate) fn notice_broken(&mut self, server: ServerNo, worker: WorkerId) {
        if self.link(server, worker).carries() {
            self.state.left.breaks -= 1;
        }
        self.hang_up(server, worker);
    }

    /// Ends the connection of this worker, if there is one. While attempts of it run, the
    /// server remembers which hello was the newest: an older one may still be read.
    pub(crate) fn hang_up(&mut self, server: ServerNo, worker: WorkerId) {
        let forgets = self.has(Mutation::HelloForgottenOnBreak);
        let has_jobs =
            self.shard(server).is_some_and(|shard| shard.jobs.iter().any(|stage| runs_at(stage, worker.place)));
        let link = self.link(server, worker);
        if link.connected() != Some(worker) {
            return;
        }
        let (_, stream) = link.heard.expect("it is connected");
        link.is_connected = false;
        link.close_server_end(stream);
        if !has_jobs || forgets {
            link.heard = None;
        }
    }

    /// Takes in the message at this place of the queue.
    pub(crate) fn hear(&mut self, server: ServerNo, place: Place, queued: usize) {
        let link = &mut self.state.links[usize::from(server)][usize::from(place)];
        let Some((stream, message)) = link.to_server.take(queued) else { return };
        let reporter = link.connected();
        match message {
            ToServer::Hello { worker, acquired, held } => self.hello(server, stream, worker, acquired, held),
            // Whichever stream it comes on: it names its attempt. The answer goes to the present one.
            ToServer::Outcome { job, attempt, outcome } => self.report(server, reporter, job, attempt, outcome),
        }
    }

    fn hello(&mut self, server: ServerNo, stream: StreamNo, worker: WorkerId, acquired: u8, held: HeldSet) {
        let is_outdated = acquired != self.state.servers[usize::from(server)].acquired;
        if is_outdated && !self.has(Mutation::OldGreetingAnswered) {
            self.link(server, worker).close_server_end(stream);
            return self.saw(Event::OldGreetingRefused);
        }
        let believes_any = self.has(Mutation::LateHelloBelieved);
        let link = self.link(server, worker);
        let is_late = link.heard.is_some_and(|(id, newest)| (worker.life, stream) < (id.life, newest));
        if is_late && !believes_any {
            return self.saw(Event::LateHelloIgnored);
        }
        if let Some((_, before)) = link.heard.filter(|(_, before)| *before != stream) {
            link.close_server_end(before);
        }
        link.heard = Some((worker, stream));
        link.is_connected = true;
        if self.shard(server).is_some() {
            for job in self.jobs() {
                self.compare_with_hello(server, job, worker, held);
            }
        }
    }

    /// An assignment that the worker does not hold was never received.
    fn compare_with_hello(&mut self, server: ServerNo, job: JobNo, worker: WorkerId, held: HeldSet) {
        let stage = *self.stage(server, job);
        if let Stage::Running { attempt, worker: on, cancel, origin } = stage
            && on == worker
        {
            let is_held = held.contains(job, attempt) && !self.has(Mutation::HeldIgnored);
            if !is_held {
                self.saw(Event::TakenBack);
                self.end_attempt(server, job, Verdict::NeverReceived, None);
            } else {
                if origin == Origin::FormerOwner {
                    self.saw(Event::Adopted);
                }
                if cancel {
                    self.send(server, worker, ToWorker::Cancel { job, attempt });
                }
            }
        }
        let current = match stage {
            Stage::Absent | Stage::Ending { attempt: None } => return,
            Stage::Waiting { next: current }
            | Stage::Starting { attempt: current, .. }
            | Stage::Running { attempt: current, .. }
            | Stage::Ending { attempt: Some(current) } => current,
        };
        for number in 1..current.0 {
            let attempt = AttemptNo(number);
            if held.contains(job, attempt) {
                self.send(server, worker, ToWorker::Stop { job, attempt });
            }
        }
    }

    /// The first outcome of the current attempt counts; any other is answered and changes
    /// nothing.
    fn report(
        &mut self,
        server: ServerNo,
        reporter: Option<WorkerId>,
        job: JobNo,
        attempt: AttemptNo,
        outcome: Outcome,
    ) {
        if self.shard(server).is_none() {
            return;
        }
        let takes_any = self.has(Mutation::OutcomeOfAnyAttempt);
        match *self.stage(server, job) {
            Stage::Running { attempt: current, .. } if current == attempt || takes_any => {
                self.end_attempt(server, job, Verdict::Reported(outcome), reporter);
            }
            // The answer comes with the commit; until then the worker repeats itself.
            Stage::Ending { .. } => {}
            Stage::Absent => self.late_report(server, reporter, job, attempt, outcome),
            Stage::Waiting { .. } | Stage::Starting { .. } | Stage::Running { .. } => {
                self.stale(server, reporter, job, attempt);
            }
        }
    }

    fn late_report(
        &mut self,
        server: ServerNo,
        reporter: Option<WorkerId>,
        job: JobNo,
        attempt: AttemptNo,
        outcome: Outcome,
    ) {
        let epoch = self.shard(server).expect("checked by the caller").epoch;
        let row = self.state.store.rows[usize::from(job)];
        let on_record = self.seen(job, attempt).on_record;
        let is_last = matches!(row, Row::Finished { attempt: Some(last), .. } if last == attempt);
        let is_lost = matches!(row, Row::Finished { end: JobEnd::Lost, .. });
        if is_last && on_record == Some(Verdict::Reported(outcome)) {
            // Its acknowledgement got lost.
            self.ack(server, reporter, job, attempt);
        } else if is_last && is_lost && outcome != Outcome::NotStarted {
            if !self.passes_fence(epoch) {
                return self.forget(server);
            }
            self.resolve_lost(epoch, job, attempt, outcome);
            self.ack(server, reporter, job, attempt);
            self.saw(Event::LostResolved);
        } else {
            self.stale(server, reporter, job, attempt);
        }
    }

    /// Acknowledged when it is durable: it may be the server that is out of date.
    fn stale(&mut self, server: ServerNo, reporter: Option<WorkerId>, job: JobNo, attempt: AttemptNo) {
        let epoch = self.shard(server).expect("checked by the caller").epoch;
        if !self.passes_fence(epoch) && !self.has(Mutation::StaleAckUnfenced) {
            return self.forget(server);
        }
        self.ack(server, reporter, job, attempt);
        self.saw(Event::StaleAnswered);
    }

    pub(crate) fn ack(&mut self, server: ServerNo, reporter: Option<WorkerId>, job: JobNo, attempt: AttemptNo) {
        if let Some(reporter) = reporter {
            self.send(server, reporter, ToWorker::Ack { job, attempt });
        }
    }

    pub(crate) fn delete(&mut self, server: ServerNo, job: JobNo) {
        self.state.left.deletes -= 1;
        let next = match *self.stage(server, job) {
            Stage::Waiting { next } => next,
            Stage::Running { attempt, .. } => attempt,
            Stage::Absent | Stage::Starting { .. } | Stage::Ending { .. } => unreachable!("refused before"),
        };
        if self.has(Mutation::AnswerBeforeDurable) {
            self.state.witness.deleted[usize::from(job)] = true;
        }
        self.remove(server, job, next, JobEnd::Deleted);
    }

    fn remove(&mut self, server: ServerNo, job: JobNo, next: AttemptNo, end: JobEnd) {
        *self.stage(server, job) = Stage::Ending { attempt: None };
        self.send_call(server, job, Write::Remove { next, end });
    }

    pub(crate) fn cancel(&mut self, server: ServerNo, job: JobNo) {
        self.state.left.cancels -= 1;
        let epoch = self.shard(server).expect("commands go to an owner").epoch;
        match self.stage(server, job) {
            Stage::Waiting { next } => {
                let next = *next;
                self.remove(server, job, next, JobEnd::Cancelled);
            }
            // Not sent yet: taken back as soon as its start is durable.
            Stage::Starting { cancel, .. } => *cancel = true,
            Stage::Running { attempt, worker, cancel, .. } => {
                *cancel = true;
                let (attempt, worker) = (*attempt, *worker);
                if !self.passes_fence(epoch) {
                    return self.forget(server);
                }
                self.record_cancel(epoch, job);
                self.send(server, worker, ToWorker::Cancel { job, attempt });
            }
            Stage::Absent | Stage::Ending { .. } => unreachable!("refused before"),
        }
    }

    /// Word of a job that is long under way, or over, arrives as if it were new.
    pub(crate) fn late_hint(&mut self, server: ServerNo, job: JobNo) {
        self.state.left.late_hints -= 1;
        *self.stage(server, job) = Stage::Waiting { next: AttemptNo::FIRST };
    }

    pub(crate) fn crash_server(&mut self, server: ServerNo) {
        self.state.left.server_crashes -= 1;
        let place = usize::from(server);
        let crashed = &mut self.state.servers[place];
        (crashed.shard, crashed.acquired, crashed.clock) = (None, 0, 0);
        for call in &mut self.state.calls[place] {
            if let Call::Answered(..) = call {
                *call = Call::None;
            }
        }
        for link in &mut self.state.links[place] {
            let was_open = link.worker_end == crate::link::WorkerEnd::Ready || !link.to_worker.is_empty();
            link.is_cut |= was_open;
            (link.is_connected, link.heard) = (false, None);
            link.to_server = crate::queue::Queue::EMPTY;
        }
    }
}

/// Whether it runs at this place, be it on a process that is gone.
fn runs_at(stage: &Stage, place: Place) -> bool {
    matches!(stage, Stage::Starting { worker, .. } | Stage::Running { worker, .. } if worker.place == place)
}
