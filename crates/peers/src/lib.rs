//! Asks the other servers of the cluster, over gRPC.
//!
//! One connection to each, made when it is first needed and made again by itself. Every
//! question has a time limit and a proof that we belong to the cluster; an answer without
//! its own proof is no answer. Decides nothing and remembers nothing but connections.

mod agent;
mod hints;
mod link;
mod schedules;
mod watch;

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual_app::{
    AgentAnswer, AgentAsks, PEER_HEADER, Peer, PeerChanges, PeerError, PeerKey, Peers, Pulse, Question,
};
use punctual_core::schedule::{ScheduleCommand, ScheduleReply};
use punctual_core::shard::WorkerStatus;
use punctual_core::shard::event::{Command, Reply, WorkerSpec};
use punctual_core::{AttemptNo, JobId, JobRow, ScheduleId, ServerId, ShardId, Span, TaskId};
use punctual_engine::{Runs, WorkerInfo};
use punctual_proto::convert::{BadMessage, id_bytes};
use punctual_proto::peer as wire;
use punctual_proto::peer::peer_client::PeerClient;
use punctual_proto::{peer_convert as convert, schedule_convert};
use tokio::runtime::Handle;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::link::Link;

/// A commit of the owner, on a busy store.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);
/// The commits of many schedules. As long as a peer tries; clients wait longer.
const SCHEDULES_LIMIT: Duration = Duration::from_secs(25);
const MANY_SCHEDULES: usize = 100;
/// What an owner answers out of its memory.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
/// On top of the time that a peer was asked to wait.
const WAIT_GRACE: Duration = Duration::from_secs(2);
/// Ids of running jobs in one answer: 64 bytes each.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The connections to all peers.
pub struct GrpcPeers {
    key: PeerKey,
    server: ServerId,
    asked: Arc<AtomicU64>,
    links: Mutex<HashMap<ServerId, Arc<Link>>>,
    /// Where connections live, whoever asks first.
    runtime: Option<Handle>,
}

impl GrpcPeers {
    /// `server` is who asks.
    pub fn new(key: PeerKey, server: ServerId) -> Self {
        Self { key, server, asked: Arc::default(), links: Mutex::default(), runtime: Handle::try_current().ok() }
    }

    fn asker(&self, peer: &Peer) -> Asker {
        Asker { key: self.key.clone(), from: self.server, to: peer.id, asked: Arc::clone(&self.asked) }
    }

    /// The connection to a peer; a new one is not open yet.
    fn link(&self, peer: &Peer) -> Result<Arc<Link>, PeerError> {
        let mut links = self.links.lock().expect("no panic while the lock is held");
        if let Some(link) = links.get(&peer.id) {
            link.used();
            return Ok(Arc::clone(link));
        }
        // Every start of a server is a new peer; those that are gone are not asked any more.
        links.retain(|_, link| link.is_in_use());
        let _entered = self.runtime.as_ref().map(Handle::enter);
        let link = Link::new(peer, self.asker(peer)).map_err(|reason| failed(peer, reason))?;
        let link = Arc::new(link);
        links.insert(peer.id, Arc::clone(&link));
        Ok(link)
    }

    async fn ask<Q, A, F>(
        &self,
        peer: &Peer,
        limit: Duration,
        question: Q,
        call: impl FnOnce(PeerClient<Channel>, Request<Q>) -> F,
    ) -> Result<A, PeerError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let link = self.link(peer)?;
        let answer = link.ask(limit, question, call).await.map_err(|reason| failed(peer, reason))?;
        Ok(answer)
    }
}

/// Signs questions to one peer, and knows its answers.
#[derive(Clone)]
pub(crate) struct Asker {
    key: PeerKey,
    from: ServerId,
    to: ServerId,
    asked: Arc<AtomicU64>,
}

impl Asker {
    fn sign<Q>(&self, question: Q) -> (Request<Q>, Question) {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let asked = Question { from: self.from, to: self.to, number };
        let mut request = Request::new(question);
        let proof = self.key.ask(asked).parse().expect("hexadecimal digits are ASCII");
        request.metadata_mut().insert(PEER_HEADER, proof);
        (request, asked)
    }

    fn check<A>(&self, response: Response<A>, asked: Question) -> Result<A, String> {
        let proof = response.metadata().get(PEER_HEADER).and_then(|proof| proof.to_str().ok());
        if proof.is_some_and(|proof| self.key.answered(proof, asked)) {
            return Ok(response.into_inner());
        }
        Err("something else answers at its address".to_owned())
    }
}

fn failed(peer: &Peer, reason: String) -> PeerError {
    PeerError { peer: peer.id, reason }
}

fn bad(peer: &Peer) -> impl Fn(BadMessage) -> PeerError {
    |error| failed(peer, error.to_string())
}

#[async_trait]
impl Peers for GrpcPeers {
    async fn command(&self, peer: &Peer, id: JobId, command: Command) -> Result<Reply, PeerError> {
        let (command, next_attempt) = convert::command_to_wire(command);
        let request = wire::CommandRequest { job_id: id_bytes(id.to_bytes()), command: command.into(), next_attempt };
        let reply =
            self.ask(peer, COMMAND_LIMIT, request, |mut client, request| async move { client.command(request).await });
        convert::reply_from_wire(&reply.await?).map_err(bad(peer))
    }

