//! Asks the other servers of the cluster.
//!
//! One connection to each, made when it is first needed and made again by itself. Every
//! question has a time limit and a proof that we belong to the cluster; an answer without
//! its own proof is no answer.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual_app::{ClusterKeys, InvitedWorkers, Peer, PeerChanges, PeerError, Peers, Pulse, WorkersThere};
use punctual_core::namespace::NamespaceId;
use punctual_core::queue::QueueLoad;
use punctual_core::shard::{AgentAsk, Answer, Ask, WorkersWanted};
use punctual_core::{JobId, JobRow, ServerId, ShardId, Span, TaskId};
use punctual_engine::{Clock, Runs};
use punctual_proto::convert::{BadMessage, id_bytes};
use punctual_proto::peer as wire;
use punctual_proto::peer::peer_client::PeerClient;
use tokio::runtime::Handle;
use tonic::{Request, Response, Status};

use crate::link::Link;
use crate::signed::{Asker, SignedChannel};
use crate::tls::PeerTls;
use crate::{ask, convert, watch};

/// A commit of the owner, on a busy store.
const ASK_LIMIT: Duration = Duration::from_secs(5);
/// Many commits. As long as a peer tries; clients wait longer.
const MANY_ASKS_LIMIT: Duration = Duration::from_secs(25);
const MANY_ASKS: usize = 100;
/// What an owner answers out of its memory.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
/// On top of the time that a peer was asked to wait.
const WAIT_GRACE: Duration = Duration::from_secs(2);
/// Ids of running jobs in one answer: 64 bytes each.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// The connections to all peers.
pub struct GrpcPeers {
    key: ClusterKeys,
    clock: Clock,
    server: ServerId,
    tls: Option<PeerTls>,
    asked: Arc<AtomicU64>,
    links: Mutex<HashMap<ServerId, Arc<Link>>>,
    /// Where connections live, whoever asks first.
    runtime: Option<Handle>,
}

impl GrpcPeers {
    /// `server` is who asks, and `clock` the store's. Peers on other machines are asked over TLS alone.
    pub fn new(key: ClusterKeys, clock: Clock, server: ServerId, tls: Option<PeerTls>) -> Self {
        let runtime = Handle::try_current().ok();
        Self { key, clock, server, tls, asked: Arc::default(), links: Mutex::default(), runtime }
    }

    fn asker(&self, peer: &Peer) -> Asker {
        let (key, clock) = (self.key.clone(), Arc::clone(&self.clock));
        Asker { key, clock, from: self.server, to: peer.id, asked: Arc::clone(&self.asked) }
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
        let link = Link::new(peer, self.asker(peer), self.tls.as_ref()).map_err(|reason| failed(peer, reason))?;
        let link = Arc::new(link);
        links.insert(peer.id, Arc::clone(&link));
        Ok(link)
    }

    async fn call<Q, A, F>(
        &self,
        peer: &Peer,
        limit: Duration,
        question: Q,
        call: impl FnOnce(PeerClient<SignedChannel>, Request<Q>) -> F,
    ) -> Result<A, PeerError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let link = self.link(peer)?;
        let answer = link.ask(limit, question, call).await.map_err(|reason| failed(peer, reason))?;
        Ok(answer)
    }
}

