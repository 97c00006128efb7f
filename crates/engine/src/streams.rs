//! The connections of workers, and what goes out on them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use punctual_core::shard::event::{AssignedInput, Assignment, Send, StreamId};
use punctual_core::task::Task;
use punctual_core::{AttemptNo, JobId, JobKey, WorkerId};
use punctual_store::Store;
use tokio::sync::mpsc;

use crate::reads::retry;

/// One message for a worker: all that accumulated for it.
#[derive(Debug, Default)]
pub struct Outgoing {
    pub assignments: Vec<OutgoingAssignment>,
    pub acks: Vec<(JobId, AttemptNo)>,
    pub cancels: Vec<(JobId, AttemptNo)>,
    pub stops: Vec<(JobId, AttemptNo)>,
}

#[derive(Debug)]
pub struct OutgoingAssignment {
    pub id: JobId,
    pub attempt: AttemptNo,
    pub task: Arc<Task>,
    pub tracing_id: Option<String>,
    pub input: Option<Bytes>,
}

/// Unbounded, and still limited: assignments by the worker's credit, answers by
/// what it reported.
pub(crate) type OutgoingSender = mpsc::UnboundedSender<Outgoing>;

#[derive(Default)]
pub(crate) struct Streams(HashMap<WorkerId, (StreamId, OutgoingSender)>);

impl Streams {
    pub(crate) fn connect(&mut self, worker: WorkerId, stream: StreamId, sender: OutgoingSender) {
        let is_newer = self.0.get(&worker).is_none_or(|(known, _)| *known < stream);
        if is_newer {
            self.0.insert(worker, (stream, sender));
        }
    }

    /// Dropping the sender ends the stream; the worker connects again.
    pub(crate) fn cut(&mut self, worker: WorkerId) {
        self.0.remove(&worker);
    }

    pub(crate) fn disconnected(&mut self, worker: WorkerId, stream: StreamId) {
        if self.0.get(&worker).is_some_and(|(known, _)| *known == stream) {
            self.0.remove(&worker);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Sends everything in one message for each worker. What is meant for a former
    /// connection is dropped: the owner counts it as never received.
    pub(crate) fn send(&self, sends: Vec<(WorkerId, StreamId, Send)>, store: &Arc<dyn Store>) {
        let mut outgoing: HashMap<WorkerId, (Outgoing, Vec<Assignment>)> = HashMap::new();
        for (worker, stream, send) in sends {
            if self.0.get(&worker).is_none_or(|(known, _)| *known != stream) {
                continue;
            }
            let (message, unread) = outgoing.entry(worker).or_default();
            match send {
                Send::Assign(assignment) => match assignment.input {
                    AssignedInput::None => message.assignments.push(outgoing_assignment(assignment, None)),
                    AssignedInput::Inline(ref bytes) => {
                        let input = Some(bytes.clone());
                        message.assignments.push(outgoing_assignment(assignment, input));
                    }
                    AssignedInput::Stored => unread.push(assignment),
                },
                Send::Ack { id, attempt } => message.acks.push((id, attempt)),
                Send::Cancel { id, attempt } => message.cancels.push((id, attempt)),
                Send::Stop { id, attempt } => message.stops.push((id, attempt)),
            }
        }
        for (worker, (message, unread)) in outgoing {
            let (_, sender) = &self.0[&worker];
            let _ = sender.send(message);
            if !unread.is_empty() {
                tokio::spawn(send_with_inputs(Arc::clone(store), unread, sender.clone()));
            }
        }
    }
}

fn outgoing_assignment(assignment: Assignment, input: Option<Bytes>) -> OutgoingAssignment {
    OutgoingAssignment {
        id: assignment.key.id,
        attempt: assignment.attempt,
        task: assignment.task,
        tracing_id: assignment.tracing_id,
        input,
    }
}

/// Large inputs are read a few at a time, so that many of them do not fill the memory.
const INPUTS_AT_ONCE: usize = 16;

async fn send_with_inputs(store: Arc<dyn Store>, assignments: Vec<Assignment>, sender: OutgoingSender) {
    let mut assignments = assignments.into_iter().peekable();
    while assignments.peek().is_some() && !sender.is_closed() {
        let part: Vec<Assignment> = assignments.by_ref().take(INPUTS_AT_ONCE).collect();
        let keys: Vec<JobKey> = part.iter().map(|assignment| assignment.key).collect();
        let inputs = retry("read inputs", || store.inputs(keys.clone())).await;
        let pairs = part.into_iter().zip(inputs);
        let assignments = pairs.map(|(assignment, input)| outgoing_assignment(assignment, input)).collect();
        let _ = sender.send(Outgoing { assignments, ..Outgoing::default() });
    }
}
