//! The steps that can happen next. Any step may happen now or much later: pauses, slow messages and late wake-ups are
//! nothing but other steps coming first.

use crate::bounds::{Fates, Grain, Leases, ServedBy};
use crate::cluster::{Cluster, Step};
use crate::link::{Link, ToServer, ToWorker, WorkerEnd};
use crate::mutations::Mutation;
use crate::state::{
    Answer, AttemptNo, Call, HeldMark, JobNo, Lease, Outcome, Place, ServerNo, Shard, Stage, State, WorkerId, Write,
};
use crate::worker::{HelloSent, Taking};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    Tick,
    /// The lease ends before it is renewed.
    Lapse,
    Acquire(ServerNo),
    Renew(ServerNo),
    Release(ServerNo),
    Start(ServerNo, JobNo, WorkerId),
    /// The store takes a call in.
    Apply(ServerNo, JobNo),
    /// The server gets the store's answer.
    Learn(ServerNo, JobNo),
    LoseAnswer(ServerNo, JobNo),
    GiveUpWorker(ServerNo, JobNo),
    Greet(ServerNo, Place),
    /// The server reads the message at this place of a link's queue.
    Hear(ServerNo, Place, usize),
    NoticeBroken(ServerNo, WorkerId),
    Delete(ServerNo, JobNo),
    Cancel(ServerNo, JobNo),
    LateHint(ServerNo, JobNo),
    CrashServer(ServerNo),
    /// The worker reads the next message of a server.
    Read(Place, ServerNo, Taking),
    Finish(Place, JobNo, AttemptNo, Outcome),
    Tell(Place, ServerNo, JobNo, AttemptNo),
    Reconnect(Place, ServerNo, HelloSent),
    CrashWorker(Place),
}

impl Step<'_> {
    pub(crate) fn take(&mut self, action: Action) {
        match action {
            Action::Tick => self.state.store.clock += 1,
            Action::Lapse => {
                if let Lease::Held(server) = self.state.store.lease {
                    self.state.store.lease = Lease::Lapsed(server);
                }
            }
            Action::Acquire(server) => self.acquire(server),
            Action::Renew(server) => self.renew(server),
            Action::Release(server) => self.release(server),
            Action::Start(server, job, worker) => self.start(server, job, worker),
            Action::Apply(server, job) => self.apply(server, job),
            Action::Learn(server, job) => self.learn(server, job),
            Action::LoseAnswer(server, job) => self.lose_answer(server, job),
            Action::GiveUpWorker(server, job) => self.give_up_worker(server, job),
            Action::Greet(server, place) => self.greet(server, place),
            Action::Hear(server, place, queued) => self.hear(server, place, queued),
            Action::NoticeBroken(server, worker) => self.notice_broken(server, worker),
            Action::Delete(server, job) => self.delete(server, job),
            Action::Cancel(server, job) => self.cancel(server, job),
            Action::LateHint(server, job) => self.late_hint(server, job),
            Action::CrashServer(server) => self.crash_server(server),
            Action::Read(place, server, taking) => self.read(place, server, taking),
            Action::Finish(place, job, attempt, outcome) => self.finish(place, job, attempt, outcome),
            Action::Tell(place, server, job, attempt) => self.tell(place, server, job, attempt),
            Action::Reconnect(place, server, said) => self.reconnect(place, server, said),
            Action::CrashWorker(place) => self.crash_worker(place),
        }
    }
}

pub(crate) fn possible(cluster: &Cluster, state: &State, actions: &mut Vec<Action>) {
    let bounds = &cluster.bounds;
    if bounds.jobs.iter().any(|job| state.store.clock < job.due) {
        actions.push(Action::Tick);
    }
    if bounds.leases == Leases::Kept && matches!(state.store.lease, Lease::Held(_)) {
        actions.push(Action::Lapse);
    }
    let look = Look { cluster, state };
    for server in 0..bounds.servers {
        look.owner(server, actions);
        for place in 0..bounds.workers {
            look.server_end(server, place, actions);
            look.worker_end(place, server, actions);
        }
    }
    for place in 0..bounds.workers {
        look.executions(place, actions);
    }
}

struct Look<'a> {
    cluster: &'a Cluster,
    state: &'a State,
}

