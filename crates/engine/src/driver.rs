//! The thread that drives the owner.
//!
//! It sleeps until something arrives or the next job is due, takes in all that has
//! arrived, lets the owner decide, and performs the effects. Group commit has no
//! timer: what was decided while a batch was on its way is the next batch.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use punctual_core::shard::Owner;
use punctual_core::shard::event::{Assignment, Event, Reply, StreamId, Token};
use punctual_core::shard::write::SharedBatch;
use punctual_core::{ShardId, WorkerId};
use punctual_store::{Applied, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::config::{Clock, EngineConfig};
use crate::hub::Hub;
use crate::inbox::{Inbox, Input};
use crate::reads::Reads;
use crate::streams::{Outgoing, Streams, outgoing_assignment};

/// Inputs taken in before the owner decides again. More would let a flood of
/// submissions delay what is due.
const INPUTS_PER_TURN: usize = 256;

pub(crate) struct Driver {
    pub(crate) owner: Owner,
    pub(crate) clock: Clock,
    pub(crate) inbox: Inbox,
    pub(crate) inputs: Receiver<Input>,
    pub(crate) batches: mpsc::UnboundedSender<SharedBatch>,
    pub(crate) batches_in_flight_max: usize,
    pub(crate) taken_again: mpsc::UnboundedSender<Vec<ShardId>>,
    pub(crate) reads: Reads,
    pub(crate) streams: Streams,
    pub(crate) hub: Arc<Hub>,
    pub(crate) answers: HashMap<Token, oneshot::Sender<Reply>>,
    pub(crate) commands_taken: u64,
    pub(crate) is_stopping: bool,
}

impl Driver {
    pub(crate) fn run(mut self) {
        loop {
            if !self.take_inputs() {
                return;
            }
            let now = (self.clock)();
            if !self.is_stopping {
                self.owner.tick(now);
            }
            self.perform();
            while self.owner.batches_in_flight() < self.batches_in_flight_max {
                let Some(batch) = self.owner.take_batch(now) else { break };
                let _ = self.batches.send(batch);
            }
            if self.is_stopping && self.owner.batches_in_flight() == 0 {
                return;
            }
        }
    }

    /// Waits for the first input or the next due moment. False when nobody can send any more.
    fn take_inputs(&mut self) -> bool {
        let now = (self.clock)();
        let wait = self.owner.next_wake().since(now).to_std();
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
        if self.is_stopping && !matches!(input, Input::Applied(_) | Input::Query(_)) {
            return;
        }
        match input {
            Input::Event(event) => {
                match &event {
                    Event::Submitted { jobs } => self.inbox.hints_taken(jobs.len()),
                    Event::WorkerDisconnected { worker, stream } => self.streams.disconnected(*worker, *stream),
                    _ => {}
                }
                self.owner.handle(event, now);
            }
            Input::Connected { event, worker, stream, sender } => {
                // What was decided for the former connection leaves before this one counts.
                self.perform();
                self.streams.connect(worker, stream, sender);
                self.owner.handle(event, now);
            }
            Input::Command { id, command, answer } => {
                self.commands_taken += 1;
                let token = Token(self.commands_taken);
                self.answers.insert(token, answer);
                self.owner.handle(Event::Command { token, id, command }, now);
            }
            Input::Applied(result) => self.applied(result),
            Input::InputsRead { worker, stream, assignments } => self.inputs_read(worker, stream, assignments),
            Input::Query(ask) => ask(&self.owner),
            Input::Stop => {
                // Nothing new is started. Workers keep what they cannot report here any more.
                self.is_stopping = true;
                self.streams.clear();
            }
        }
    }

    /// The assignments go out if they still stand; a cancel that came meanwhile follows them.
    fn inputs_read(&mut self, worker: WorkerId, stream: StreamId, assignments: Vec<(Assignment, Option<Bytes>)>) {
        let mut message = Outgoing::default();
        for (assignment, input) in assignments {
            let (id, attempt) = (assignment.key.id, assignment.attempt);
            let Some(view) = self.owner.running(id).filter(|view| view.attempt == attempt) else { continue };
            message.assignments.push(outgoing_assignment(assignment, input));
            if view.cancel_requested {
                message.cancels.push((id, attempt));
            }
        }
        self.streams.send_one(worker, stream, message);
    }

    fn applied(&mut self, result: Result<Applied, StoreError>) {
        let now = (self.clock)();
        match result {
            Ok(Applied::Done { void }) => self.owner.committed(&void, now),
            Ok(Applied::Fenced(lost)) => {
                tracing::warn!(shards = lost.len(), "shards were taken over by another server");
                self.owner.fenced(&lost, now);
            }
            Err(error) => {
                let shards = self.owner.unknown(now);
                tracing::error!(%error, shards = shards.len(), "a batch ended in doubt; taking its shards over anew");
                let _ = self.taken_again.send(shards);
            }
        }
    }

    fn perform(&mut self) {
        let effects = self.owner.take_effects();
        if effects.is_empty() {
            return;
        }
        for (worker, stream, assignments) in self.streams.send(effects.sends) {
            self.reads.inputs(worker, stream, assignments);
        }
        for worker in effects.disconnects {
            self.streams.cut(worker);
        }
        for load in effects.loads {
            self.reads.load(load);
        }
        for (token, id) in effects.lookups {
            self.reads.find(token, id);
        }
        for (token, reply) in effects.replies {
            if let Some(answer) = self.answers.remove(&token) {
                let _ = answer.send(reply);
            }
        }
        self.hub.publish(effects.changes);
    }
}

/// Hands batches to the store in order, and its answers back in the same order.
pub(crate) async fn commit(
    store: Arc<dyn Store>,
    mut batches: mpsc::UnboundedReceiver<SharedBatch>,
    inbox: Inbox,
    config: EngineConfig,
) {
    let mut in_flight = FuturesOrdered::new();
    loop {
        tokio::select! {
            biased;
            Some(result) = in_flight.next(), if !in_flight.is_empty() => {
                inbox.send(Input::Applied(result));
            }
            batch = batches.recv(), if in_flight.len() < config.batches_in_flight_max => {
                let Some(batch) = batch else { break };
                let store = Arc::clone(&store);
                in_flight.push_back(async move { store.apply(batch).await });
            }
        }
    }
    while let Some(result) = in_flight.next().await {
        inbox.send(Input::Applied(result));
    }
}