    async fn schedules(
        &self,
        peer: &Peer,
        commands: Vec<(ScheduleId, ScheduleCommand)>,
        who: &str,
    ) -> Result<Vec<ScheduleReply>, PeerError> {
        let mut replies = Vec::with_capacity(commands.len());
        for part in schedules::parts(commands, who) {
            let count = part.commands.len();
            let limit = if count > MANY_SCHEDULES { SCHEDULES_LIMIT } else { COMMAND_LIMIT };
            let reply =
                self.ask(peer, limit, part, |mut client, request| async move { client.schedules(request).await });
            let part = schedule_convert::replies_from_wire(&reply.await?).map_err(bad(peer))?;
            if part.len() != count {
                return Err(failed(peer, format!("{} replies to {count} commands", part.len())));
            }
            replies.extend(part);
        }
        Ok(replies)
    }

    fn hint(&self, peer: &Peer, jobs: Vec<JobRow>) {
        if let Ok(link) = self.link(peer) {
            link.hints.send(jobs);
        }
    }

    async fn running(&self, peer: &Peer, ids: Vec<JobId>) -> Result<Runs, PeerError> {
        let request = wire::RunningRequest { job_ids: ids.iter().map(|id| id_bytes(id.to_bytes())).collect() };
        let reply =
            self.ask(peer, LOOK_LIMIT, request, |mut client, request| async move { client.running(request).await });
        let wire::RunningReply { attempts, owned_shards } = reply.await?;
        let attempts = attempts.iter().map(convert::running_from_wire).collect::<Result<_, _>>().map_err(bad(peer))?;
        let owned = owned_shards.into_iter().filter_map(|shard| Some(ShardId(u16::try_from(shard).ok()?))).collect();
        Ok(Runs { attempts, owned })
    }

    async fn finished(&self, peer: &Peer, id: JobId, limit: Duration) -> Result<bool, PeerError> {
        let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        let request = wire::AwaitRequest { job_id: id_bytes(id.to_bytes()), limit_ms };
        let limit = limit.saturating_add(WAIT_GRACE);
        let reply = self.ask(peer, limit, request, |mut client, request| async move { client.r#await(request).await });
        Ok(reply.await?.is_finished)
    }

    async fn watch(&self, peer: &Peer) -> Result<PeerChanges, PeerError> {
        let request = wire::WatchRequest {};
        let stream =
            self.ask(peer, LOOK_LIMIT, request, |mut client, request| async move { client.watch(request).await });
        watch::changes(stream.await?, LOOK_LIMIT).await.map_err(|reason| failed(peer, reason))
    }

    async fn task_changed(&self, peer: &Peer, id: TaskId, name: &str) -> Result<(), PeerError> {
        let request = wire::TaskChangedRequest { task_id: id_bytes(id.to_bytes()), name: name.to_owned() };
        let reply = self
            .ask(peer, LOOK_LIMIT, request, |mut client, request| async move { client.task_changed(request).await });
        reply.await.map(drop)
    }

    async fn workers(&self, peer: &Peer) -> Result<Vec<(WorkerStatus, WorkerInfo)>, PeerError> {
        let request = wire::WorkersRequest {};
        let reply =
            self.ask(peer, LOOK_LIMIT, request, |mut client, request| async move { client.workers(request).await });
        reply.await?.workers.into_iter().map(worker).collect::<Result<_, _>>().map_err(bad(peer))
    }

    async fn pulse(&self, peer: &Peer) -> Result<Pulse, PeerError> {
        let request = wire::StatsRequest {};
        let reply =
            self.ask(peer, LOOK_LIMIT, request, |mut client, request| async move { client.stats(request).await });
        let wire::StatsReply { workers, running, lag, skew: skew_us } = reply.await?;
        Ok(Pulse { workers, running, lag: Span::from_micros(lag), skew_us })
    }

    async fn agent(
        &self,
        peer: &Peer,
        job: JobId,
        attempt: AttemptNo,
        asks: AgentAsks,
    ) -> Result<AgentAnswer, PeerError> {
        let limit = if matches!(asks, AgentAsks::Ended(_)) { COMMAND_LIMIT } else { LOOK_LIMIT };
        let request = agent::request(job, attempt, asks);
        let reply = self.ask(peer, limit, request, |mut client, request| async move { client.agent(request).await });
        agent::answer(reply.await?).map_err(bad(peer))
    }

    async fn leaving(&self, peer: &Peer) -> Result<(), PeerError> {
        let request = wire::LeavingRequest {};
        let reply =
            self.ask(peer, LOOK_LIMIT, request, |mut client, request| async move { client.leaving(request).await });
        reply.await.map(drop)
    }
}

fn worker(worker: wire::WorkerInfo) -> Result<(WorkerStatus, WorkerInfo), BadMessage> {
    let status = WorkerStatus {
        id: convert::worker_id(&worker.worker_id)?,
        is_connected: worker.is_connected,
        credit: worker.credit,
        running: worker.running,
        seen_at: convert::time(worker.seen_at)?,
    };
    let spec = WorkerSpec {
        queues: worker.queues,
        capabilities: worker.capabilities,
        labels: worker.labels.into_iter().collect(),
        credit: worker.credit,
    };
    let host = Some(worker.host).filter(|host| !host.is_empty());
    let info = WorkerInfo { name: worker.name, host, version: worker.version, spec, commands_as: worker.commands_as };
    Ok((status, info))
}
