//! Handles the messages of a server. Nothing here waits: when it returns, everything in the message is recorded.

use bytes::Bytes;
use punctual_core::attempt::AttemptNo;
use punctual_core::shard::GangKey;
use punctual_core::shard::event::{CreditKept, Demand};
use punctual_core::shard::write::Epoch;
use punctual_core::{ServerId, ShardId, Span};
use punctual_proto::ShortBytes;
use punctual_proto::convert::{BadMessage, job_id, read_attempt_ref, scheduled_run_from_wire, secrets_from_wire};
use punctual_proto::worker as wire;

use crate::attempts::{GivenSecrets, run_all};
use crate::held::{Key, PeerAddress, ReceivedAssignment, ServerGreeting};
use crate::link::ServerLink;

impl ServerLink {
    pub(crate) fn take_in(&mut self, message: wire::ServerMessage) {
        let (held, link) = (self.server.held.clone(), self.server.link);
        if let Some(welcome) = message.welcome {
            self.take_in_welcome(welcome);
        }
        if let Some(peers) = message.peers {
            held.announced(link, read_peers(peers));
        }
        if let Some(wire::CreditKept { told, bound }) = message.credit {
            held.credit_kept(link, CreditKept { told, bound });
        }
        if let Some(jobs) = message.demand {
            held.demanded(link, Demand { jobs, gang: GangKey::from_bytes(&message.demand_gang) });
        }
        if !message.invitations.is_empty() {
            held.invited(message.invitations.iter().filter_map(read_invitation));
        }
        let mut spooled = held.acked(keys(&message.acks));
        // Before the assignments, which may need the slots; and what is stopped in the same
        // breath as it is assigned never begins.
        let stopped: Vec<Key> = keys(&message.stops).collect();
        if !stopped.is_empty() {
            spooled.extend(held.stop(stopped.iter().copied()));
        }
        if !message.assignments.is_empty() {
            let tasks: Vec<_> = message.tasks.iter().map(|task| self.tasks.read(task)).collect();
            let mut short = ShortBytes::of_attempts();
            let assigned = message.assignments.into_iter().filter_map(|assignment| {
                read(assignment, &tasks, &mut short)
                    .inspect_err(|error| tracing::warn!(%error, "an assignment was ignored"))
                    .ok()
            });
            let assigned = assigned.filter(|assigned| !stopped.contains(&assigned.key)).collect();
            let attempts = held.register(link, assigned, self.log_bytes_max);
            // On a task of their own: whatever they do, the stream is read on.
            tokio::spawn(run_all(attempts, self.rules.clone(), held.clone()));
        }
        held.cancel(keys(&message.cancels));
        if let Some(spool) = &self.spool
            && !spooled.is_empty()
        {
            spool.forget(spooled);
        }
    }

    fn take_in_welcome(&mut self, welcome: wire::Welcome) {
        if welcome.log_bytes_max > 0 {
            self.log_bytes_max = welcome.log_bytes_max as usize;
        }
        self.server.heartbeat_every(welcome.heartbeat_ms);
        if let Some(peers) = welcome.peers {
            self.server.held.announced(self.server.link, read_peers(peers));
        }
    }
}

/// Reads a greeting. The error says why this worker cannot work with the server.
pub(crate) fn read_greeting(message: wire::ServerMessage) -> Result<ServerGreeting, &'static str> {
    let greeting = message.greeting.ok_or("the server's first message was not a greeting")?;
    let server = ServerId::from_bytes(&greeting.server_id).ok_or("the greeting does not say who the server is")?;
    let shard = |owned: &wire::ShardEpoch| match u16::try_from(owned.shard) {
        Ok(shard) if shard < ShardId::COUNT_MAX => Ok((ShardId(shard), Epoch(owned.epoch))),
        _ => Err("the greeting names a shard that there is not"),
    };
    let shards = greeting.shards.iter().map(shard).collect::<Result<_, _>>()?;
    Ok(ServerGreeting { server, acquired: greeting.acquired, shards })
}

fn read_peers(peers: wire::Peers) -> Vec<PeerAddress> {
    let read = |peer: wire::Peer| {
        let server = ServerId::from_bytes(&peer.server_id)?;
        Some(PeerAddress { server, address: peer.address.trim_end_matches('/').to_owned() })
    };
    peers.peers.into_iter().filter_map(read).collect()
}

fn read_invitation(invitation: &wire::Invitation) -> Option<(ServerId, Span)> {
    Some((ServerId::from_bytes(&invitation.server_id)?, Span::from_millis(invitation.for_ms.into())))
}

fn read(
    assignment: wire::Assignment,
    tasks: &[Result<std::sync::Arc<crate::tasks::RunnableTask>, String>],
    short: &mut ShortBytes,
) -> Result<ReceivedAssignment, BadMessage> {
    let key = (job_id(&assignment.job_id)?, AttemptNo(assignment.attempt));
    let task = match tasks.get(assignment.task as usize) {
        Some(task) => task.clone(),
        None => Err("the assignment came without its task".to_owned()),
    };
    Ok(ReceivedAssignment {
        key,
        epoch: Epoch(assignment.epoch),
        task,
        // Copies, or they would keep the whole message in memory while it runs.
        token: short.copy(&assignment.token),
        input: assignment.input.map(|input| Bytes::copy_from_slice(&input)),
        tracing_id: (!assignment.tracing_id.is_empty()).then_some(assignment.tracing_id),
        scheduled_run: assignment.scheduled_run.map(|run| scheduled_run_from_wire(*run)).transpose()?.map(Box::new),
        secrets: GivenSecrets {
            values: secrets_from_wire(assignment.secrets),
            unavailable: Some(assignment.secrets_unavailable).filter(|reason| !reason.is_empty()),
        },
    })
}

fn keys(refs: &[wire::AttemptRef]) -> impl Iterator<Item = Key> {
    refs.iter().filter_map(|attempt| {
        read_attempt_ref(attempt)
            .inspect_err(|error| tracing::warn!(%error, "a reference to an attempt was ignored"))
            .ok()
    })
}
