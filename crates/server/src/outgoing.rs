//! The engine's messages for a worker, in the words of the protocol.

use std::borrow::Cow;

use bytes::Bytes;
use prost::Message;
use punctual_app::{ATTEMPT_TOKEN_BYTES, App, AttemptSecrets, AttemptTokens};
use punctual_core::id_map::IdMap;
use punctual_core::run::Command;
use punctual_core::shard::event::{Assignment, CreditKept};
use punctual_core::task::{Run, Task};
use punctual_core::{Span, TaskId};
use punctual_engine::Outgoing;
use punctual_proto::convert::{attempt_ref_in, id_bytes, scheduled_run_to_wire, secrets_to_wire};
use punctual_proto::worker as wire;
use punctual_proto::{BATCH_BYTES_MAX, ShortBytes};

use crate::grpc::to_millis;

/// What an entry costs beside its payload.
const ENTRY_BYTES: usize = 64;

/// A worker connects at once, and what it is needed for begins soon after.
const INVITED_FOR: Span = Span::from_secs(30);

/// Gathers entries into messages of bounded size.
pub(crate) struct Messages<'t> {
    tokens: &'t AttemptTokens,
    done: Vec<wire::ServerMessage>,
    current: wire::ServerMessage,
    bytes: usize,
    /// Places of the tasks in the current message.
    places: IdMap<(TaskId, u32), u32>,
    short: ShortBytes,
    secrets: &'t TaskSecrets,
}

/// The secrets of tasks that refer to some, by task and revision.
pub(crate) type TaskSecrets = IdMap<(TaskId, u32), AttemptSecrets>;

impl<'t> Messages<'t> {
    pub(crate) fn new(tokens: &'t AttemptTokens, secrets: &'t TaskSecrets) -> Self {
        let current = wire::ServerMessage::default();
        let short = ShortBytes::of_a_message();
        Self { tokens, done: Vec::new(), current, bytes: 0, places: IdMap::default(), short, secrets }
    }

    pub(crate) fn add(&mut self, outgoing: Outgoing) {
        if let Some(CreditKept { told, bound }) = outgoing.credit {
            self.make_room(ENTRY_BYTES);
            self.current.credit = Some(wire::CreditKept { told, bound });
        }
        if let Some(demand) = outgoing.demand {
            self.make_room(ENTRY_BYTES);
            self.current.demand = Some(demand.jobs);
            self.current.demand_gang = demand.gang.map(|gang| gang.to_bytes().to_vec().into()).unwrap_or_default();
        }
        for server in outgoing.invitations {
            self.make_room(ENTRY_BYTES);
            let for_ms = to_millis(INVITED_FOR);
            self.current.invitations.push(wire::Invitation { server_id: id_bytes(server.to_bytes()), for_ms });
        }
        for (id, attempt) in outgoing.acks {
            self.make_room(ENTRY_BYTES);
            self.current.acks.push(attempt_ref_in(id, attempt, &mut self.short));
        }
        for (id, attempt) in outgoing.cancels {
            self.make_room(ENTRY_BYTES);
            self.current.cancels.push(attempt_ref_in(id, attempt, &mut self.short));
        }
        for (id, attempt) in outgoing.stops {
            self.make_room(ENTRY_BYTES);
            self.current.stops.push(attempt_ref_in(id, attempt, &mut self.short));
        }
        for assignment in outgoing.assignments {
            self.assign(assignment);
        }
    }