impl Look<'_> {
    fn has_room(&self, len: usize) -> bool {
        len < self.cluster.bounds.messages
    }

    fn link(&self, server: ServerNo, place: Place) -> &Link {
        &self.state.links[usize::from(server)][usize::from(place)]
    }

    fn jobs(&self) -> impl Iterator<Item = JobNo> + use<> {
        0..u8::try_from(self.cluster.bounds.jobs.len()).expect("jobs are few")
    }

    fn owner(&self, server: ServerNo, actions: &mut Vec<Action>) {
        let (state, left) = (self.state, self.state.left);
        let me = &state.servers[usize::from(server)];
        if self.may_acquire(server) {
            actions.push(Action::Acquire(server));
        }
        if let Some(shard) = me.shard {
            let is_current = shard.epoch == state.store.epoch;
            let is_lapsed = state.store.lease == Lease::Lapsed(server);
            if !is_current || is_lapsed || me.clock < state.store.clock {
                actions.push(Action::Renew(server));
            }
            if is_current && left.releases > 0 {
                actions.push(Action::Release(server));
            }
        }
        let has_memory = me.shard.is_some() || me.acquired > 0;
        if left.server_crashes > 0 && has_memory {
            actions.push(Action::CrashServer(server));
        }
        for job in self.jobs() {
            match state.calls[usize::from(server)][usize::from(job)] {
                Call::None => {}
                Call::Sent(_, write) => {
                    // Where answers come at once, what they bring about must find room.
                    if self.cluster.bounds.grain == Grain::Fine || self.may_learn(server, write, Answer::Applied) {
                        actions.push(Action::Apply(server, job));
                    }
                    self.lose_answer(server, job, actions);
                    continue;
                }
                Call::Answered(_, write, answer) => {
                    if self.may_learn(server, write, answer) {
                        actions.push(Action::Learn(server, job));
                    }
                    self.lose_answer(server, job, actions);
                    continue;
                }
            }
            if let Some(shard) = me.shard {
                self.decisions(server, job, shard, actions);
            }
        }
        // A job whose start is under way can be cancelled all the same.
        if let Some(shard) = me.shard.filter(|_| left.cancels > 0) {
            for job in self.jobs() {
                if let Stage::Starting { cancel: false, .. } = shard.jobs[usize::from(job)] {
                    actions.push(Action::Cancel(server, job));
                }
            }
        }
    }

    fn lose_answer(&self, server: ServerNo, job: JobNo, actions: &mut Vec<Action>) {
        if self.state.left.lost_answers > 0 && self.state.servers[usize::from(server)].shard.is_some() {
            actions.push(Action::LoseAnswer(server, job));
        }
    }

    fn may_acquire(&self, server: ServerNo) -> bool {
        let store = &self.state.store;
        let owned = self.state.servers[usize::from(server)].shard.map(|shard| shard.epoch);
        let is_open = match store.lease {
            Lease::Free | Lease::Lapsed(_) => true,
            // It gave up what it no longer knew, or is a new process in the place of the owner.
            Lease::Held(holder) => holder == server && owned.is_none(),
        };
        is_open && owned != Some(store.epoch) && store.epoch.0 < self.cluster.bounds.epochs
    }

    /// An assignment is never dropped for want of room: the server learns of its start later.
    fn may_learn(&self, server: ServerNo, write: Write, answer: Answer) -> bool {
        let (Write::Start { worker, .. }, Answer::Applied) = (write, answer) else { return true };
        let link = self.link(server, worker.place);
        !link.carries() || self.has_room(link.to_worker.len())
    }

    fn decisions(&self, server: ServerNo, job: JobNo, shard: Shard, actions: &mut Vec<Action>) {
        let (bounds, left) = (&self.cluster.bounds, self.state.left);
        let has = |mutation| self.cluster.mutation == Some(mutation);
        match shard.jobs[usize::from(job)] {
            Stage::Waiting { next } => {
                let limits = bounds.jobs[usize::from(job)];
                let is_due = limits.due <= self.state.servers[usize::from(server)].clock;
                if is_due && next.0 <= limits.attempts {
                    let serves =
                        |place: &Place| limits.served_by == ServedBy::Any || limits.served_by == ServedBy::One(*place);
                    for place in (0..bounds.workers).filter(serves) {
                        let connected = self.link(server, place).connected();
                        actions.extend(connected.map(|worker| Action::Start(server, job, worker)));
                    }
                }
                // A job that waits for a retry has started before.
                let has_started = next > AttemptNo::FIRST && !has(Mutation::DeleteIgnoresEarlierStart);
                if left.deletes > 0 && !has_started {
                    actions.push(Action::Delete(server, job));
                }
                if left.cancels > 0 {
                    actions.push(Action::Cancel(server, job));
                }
            }
            Stage::Running { cancel, .. } => {
                actions.push(Action::GiveUpWorker(server, job));
                if left.cancels > 0 && !cancel {
                    actions.push(Action::Cancel(server, job));
                }
                if left.deletes > 0 && has(Mutation::DeleteIgnoresRunning) {
                    actions.push(Action::Delete(server, job));
                }
            }
            Stage::Absent if left.late_hints > 0 => actions.push(Action::LateHint(server, job)),
            Stage::Absent | Stage::Starting { .. } | Stage::Ending { .. } => {}
        }
    }

    fn server_end(&self, server: ServerNo, place: Place, actions: &mut Vec<Action>) {
        let link = self.link(server, place);
        let is_greeted = link.to_worker.iter().any(|message| matches!(message, ToWorker::Greeting { .. }));
        let waits = link.worker_end == WorkerEnd::Opening && !is_greeted && !link.is_cut;
        if waits && self.has_room(link.to_worker.len()) {
            actions.push(Action::Greet(server, place));
        }
        let streams = [link.to_server.get(0), link.to_server.get(1)].map(|message| message.map(|(stream, _)| stream));
        if streams[0].is_some() {
            actions.push(Action::Hear(server, place, 0));
        }
        // Streams have an order each, and none among them.
        if streams[1].is_some() && streams[1] != streams[0] {
            actions.push(Action::Hear(server, place, 1));
        }
        if let Some(worker) = link.connected()
            && (!link.carries() || self.state.left.breaks > 0)
        {
            actions.push(Action::NoticeBroken(server, worker));
        }
    }

    fn worker_end(&self, place: Place, server: ServerNo, actions: &mut Vec<Action>) {
        let link = self.link(server, place);
        let may_read = match link.to_worker.get(0) {
            None => false,
            Some(ToWorker::Greeting { .. }) => link.is_cut || self.has_room(link.to_server.len()),
            Some(_) => true,
        };
        if may_read {
            actions.push(Action::Read(place, server, Taking::Begin));
            let is_assignment = matches!(link.to_worker.get(0), Some(ToWorker::Assign { .. }));
            if is_assignment && self.cluster.bounds.fates == Fates::Any {
                actions.push(Action::Read(place, server, Taking::GiveBack));
            }
        }
        if link.is_cut || (self.state.left.breaks > 0 && link.worker_end == WorkerEnd::Ready) {
            actions.push(Action::Reconnect(place, server, HelloSent::Late));
            if link.to_server.iter().any(|(stream, _)| stream == link.current) {
                actions.push(Action::Reconnect(place, server, HelloSent::Lost));
            }
        }
        // One that does not believe to be the owner would not listen; the worker repeats itself.
        let has_listener = self.state.servers[usize::from(server)].shard.is_some();
        if !has_listener || link.worker_end == WorkerEnd::Opening || link.is_cut || !self.has_room(link.to_server.len())
        {
            return;
        }
        for (job, attempt, held) in self.attempts(place) {
            let HeldMark::Done(outcome) = held else { continue };
            let telling = (link.current, ToServer::Outcome { job, attempt, outcome });
            if !link.to_server.iter().any(|queued| queued == telling) {
                actions.push(Action::Tell(place, server, job, attempt));
            }
        }
    }

    fn attempts(&self, place: Place) -> impl Iterator<Item = (JobNo, AttemptNo, HeldMark)> {
        let held = &self.state.workers[usize::from(place)].held;
        self.jobs().flat_map(move |job| {
            let numbers = (1..).map(AttemptNo);
            numbers.zip(held[usize::from(job)]).map(move |(attempt, held)| (job, attempt, held))
        })
    }

    fn executions(&self, place: Place, actions: &mut Vec<Action>) {
        for (job, attempt, held) in self.attempts(place) {
            if held == HeldMark::Running {
                actions.push(Action::Finish(place, job, attempt, Outcome::Succeeded));
                if self.cluster.bounds.fates == Fates::Any {
                    actions.push(Action::Finish(place, job, attempt, Outcome::Failed));
                }
            }
        }
        if self.state.left.worker_crashes > 0 {
            actions.push(Action::CrashWorker(place));
        }
    }
}
