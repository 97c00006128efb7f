//! Takes in what a server says. Nothing here waits: when it returns, all of a message is on
//! record.

use bytes::Bytes;
use punctual_core::attempt::AttemptNo;
use punctual_proto::convert::{BadMessage, job_id, read_attempt_ref};
use punctual_proto::worker as wire;

use crate::attempts::run_all;
use crate::ledger::{Assigned, Key};
use crate::link::Link;

impl Link {
    pub(crate) fn take_in(&mut self, message: wire::ServerMessage) {
        if let Some(welcome) = message.welcome {
            self.take_in_welcome(&welcome);
        }
        let ledger = &self.server.ledger;
        let mut spooled = ledger.acked(keys(&message.acks));
        if !message.assignments.is_empty() {
            let tasks: Vec<_> = message.tasks.iter().map(|task| self.tasks.read(task)).collect();
            let assigned = message.assignments.into_iter().filter_map(|assignment| {
                read(assignment, &tasks).inspect_err(|error| tracing::warn!(%error, "an assignment was ignored")).ok()
            });
            let attempts = ledger.register(assigned.collect(), self.log_bytes_max);
            // On a task of their own: whatever they do, the stream is read on.
            tokio::spawn(run_all(attempts, self.rules, ledger.clone()));
        }
        ledger.cancel(keys(&message.cancels));
        if !message.stops.is_empty() {
            spooled.extend(ledger.stop(keys(&message.stops)));
        }
        if let Some(spool) = &self.spool
            && !spooled.is_empty()
        {
            spool.forget(spooled);
        }
    }

    fn take_in_welcome(&mut self, welcome: &wire::Welcome) {
        if welcome.log_bytes_max > 0 {
            self.log_bytes_max = welcome.log_bytes_max as usize;
        }
        self.server.heartbeat_every(welcome.heartbeat_ms);
    }
}

fn read(
    assignment: wire::Assignment,
    tasks: &[Result<std::sync::Arc<crate::tasks::RunnableTask>, String>],
) -> Result<Assigned, BadMessage> {
    let key = (job_id(&assignment.job_id)?, AttemptNo(assignment.attempt));
    let task = match tasks.get(assignment.task as usize) {
        Some(task) => task.clone(),
        None => Err("the assignment came without its task".to_owned()),
    };
    Ok(Assigned {
        key,
        task,
        // A copy, or a small input would keep the whole message in memory while it runs.
        input: assignment.input.map(|input| Bytes::copy_from_slice(&input)),
        tracing_id: (!assignment.tracing_id.is_empty()).then_some(assignment.tracing_id),
    })
}

fn keys(refs: &[wire::AttemptRef]) -> impl Iterator<Item = Key> {
    refs.iter().filter_map(|attempt| {
        read_attempt_ref(attempt)
            .inspect_err(|error| tracing::warn!(%error, "a reference to an attempt was ignored"))
            .ok()
    })
}
