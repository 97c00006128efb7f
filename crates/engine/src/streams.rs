//! The connections of workers, and what goes out on them.

use std::collections::HashMap;

use punctual_core::shard::event::{AssignedInput, Assignment, CreditKept, Demand, Send, StreamId};
use punctual_core::{AttemptNo, JobId, ServerId, WorkerId};

use crate::outgoing::{Full, OutgoingSender};

/// One message for a worker: all that accumulated for it.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Complete: an input that was in the store has been read.
    pub assignments: Vec<Assignment>,
    pub acks: Vec<(JobId, AttemptNo)>,
    pub cancels: Vec<(JobId, AttemptNo)>,
    pub stops: Vec<(JobId, AttemptNo)>,
    pub credit: Option<CreditKept>,
    pub demand: Option<Demand>,
    /// Servers that the worker should connect to as well.
    pub invitations: Vec<ServerId>,
}

impl Outgoing {
    /// Entries; a message counts as one at least.
    pub(crate) fn len(&self) -> usize {
        (self.assignments.len() + self.acks.len() + self.cancels.len() + self.stops.len()).max(1)
    }
}

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

    /// Sends everything in one message for each worker. What is meant for a former
    /// connection is dropped: the owner counts it as never received. Answers the assignments
    /// whose inputs or schedules have to be read first.
    pub(crate) fn send(
        &mut self,
        sends: Vec<(WorkerId, StreamId, Send)>,
    ) -> Vec<(WorkerId, StreamId, Vec<Assignment>)> {
        let mut outgoing: Vec<(WorkerId, StreamId, Outgoing, Vec<Assignment>)> = Vec::new();
        let mut places: HashMap<(WorkerId, StreamId), Option<usize>> = HashMap::new();
        // Neighbours mostly go to one worker, and are not looked up one by one.
        let mut last: Option<((WorkerId, StreamId), Option<usize>)> = None;
        for (worker, stream, send) in sends {
            let key = (worker, stream);
            let place = match last {
                Some((known, place)) if known == key => place,
                _ => *places.entry(key).or_insert_with(|| {
                    let is_open = self.0.get(&worker).is_some_and(|(known, _)| *known == stream);
                    is_open.then(|| {
                        outgoing.push((worker, stream, Outgoing::default(), Vec::new()));
                        outgoing.len() - 1
                    })
                }),
            };
            last = Some((key, place));
            let Some((_, _, message, unread)) = place.map(|place| &mut outgoing[place]) else { continue };
            match send {
                Send::Assign(assignment) if is_incomplete(&assignment) => unread.push(assignment),
                Send::Assign(assignment) => message.assignments.push(assignment),
                Send::Ack { id, attempt } => message.acks.push((id, attempt)),
                Send::Cancel { id, attempt } => message.cancels.push((id, attempt)),
                Send::Stop { id, attempt } => message.stops.push((id, attempt)),
                Send::Credit(kept) => message.credit = Some(kept),
                Send::Demand(demand) => message.demand = Some(demand),
            }
        }
        let mut to_read = Vec::new();
        for (worker, stream, message, unread) in outgoing {
            self.send_one(worker, stream, message);
            if !unread.is_empty() {
                to_read.push((worker, stream, unread));
            }
        }
        to_read
    }

    /// Sends one message on this connection, if it is still there.
    pub(crate) fn send_one(&mut self, worker: WorkerId, stream: StreamId, message: Outgoing) {
        let sender = self.0.get(&worker).filter(|(known, _)| *known == stream);
        if let Some((_, sender)) = sender
            && let Err(Full) = sender.send(message)
        {
            tracing::warn!(%worker, "a worker does not read what it is sent; cutting it off");
            self.cut(worker);
        }
    }
}

/// Whether something has to be read before it can be sent.
fn is_incomplete(assignment: &Assignment) -> bool {
    let lacks_schedule = assignment.origin.as_ref().is_some_and(|origin| origin.schedule.is_none());
    matches!(assignment.input, AssignedInput::Stored) || lacks_schedule
}
