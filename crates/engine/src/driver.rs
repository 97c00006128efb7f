//! The thread that drives the owner.
//!
//! It sleeps until something arrives or the next job is due, takes in all that has
//! arrived, lets the owner decide, and performs the effects. Group commit has no
//! timer: what was decided while a batch was on its way is the next batch.
//!
//! When the leases may be over, it goes on listening and does nothing else until they are
//! renewed: what it would send is kept, and dropped with the shards that turn out to be lost.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use punctual_core::shard::event::{Assignment, Event, LostWorker, Released, StreamId, Token};
use punctual_core::shard::write::{BatchSeq, SharedBatch};
use punctual_core::shard::{Answer, Owner};
use punctual_core::{ServerId, ShardId, WorkerId};
use punctual_store::{Applied, RunSteps, Store, StoreError};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::Monotonic;
use crate::config::Clock;
use crate::hub::Hub;
use crate::inbox::{Inbox, Input, OpenAsk};
use crate::lease_state::LeaseState;
use crate::reads::Reads;
use crate::streams::{Outgoing, Streams};

/// Inputs taken in before the owner decides again. More would let a flood of
/// submissions delay what is due.
const INPUTS_PER_TURN: usize = 256;

/// How long a stop waits for what was decided to become durable and to be sent.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// How often a driver that stops, or may not act, looks whether that has changed.
const RECHECK_EVERY: Duration = Duration::from_millis(50);

pub(crate) struct Driver {
    pub(crate) owner: Owner,
    pub(crate) clock: Clock,
    pub(crate) inbox: Inbox,
    pub(crate) inputs: Receiver<Input>,
    /// One for each lane.
    pub(crate) batches: Vec<mpsc::UnboundedSender<SharedBatch>>,
    /// Shards of which it is not known whether they are ours, or what is written there.
    pub(crate) doubts: mpsc::UnboundedSender<Vec<ShardId>>,
    pub(crate) lease: Arc<LeaseState>,
    pub(crate) monotonic: Monotonic,
    pub(crate) reads: Reads,
    pub(crate) streams: Streams,
    pub(crate) hub: Arc<Hub>,
    /// A run has ended whose job is to hear of it.
    pub(crate) run_ended: Arc<Notify>,
    /// A batch is to be looked at.
    pub(crate) batch_pressing: Arc<Notify>,
    pub(crate) answers: HashMap<Token, oneshot::Sender<Answer>>,
    pub(crate) asks_taken: u64,
    /// Assignments whose inputs are being read, by shard.
    pub(crate) unread: HashMap<ShardId, usize>,
    /// Inputs that were read while the driver might not act.
    pub(crate) held_back: Vec<InputsRead>,
    pub(crate) retiring: Vec<(Vec<ShardId>, oneshot::Sender<()>)>,
    /// It has been told to stop, and does so by then.
    pub(crate) stop_by: Option<Duration>,
}

/// A worker's connection, and what can go out on it now.
pub(crate) type InputsRead = (WorkerId, StreamId, Vec<Assignment>);

impl Driver {
    pub(crate) fn run(mut self) {
        loop {
            if !self.take_inputs() {
                return;
            }
            if self.lease.is_current() {
                self.act();
            }
            if self.has_ended() {
                return;
            }
        }
    }

    fn act(&mut self) {
        let now = (self.clock)();
        if self.stop_by.is_none() {
            self.owner.tick(now);
        }
        self.perform();
        for (worker, stream, assignments) in std::mem::take(&mut self.held_back) {
            self.inputs_read(worker, stream, assignments);
        }
        while let Some(batch) = self.owner.take_batch(now) {
            let lane = batch.lane(self.batches.len());
            let _ = self.batches[lane].send(batch);
        }
        let (owner, unread) = (&self.owner, &self.unread);
        let is_quiet = |shard: &ShardId| owner.is_quiet(*shard) && !unread.contains_key(shard);
        for (_, done) in self.retiring.extract_if(.., |(shards, _)| shards.iter().all(is_quiet)) {
            let _ = done.send(());
        }
    }

    fn has_ended(&self) -> bool {
        let Some(stop_by) = self.stop_by else { return false };
        let is_quiet = !self.owner.has_writes() && self.owner.batches_in_flight() == 0 && self.unread.is_empty();
        is_quiet || (self.monotonic)() >= stop_by
    }