/// Whether the owner answers out of its memory.
fn is_look(ask: &Ask) -> bool {
    match ask {
        Ask::Agent { ask: AgentAsk::Work | AgentAsk::Alive { .. }, .. } | Ask::Gang { .. } => true,
        Ask::Agent { ask: AgentAsk::Ended(_), .. } | Ask::Job { .. } | Ask::Schedule { .. } => false,
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
    async fn ask(&self, peer: &Peer, asks: Vec<Ask>) -> Result<Vec<Answer>, PeerError> {
        let is_look = asks.iter().all(is_look);
        let mut answers = Vec::with_capacity(asks.len());
        for request in ask::requests(asks) {
            let count = request.asks.len();
            let limit = match count {
                _ if is_look => LOOK_LIMIT,
                0..=MANY_ASKS => ASK_LIMIT,
                _ => MANY_ASKS_LIMIT,
            };
            let reply = self.call(peer, limit, request, |mut client, request| async move { client.ask(request).await });
            let given = reply.await?.answers;
            if given.len() != count {
                return Err(failed(peer, format!("{} answers to {count} questions", given.len())));
            }
            for answer in given {
                answers.push(ask::answer_from_wire(answer).map_err(bad(peer))?);
            }
        }
        Ok(answers)
    }

    fn hint(&self, peer: &Peer, jobs: Vec<JobRow>) {
        if let Ok(link) = self.link(peer) {
            link.hints.send(jobs);
        }
    }

    async fn running(&self, peer: &Peer, ids: Vec<JobId>) -> Result<Runs, PeerError> {
        let request = wire::RunningRequest { job_ids: ids.iter().map(|id| id_bytes(id.to_bytes())).collect() };
        let reply =
            self.call(peer, LOOK_LIMIT, request, |mut client, request| async move { client.running(request).await });
        let wire::RunningReply { attempts, owned_shards } = reply.await?;
        let attempts = attempts.iter().map(convert::running_from_wire).collect::<Result<_, _>>().map_err(bad(peer))?;
        let owned = owned_shards.into_iter().filter_map(|shard| Some(ShardId(u16::try_from(shard).ok()?))).collect();
        Ok(Runs { attempts, owned })
    }

    async fn finished(&self, peer: &Peer, id: JobId, limit: Duration) -> Result<bool, PeerError> {
        let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        let request = wire::AwaitRequest { job_id: id_bytes(id.to_bytes()), limit_ms };
        let limit = limit.saturating_add(WAIT_GRACE);
        let reply = self.call(peer, limit, request, |mut client, request| async move { client.r#await(request).await });
        Ok(reply.await?.is_finished)
    }

    async fn watch(&self, peer: &Peer) -> Result<PeerChanges, PeerError> {
        let request = wire::WatchRequest {};
        let stream =
            self.call(peer, LOOK_LIMIT, request, |mut client, request| async move { client.watch(request).await });
        watch::changes(stream.await?, LOOK_LIMIT).await.map_err(|reason| failed(peer, reason))
    }

    async fn task_changed(&self, peer: &Peer, id: TaskId, namespace: NamespaceId, name: &str) -> Result<(), PeerError> {
        let task_id = id_bytes(id.to_bytes());
        let request = wire::TaskChangedRequest { task_id, name: name.to_owned(), namespace: namespace.0 };
        let reply = self
            .call(peer, LOOK_LIMIT, request, |mut client, request| async move { client.task_changed(request).await });
        reply.await.map(drop)
    }

    async fn queues_changed(&self, peer: &Peer) -> Result<bool, PeerError> {
        let request = wire::QueuesChangedRequest {};
        let reply = self
            .call(peer, LOOK_LIMIT, request, |mut client, request| async move { client.queues_changed(request).await });
        Ok(reply.await?.is_settled)
    }

    async fn queue_loads(&self, peer: &Peer, namespace: NamespaceId) -> Result<Vec<QueueLoad>, PeerError> {
        let request = wire::QueueLoadsRequest { namespace: namespace.0 };
        let reply = self
            .call(peer, LOOK_LIMIT, request, |mut client, request| async move { client.queue_loads(request).await });
        let loads = reply.await?.loads.into_iter();
        Ok(loads.map(|load| convert::queue_load_from_wire(namespace, load)).collect())
    }

    async fn workers(&self, peer: &Peer) -> Result<WorkersThere, PeerError> {
        let request = wire::WorkersRequest {};
        let reply =
            self.call(peer, LOOK_LIMIT, request, |mut client, request| async move { client.workers(request).await });
        let wire::WorkersReply { workers, requests } = reply.await?;
        let known = workers.into_iter().map(convert::worker_from_wire).collect::<Result<_, _>>().map_err(bad(peer))?;
        let requests =
            requests.into_iter().map(convert::request_from_wire).collect::<Result<_, _>>().map_err(bad(peer))?;
        Ok(WorkersThere { known, requests })
    }

    async fn invite_workers(
        &self,
        peer: &Peer,
        wanted: &WorkersWanted,
        turn: u64,
    ) -> Result<InvitedWorkers, PeerError> {
        let request = convert::wanted_to_wire(wanted, turn);
        let reply = self
            .call(peer, LOOK_LIMIT, request, |mut client, request| async move { client.invite_workers(request).await });
        convert::invited_from_wire(reply.await?).map_err(bad(peer))
    }

    async fn pulse(&self, peer: &Peer) -> Result<Pulse, PeerError> {
        let request = wire::StatsRequest {};
        let reply =
            self.call(peer, LOOK_LIMIT, request, |mut client, request| async move { client.stats(request).await });
        let wire::StatsReply { workers, running, lag, skew: skew_us } = reply.await?;
        Ok(Pulse { workers, running, lag: Span::from_micros(lag), skew_us })
    }

    async fn leaving(&self, peer: &Peer) -> Result<(), PeerError> {
        let request = wire::LeavingRequest {};
        let reply =
            self.call(peer, LOOK_LIMIT, request, |mut client, request| async move { client.leaving(request).await });
        reply.await.map(drop)
    }
}