    fn assign(&mut self, assignment: Assignment) {
        let (id, attempt) = (assignment.key.id, assignment.attempt);
        let input = assignment.input.into_bytes();
        let tracing_id = assignment.tracing_id.unwrap_or_default();
        let scheduled_run = assignment.origin.map(|origin| Box::new(scheduled_run_to_wire(origin.scheduled_run())));
        let run_bytes = scheduled_run.as_deref().map_or(0, Message::encoded_len);
        let payload = input.as_ref().map_or(0, Bytes::len) + tracing_id.len() + run_bytes + ATTEMPT_TOKEN_BYTES;
        let secrets = self.secrets.get(&(assignment.task.id, assignment.task.revision));
        let (secrets, secrets_unavailable) = secrets_to_send(secrets);
        let secret_bytes: usize = secrets.iter().map(Message::encoded_len).sum();
        self.make_room(ENTRY_BYTES + payload + secret_bytes + secrets_unavailable.len());
        let task = self.place_of(&assignment.task);
        self.current.assignments.push(wire::Assignment {
            job_id: self.short.copy(&id.to_bytes()),
            attempt: attempt.0,
            task,
            input,
            tracing_id,
            epoch: assignment.epoch.0,
            scheduled_run,
            secrets,
            secrets_unavailable,
            token: self.short.copy(&self.tokens.token(id, attempt)),
        });
    }

    fn place_of(&mut self, task: &Task) -> u32 {
        if let Some(&place) = self.places.get(&(task.id, task.revision)) {
            return place;
        }
        let run = Bytes::from(serde_json::to_vec(&*for_worker(&task.spec.run)).expect("a task is JSON"));
        self.bytes += ENTRY_BYTES + run.len();
        let place = self.current.tasks.len() as u32;
        self.current.tasks.push(wire::TaskDefinition {
            task_id: id_bytes(task.id.to_bytes()),
            revision: task.revision,
            name: task.name.clone().unwrap_or_default(),
            run,
            timeout_us: task.spec.timeout.as_micros().unsigned_abs(),
            namespace: task.namespace.0,
        });
        self.places.insert((task.id, task.revision), place);
        place
    }

    fn make_room(&mut self, bytes: usize) {
        if self.bytes > 0 && self.bytes + bytes > BATCH_BYTES_MAX {
            self.done.push(std::mem::take(&mut self.current));
            self.places.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
    }

    pub(crate) fn into_messages(mut self) -> Vec<wire::ServerMessage> {
        if self.bytes > 0 {
            self.done.push(self.current);
        }
        self.done
    }
}

pub(crate) fn secrets_to_send(secrets: Option<&AttemptSecrets>) -> (Vec<wire::Secret>, String) {
    let Some(AttemptSecrets { values, unavailable }) = secrets else { return (Vec::new(), String::new()) };
    (secrets_to_wire(values), unavailable.clone().unwrap_or_default())
}

/// Beyond this many tasks the memory starts anew.
const SEEN_TASKS_MAX: usize = 1024;

/// Which tasks refer to secrets: nearly none do, and the others must cost nothing.
#[derive(Default)]
pub(crate) struct SeenTasks(IdMap<(TaskId, u32), bool>);

impl SeenTasks {
    fn refers_to_secrets(&mut self, task: &Task) -> bool {
        if self.0.len() >= SEEN_TASKS_MAX {
            self.0.clear();
        }
        *self.0.entry((task.id, task.revision)).or_insert_with(|| !task.spec.run.secrets().is_empty())
    }

    /// The secrets of the assignments, whose starts are durable. Waits for the store only where a task refers to some.
    pub(crate) async fn secrets(&mut self, app: &App, batch: &[Outgoing]) -> TaskSecrets {
        let mut secrets = TaskSecrets::default();
        for assignment in batch.iter().flat_map(|outgoing| &outgoing.assignments) {
            let task = &assignment.task;
            if self.refers_to_secrets(task) && !secrets.contains_key(&(task.id, task.revision)) {
                secrets.insert((task.id, task.revision), app.attempt_secrets(task.namespace, &task.spec.run).await);
            }
        }
        secrets
    }
}

/// Without what is for people alone: workers of an earlier version refuse a field that they do not know.
fn for_worker(run: &Run) -> Cow<'_, Run> {
    match run {
        Run::Command(command) if command.name.is_some() => {
            Cow::Owned(Run::Command(Command { name: None, ..command.clone() }))
        }
        run => Cow::Borrowed(run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_not_sent_what_lists_call_a_command() {
        let script = Run::Command(Command { name: Some("sc.sh".to_owned()), ..Command::new("date") });
        assert_eq!(*for_worker(&script), Run::Command(Command::new("date")));
    }
}
