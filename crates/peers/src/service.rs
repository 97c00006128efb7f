//! Answers the other servers of the cluster.

use punctual_core::namespace::NamespaceId;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::Stream;
use punctual_app::{App, AppError, PEER_HEADER, Question, Throttle, WorkersThere};
use punctual_proto::MESSAGE_BYTES_MAX;
use punctual_proto::convert::{BadMessage, job_id};
use punctual_proto::peer as wire;
use punctual_proto::peer::peer_server::{Peer, PeerServer};
use tonic::{Request, Response, Status};

use crate::{ask, convert, watch};

/// An outage fails every call, and one line in so many seconds says so.
static OUTAGES: Throttle = Throttle::new(Duration::from_secs(10));

pub fn service(app: App) -> PeerServer<PeerService> {
    PeerServer::new(PeerService { app }).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

#[derive(Clone)]
pub struct PeerService {
    app: App,
}

type Replies = Pin<Box<dyn Stream<Item = Result<wire::WatchReply, Status>> + Send>>;

impl PeerService {
    /// The question that [`crate::checked`] has found to be a peer's.
    fn known<T>(&self, request: &Request<T>) -> Result<Question, Status> {
        let question = request.extensions().get::<Question>().copied();
        question.ok_or_else(|| Status::unauthenticated("this is for servers of the same cluster"))
    }

    /// The answer, with the proof that it is ours.
    fn answer<T>(&self, asked: Question, message: T) -> Response<T> {
        let mut response = Response::new(message);
        let proof = self.app.cluster_keys().answer(asked).parse().expect("hexadecimal digits are ASCII");
        response.metadata_mut().insert(PEER_HEADER, proof);
        response
    }
}

#[tonic::async_trait]
impl Peer for PeerService {
    async fn ask(&self, request: Request<wire::AskRequest>) -> Result<Response<wire::AskReply>, Status> {
        let asked = self.known(&request)?;
        let asks = request.into_inner().asks.into_iter().map(ask::ask_from_wire);
        let asks = asks.collect::<Result<_, _>>().map_err(bad)?;
        let answers = self.app.ask_here(asks).await.map_err(refused)?;
        Ok(self.answer(asked, wire::AskReply { answers: answers.into_iter().map(ask::answer_to_wire).collect() }))
    }

    async fn hint(&self, request: Request<wire::HintRequest>) -> Result<Response<wire::HintReply>, Status> {
        let asked = self.known(&request)?;
        let rows = request.into_inner().jobs.into_iter().map(convert::hint_from_wire);
        let rows = rows.collect::<Result<_, _>>().map_err(bad)?;
        self.app.peer_hint(rows).await.map_err(refused)?;
        Ok(self.answer(asked, wire::HintReply {}))
    }

    async fn running(&self, request: Request<wire::RunningRequest>) -> Result<Response<wire::RunningReply>, Status> {
        let asked = self.known(&request)?;
        let ids = request.into_inner().job_ids.iter().map(|id| job_id(id)).collect::<Result<_, _>>().map_err(bad)?;
        let runs = self.app.runs_here(ids).await.map_err(refused)?;
        let reply = wire::RunningReply {
            attempts: runs.attempts.iter().map(convert::running_to_wire).collect(),
            owned_shards: runs.owned.iter().map(|shard| u32::from(shard.0)).collect(),
        };
        Ok(self.answer(asked, reply))
    }

    async fn r#await(&self, request: Request<wire::AwaitRequest>) -> Result<Response<wire::AwaitReply>, Status> {
        let asked = self.known(&request)?;
        let wire::AwaitRequest { job_id: id, limit_ms } = request.into_inner();
        let id = job_id(&id).map_err(bad)?;
        let is_finished = self.app.peer_await(id, Duration::from_millis(limit_ms.into())).await.map_err(refused)?;
        Ok(self.answer(asked, wire::AwaitReply { is_finished }))
    }

    type WatchStream = Replies;

    async fn watch(&self, request: Request<wire::WatchRequest>) -> Result<Response<Replies>, Status> {
        let asked = self.known(&request)?;
        let replies = watch::replies(self.app.changes_here());
        Ok(self.answer(asked, Box::pin(replies)))
    }

    async fn task_changed(
        &self,
        request: Request<wire::TaskChangedRequest>,
    ) -> Result<Response<wire::TaskChangedReply>, Status> {
        let asked = self.known(&request)?;
        let wire::TaskChangedRequest { task_id, name, namespace } = request.into_inner();
        let id = convert::task_id(&task_id).map_err(bad)?;
        self.app.peer_task_changed(id, NamespaceId(namespace), &name).await.map_err(refused)?;
        Ok(self.answer(asked, wire::TaskChangedReply {}))
    }

    async fn queues_changed(
        &self,
        request: Request<wire::QueuesChangedRequest>,
    ) -> Result<Response<wire::QueuesChangedReply>, Status> {
        let asked = self.known(&request)?;
        let is_settled = self.app.apply_queues_here().await.map_err(refused)?;
        Ok(self.answer(asked, wire::QueuesChangedReply { is_settled }))
    }

    async fn queue_loads(
        &self,
        request: Request<wire::QueueLoadsRequest>,
    ) -> Result<Response<wire::QueueLoadsReply>, Status> {
        let asked = self.known(&request)?;
        let namespace = NamespaceId(request.into_inner().namespace);
        let loads = self.app.queue_loads_here(namespace).await.map_err(refused)?;
        Ok(self.answer(
            asked,
            wire::QueueLoadsReply { loads: loads.into_iter().map(convert::queue_load_to_wire).collect() },
        ))
    }

    async fn workers(&self, request: Request<wire::WorkersRequest>) -> Result<Response<wire::WorkersReply>, Status> {
        let asked = self.known(&request)?;
        let WorkersThere { known, requests } = self.app.workers_here().await.map_err(refused)?;
        let workers = known.into_iter().map(convert::worker_to_wire).collect();
        let requests = requests.into_iter().map(convert::request_to_wire).collect();
        Ok(self.answer(asked, wire::WorkersReply { workers, requests }))
    }

    async fn invite_workers(
        &self,
        request: Request<wire::InviteWorkersRequest>,
    ) -> Result<Response<wire::InviteWorkersReply>, Status> {
        let asked = self.known(&request)?;
        let (wanted, turn) = convert::wanted_from_wire(request.into_inner()).map_err(bad)?;
        let invited = self.app.peer_wants_workers(asked.from, wanted, turn).await.map_err(refused)?;
        Ok(self.answer(asked, convert::invited_to_wire(invited)))
    }

    async fn stats(&self, request: Request<wire::StatsRequest>) -> Result<Response<wire::StatsReply>, Status> {
        let asked = self.known(&request)?;
        let pulse = self.app.pulse_here().await.map_err(refused)?;
        let reply = wire::StatsReply {
            workers: pulse.workers,
            running: pulse.running,
            lag: pulse.lag.as_micros(),
            skew: pulse.skew_us,
        };
        Ok(self.answer(asked, reply))
    }

    async fn leaving(&self, request: Request<wire::LeavingRequest>) -> Result<Response<wire::LeavingReply>, Status> {
        let asked = self.known(&request)?;
        self.app.peer_leaving();
        Ok(self.answer(asked, wire::LeavingReply {}))
    }
}

fn bad(error: BadMessage) -> Status {
    Status::invalid_argument(error.to_string())
}

fn refused(error: AppError) -> Status {
    if let Some(cause) = error.cause.as_deref()
        && let Some(left_out) = OUTAGES.pass()
    {
        tracing::warn!(code = error.kind.code(), detail = &*error.detail, cause, left_out, "a peer's call failed");
    }
    Status::new(error.kind.grpc_code().into(), error.detail)
}