    /// Waits for the first input or the next due moment. False when nobody can send any more.
    fn take_inputs(&mut self) -> bool {
        let wait = if self.stop_by.is_some() || !self.lease.is_current() {
            RECHECK_EVERY
        } else {
            self.owner.next_wake().since((self.clock)()).to_std()
        };
        let mut input = match self.inputs.recv_timeout(wait) {
            Ok(input) => Some(input),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        for _ in 0..INPUTS_PER_TURN {
            let Some(taken) = input else { break };
            self.take(taken);
            input = self.inputs.try_recv().ok();
        }
        if let Some(left) = input {
            self.take(left);
        }
        true
    }

    fn take(&mut self, input: Input) {
        let now = (self.clock)();
        if self.stop_by.is_some() && is_too_late(&input) {
            return;
        }
        match input {
            Input::Event(event) => {
                match &event {
                    // What was decided while the shard was ours leaves before it is forgotten.
                    Event::Released { .. } => self.perform(),
                    Event::Submitted { jobs } => self.inbox.hints_taken(jobs.len()),
                    Event::WorkerDisconnected { worker, stream } => self.streams.disconnected(*worker, *stream),
                    _ => {}
                }
                self.owner.handle(event, now);
            }
            // Of what was acquired since the greeting, the hello says nothing. Without a sender
            // the stream ends, and the worker comes again.
            Input::Connected { acquired, .. } if acquired != self.owner.acquisitions() => {}
            Input::Connected { worker, stream, .. } if self.owner.heard_later(worker, stream) => {}
            Input::Connected { event, worker, stream, sender, .. } => {
                // What was decided for the former connection leaves before this one counts.
                self.perform();
                self.streams.connect(worker, stream, sender);
                self.owner.handle(event, now);
            }
            Input::Asks(asks) => {
                for ask in asks {
                    self.ask(ask);
                }
            }
            Input::Refused { worker, stream, attempts } => {
                self.streams.send_one(worker, stream, Outgoing { acks: attempts, ..Outgoing::default() });
            }
            Input::Invited { worker, stream, servers } => self.invite(worker, stream, servers),
            Input::WorkersWanted { by, wanted, turn, may_connect, answer } => {
                let mut fitting = self.owner.fitting_workers(&wanted, turn);
                fitting.pools.iter_mut().chain([&mut fitting.workers]).for_each(|named| {
                    named.retain(|(worker, _)| may_connect(*worker));
                });
                for (worker, stream) in fitting.pools.iter().flatten().chain(&fitting.workers) {
                    self.invite(*worker, *stream, vec![by]);
                }
                let _ = answer.send(fitting);
            }
            Input::Applied { seq, result } => self.applied(seq, result),
            Input::InputsRead { worker, stream, assignments } => {
                self.held_back.push((worker, stream, assignments));
            }
            Input::Renewed { until } => self.lease.extend(until),
            Input::Retire { shards, done } => {
                for &shard in &shards {
                    self.owner.handle(Event::Retire { shard }, now);
                }
                self.retiring.push((shards, done));
            }
            Input::Query(ask) => ask(&self.owner),
            Input::Stop => {
                // Nothing new is started, and what was started is sent. Workers keep what they
                // cannot report here any more.
                self.stop_by = Some((self.monotonic)() + STOP_WITHIN);
                for (shard, _) in self.owner.owned_shards() {
                    self.owner.handle(Event::Retire { shard }, now);
                }
            }
        }
    }

    /// Tells a worker to connect to these servers, too.
    fn invite(&mut self, worker: WorkerId, stream: StreamId, invitations: Vec<ServerId>) {
        self.streams.send_one(worker, stream, Outgoing { invitations, ..Outgoing::default() });
    }

    fn ask(&mut self, OpenAsk { ask, made, sender }: OpenAsk) {
        if !self.lease.is_current() {
            let _ = sender.send(Answer::NotOwner);
            return;
        }
        self.asks_taken += 1;
        let token = Token(self.asks_taken);
        self.answers.insert(token, sender);
        self.owner.handle(Event::Ask { token, ask, made }, (self.clock)());
    }

    /// The assignments go out if they still stand; a cancel that came meanwhile follows them.
    fn inputs_read(&mut self, worker: WorkerId, stream: StreamId, assignments: Vec<Assignment>) {
        let mut message = Outgoing::default();
        for assignment in assignments {
            let (id, attempt) = (assignment.key.id, assignment.attempt);
            if let Entry::Occupied(mut unread) = self.unread.entry(id.shard()) {
                *unread.get_mut() -= 1;
                if *unread.get() == 0 {
                    unread.remove();
                }
            }
            let Some(view) = self.owner.running(id).filter(|view| view.attempt == attempt) else { continue };
            message.assignments.push(assignment);
            if view.cancel_requested {
                message.cancels.push((id, attempt));
            }
        }
        self.streams.send_one(worker, stream, message);
    }

    fn applied(&mut self, seq: BatchSeq, result: Result<Applied, StoreError>) {
        let now = (self.clock)();
        match result {
            Ok(Applied::Done { void, steps: RunSteps { released, ended, batches } }) => {
                let released = match &released[..] {
                    [] => Some(Vec::new()),
                    _ => self.reads.tasks.join_cached(&*self.reads.store, released),
                };
                let released = released.map_or(Released::InStore, Released::AtHand);
                self.owner.committed_with(seq, &void, released, now);
                if !ended.is_empty() {
                    self.run_ended.notify_one();
                }
                if !batches.is_empty() {
                    self.batch_pressing.notify_one();
                }
            }
            Ok(Applied::Fenced(lost)) => {
                tracing::warn!(
                    shards = lost.len(),
                    "another server owns these shards now, or their epochs were raised"
                );
                let in_order = self.owner.fenced(seq, &lost, now);
                let _ = self.doubts.send([lost, in_order].concat());
            }
            Err(error) => {
                self.perform();
                let shards = self.owner.unknown(seq, now);
                tracing::error!(%error, shards = shards.len(), "a batch ended in doubt; taking its shards over anew");
                let _ = self.doubts.send(shards);
            }
        }
    }

    /// Does what the owner decided, unless somebody else may own its shards by now.
    fn perform(&mut self) {
        if !self.lease.is_current() {
            return;
        }
        let effects = self.owner.take_effects();
        if effects.is_empty() {
            return;
        }
        for (worker, stream, assignments) in self.streams.send(effects.sends) {
            for assignment in &assignments {
                *self.unread.entry(assignment.key.shard()).or_default() += 1;
            }
            self.reads.inputs(worker, stream, assignments);
        }
        for worker in effects.disconnects {
            self.streams.cut(worker);
        }
        for LostWorker { worker, attempts, silent_for } in effects.lost_workers {
            tracing::warn!(%worker, attempts, %silent_for, "a worker is lost: its attempts are ended");
        }
        for load in effects.loads {
            self.reads.load(load);
        }
        for (token, id) in effects.lookups {
            self.reads.find(token, id);
        }
        for (token, answer) in effects.answers {
            if let Some(sender) = self.answers.remove(&token) {
                let _ = sender.send(answer);
            }
        }
        for load in effects.schedule_loads {
            self.reads.schedules(load);
        }
        if let Some(since) = effects.calendars_missed_since {
            self.reads.plans.tell_again(since);
        }
        self.hub.publish(effects.changes);
    }
}

/// What a driver that stops does not take in any more.
fn is_too_late(input: &Input) -> bool {
    match input {
        Input::Event(event) => !matches!(event, Event::Released { .. } | Event::WorkerDisconnected { .. }),
        Input::Connected { .. } | Input::Asks(_) | Input::Refused { .. } | Input::Stop => true,
        Input::Invited { .. } | Input::WorkersWanted { .. } => true,
        Input::Applied { .. }
        | Input::InputsRead { .. }
        | Input::Renewed { .. }
        | Input::Retire { .. }
        | Input::Query(_) => false,
    }
}

/// Hands the batches of one lane to the store in order, and its answers back in the same
/// order. The owner keeps few in flight.
pub(crate) async fn commit(store: Arc<dyn Store>, mut batches: mpsc::UnboundedReceiver<SharedBatch>, inbox: Inbox) {
    let mut in_flight = FuturesOrdered::new();
    loop {
        tokio::select! {
            biased;
            Some((seq, result)) = in_flight.next(), if !in_flight.is_empty() => {
                inbox.send(Input::Applied { seq, result });
            }
            batch = batches.recv() => {
                let Some(batch) = batch else { break };
                let store = Arc::clone(&store);
                in_flight.push_back(async move { (batch.seq, store.apply(batch).await) });
            }
        }
    }
    while let Some((seq, result)) = in_flight.next().await {
        inbox.send(Input::Applied { seq, result });
    }
}
