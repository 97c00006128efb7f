//! A server as the owner of the shard: its lease, its memory, its starts, and how it learns what became durable.

use crate::bounds::{DeliveryMode, Leases};
use crate::cluster::Step;
use crate::link::ToWorker;
use crate::mutations::Mutation;
use crate::state::{
    Answer, AttemptNo, Call, Epoch, Event, JobEnd, JobNo, Lease, NextAction, Origin, Outcome, Row, ServerNo, Shard,
    Stage, Verdict, WorkerId, Write,
};

impl Step<'_> {
    /// Takes the shard over from any owner. The rows are read under the new epoch.
    pub(crate) fn acquire(&mut self, server: ServerNo) {
        let store = &mut self.state.store;
        store.epoch = Epoch(store.epoch.0 + 1);
        let (epoch, rows) = (store.epoch, store.rows);
        let mut jobs = [Stage::Absent; crate::bounds::JOBS];
        for job in self.jobs() {
            jobs[usize::from(job)] = self.read_row(server, rows[usize::from(job)]);
        }
        self.hold_lease(server);
        self.measure_clock(server);
        let server = &mut self.state.servers[usize::from(server)];
        server.acquired += 1;
        server.shard = Some(Shard { epoch, jobs });
    }

    fn read_row(&mut self, server: ServerNo, row: Row) -> Stage {
        match row {
            Row::Waiting { next } => Stage::Waiting { next },
            Row::Finished { .. } => Stage::Absent,
            Row::Running { attempt, .. } if self.has(Mutation::TakeoverForgetsRunning) => {
                Stage::Waiting { next: attempt }
            }
            Row::Running { attempt, worker, cancel } => {
                self.saw(Event::TakenOverRunning);
                // A worker that is connected already must say again what it holds.
                self.hang_up(server, worker);
                Stage::Running { attempt, worker, cancel, origin: Origin::FormerOwner }
            }
        }
    }

    fn hold_lease(&mut self, server: ServerNo) {
        self.state.store.lease = match self.bounds().leases {
            Leases::Kept => Lease::Held(server),
            Leases::Ignored => Lease::Free,
        };
    }

    pub(crate) fn measure_clock(&mut self, server: ServerNo) {
        let lead = u8::from(self.has(Mutation::ClockLeads));
        self.state.servers[usize::from(server)].clock = self.state.store.clock + lead;
    }

    /// Asks for more time, and learns whether the shard is still its own.
    pub(crate) fn renew(&mut self, server: ServerNo) {
        let owned = self.state.servers[usize::from(server)].shard.map(|shard| shard.epoch);
        if owned != Some(self.state.store.epoch) {
            return self.forget(server);
        }
        self.hold_lease(server);
        self.measure_clock(server);
    }

    pub(crate) fn release(&mut self, server: ServerNo) {
        self.state.left.releases -= 1;
        self.state.store.lease = Lease::Free;
        self.forget(server);
    }

    /// Forgets the shard. Writes that are on their way to the store stay on their way.
    pub(crate) fn forget(&mut self, server: ServerNo) {
        self.state.servers[usize::from(server)].shard = None;
        for link in &mut self.state.links[usize::from(server)] {
            if !link.is_connected {
                link.heard = None;
            }
        }
    }

    pub(crate) fn shard(&self, server: ServerNo) -> Option<Shard> {
        self.state.servers[usize::from(server)].shard
    }

    pub(crate) fn stage(&mut self, server: ServerNo, job: JobNo) -> &mut Stage {
        let shard = self.state.servers[usize::from(server)].shard.as_mut();
        &mut shard.expect("only an owner decides").jobs[usize::from(job)]
    }

    pub(crate) fn send_call(&mut self, server: ServerNo, job: JobNo, write: Write) {
        let epoch = self.shard(server).expect("only an owner writes").epoch;
        *self.call(server, job) = Call::Sent(epoch, write);
    }

    pub(crate) fn start(&mut self, server: ServerNo, job: JobNo, worker: WorkerId) {
        let Stage::Waiting { next: attempt } = *self.stage(server, job) else { return };
        *self.stage(server, job) = Stage::Starting { attempt, worker, cancel: false };
        self.send_call(server, job, Write::Start { attempt, worker });
        if self.has(Mutation::ExecuteBeforeDurable) {
            self.assign(server, job, attempt, worker);
        }
    }

    fn assign(&mut self, server: ServerNo, job: JobNo, attempt: AttemptNo, worker: WorkerId) {
        let epoch = self.shard(server).expect("only an owner assigns").epoch;
        self.send(server, worker, ToWorker::Assign { job, attempt, epoch });
    }

    /// The store's answer arrives.
    pub(crate) fn learn(&mut self, server: ServerNo, job: JobNo) {
        let Call::Answered(epoch, write, answer) = *self.call(server, job) else { return };
        *self.call(server, job) = Call::None;
        // It may have given the shard up, and even taken it again, meanwhile.
        let is_meant = self.shard(server).is_some_and(|shard| shard.epoch == epoch);
        match answer {
            Answer::Fenced => {
                self.saw(Event::Fenced);
                if is_meant {
                    self.forget(server);
                }
            }
            Answer::Void if is_meant => {
                self.saw(Event::Void);
                *self.stage(server, job) = Stage::Absent;
            }
            Answer::Applied if is_meant => self.committed_at(server, job, write),
            Answer::Void | Answer::Applied => {}
        }
    }

    fn committed_at(&mut self, server: ServerNo, job: JobNo, write: Write) {
        match write {
            Write::Start { attempt, worker } => {
                let Stage::Starting { cancel, .. } = *self.stage(server, job) else { return };
                *self.stage(server, job) = Stage::Running { attempt, worker, cancel, origin: Origin::Own };
                if cancel || self.link(server, worker).connected() != Some(worker) {
                    // It was not sent and never will be.
                    self.end_attempt(server, job, Verdict::NeverReceived, None);
                } else if !self.has(Mutation::ExecuteBeforeDurable) {
                    self.assign(server, job, attempt, worker);
                }
            }
            Write::End { attempt, then, reporter, .. } => {
                *self.stage(server, job) = match then {
                    NextAction::Settle(_) => Stage::Absent,
                    NextAction::Requeue { next } => Stage::Waiting { next },
                };
                self.ack(server, reporter, job, attempt);
            }
            Write::Remove { end, .. } => {
                *self.stage(server, job) = Stage::Absent;
                if end == JobEnd::Deleted {
                    self.state.witness.deleted[usize::from(job)] = true;
                }
            }
        }
    }

    /// The result of a call is unknown: its shard is given up, and a new epoch will show what the store holds.
    pub(crate) fn lose_answer(&mut self, server: ServerNo, job: JobNo) {
        self.state.left.lost_answers -= 1;
        if let Call::Answered(..) = *self.call(server, job) {
            *self.call(server, job) = Call::None;
        }
        self.forget(server);
    }

    /// Ends the running attempt of a job and decides the job's next state.
    pub(crate) fn end_attempt(&mut self, server: ServerNo, job: JobNo, verdict: Verdict, reporter: Option<WorkerId>) {
        let Stage::Running { attempt, cancel, .. } = *self.stage(server, job) else {
            unreachable!("only a running attempt ends")
        };
        let then = self.judge(job, attempt, verdict, cancel);
        *self.stage(server, job) = Stage::Ending { attempt: Some(attempt) };
        self.send_call(server, job, Write::End { attempt, verdict, then, reporter });
        if self.has(Mutation::AckBeforeDurable) {
            self.ack(server, reporter, job, attempt);
        }
    }

    fn judge(&self, job: JobNo, attempt: AttemptNo, verdict: Verdict, cancel: bool) -> NextAction {
        let retries_left = attempt.0 < self.bounds().jobs[usize::from(job)].attempts;
        let is_at_least_once = self.delivery(job) == DeliveryMode::AtLeastOnce;
        match verdict {
            Verdict::Reported(Outcome::Succeeded) => NextAction::Settle(JobEnd::Succeeded),
            _ if cancel => NextAction::Settle(JobEnd::Cancelled),
            Verdict::NeverReceived if self.has(Mutation::AttemptReused) => NextAction::Requeue { next: attempt },
            Verdict::NeverReceived | Verdict::Reported(Outcome::NotStarted) => {
                NextAction::Requeue { next: attempt.next() }
            }
            // Nobody asked for the cancel, so it is a failure.
            Verdict::Reported(Outcome::Failed | Outcome::Cancelled) if is_at_least_once && retries_left => {
                NextAction::Requeue { next: attempt.next() }
            }
            Verdict::Reported(Outcome::Failed | Outcome::Cancelled) => NextAction::Settle(JobEnd::Failed),
            Verdict::WorkerLost if retries_left && (is_at_least_once || self.has(Mutation::LostRetried)) => {
                NextAction::Requeue { next: attempt.next() }
            }
            Verdict::WorkerLost if is_at_least_once => NextAction::Settle(JobEnd::Failed),
            Verdict::WorkerLost => NextAction::Settle(JobEnd::Lost),
        }
    }

    /// The worker of this attempt was silent for too long, or seemed to be.
    pub(crate) fn give_up_worker(&mut self, server: ServerNo, job: JobNo) {
        let Stage::Running { worker, .. } = *self.stage(server, job) else { return };
        self.end_attempt(server, job, Verdict::WorkerLost, None);
        self.hang_up(server, worker);
    }
}
