//! The peer protocol: what other servers of the cluster ask this one.

use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use http::HeaderMap;
use prost::Message;
use punctual_app::{AgentAnswer, AgentAsks, App, AppError, PEER_HEADER, Question};
use punctual_core::shard::WorkerStatus;
use punctual_core::{AttemptNo, JobId};
use punctual_engine::{Changes, WorkerInfo};
use punctual_proto::convert::{BadMessage, id_bytes, job_id, outcome_from_wire, scheduled_run_to_wire};
use punctual_proto::peer as wire;
use punctual_proto::peer::peer_server::{Peer, PeerServer};
use punctual_proto::worker::Outcome;
use punctual_proto::{MESSAGE_BYTES_MAX, peer_convert as convert, schedule_convert};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tonic::{Request, Response, Status};

use crate::problem;

/// Changes that go out in one message.
const CHANGES_MAX: usize = 512;

pub(crate) fn service(app: App) -> PeerServer<PeerService> {
    PeerServer::new(PeerService { app }).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

#[derive(Clone)]
pub(crate) struct PeerService {
    app: App,
}

type Replies = Pin<Box<dyn Stream<Item = Result<wire::WatchReply, Status>> + Send>>;

impl PeerService {
    fn known<T>(&self, request: &Request<T>) -> Result<Question, Status> {
        question(&self.app, request.metadata().as_ref())
    }

    /// The answer, with the proof that it is ours.
    fn answer<T>(&self, asked: Question, message: T) -> Response<T> {
        let mut response = Response::new(message);
        let proof = self.app.peer_key().answer(asked).parse().expect("hexadecimal digits are ASCII");
        response.metadata_mut().insert(PEER_HEADER, proof);
        response
    }
}

/// Only servers of this cluster are answered. Says nothing of what was wrong.
pub(crate) fn question(app: &App, headers: &HeaderMap) -> Result<Question, Status> {
    let proof = headers.get(PEER_HEADER).and_then(|proof| proof.to_str().ok());
    proof
        .and_then(|proof| app.peer_key().asked(proof, app.server()))
        .ok_or_else(|| Status::unauthenticated("this is for servers of the same cluster"))
}

#[tonic::async_trait]
impl Peer for PeerService {
    async fn command(&self, request: Request<wire::CommandRequest>) -> Result<Response<wire::CommandReply>, Status> {
        let asked = self.known(&request)?;
        let request = request.into_inner();
        let id = job_id(&request.job_id).map_err(bad)?;
        let command = convert::command_from_wire(&request).map_err(bad)?;
        let reply = self.app.peer_command(id, command).await.map_err(refused)?;
        Ok(self.answer(asked, convert::reply_to_wire(reply)))
    }

    async fn schedules(
        &self,
        request: Request<wire::SchedulesRequest>,
    ) -> Result<Response<wire::SchedulesReply>, Status> {
        let asked = self.known(&request)?;
        let wire::SchedulesRequest { commands, who } = request.into_inner();
        let commands = commands.into_iter().map(schedule_convert::command_from_wire);
        let commands = commands.collect::<Result<_, _>>().map_err(bad)?;
        let replies = self.app.peer_schedules(commands, who).await.map_err(refused)?;
        Ok(self.answer(asked, schedule_convert::replies_to_wire(&replies)))
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
        let watcher = Watcher { changes: self.app.changes_here(), is_told: false };
        let replies = stream::unfold(watcher, |mut watcher| async move {
            let reply = watcher.next().await?;
            Some((Ok(reply), watcher))
        });
        Ok(self.answer(asked, Box::pin(replies)))
    }

    async fn task_changed(
        &self,
        request: Request<wire::TaskChangedRequest>,
    ) -> Result<Response<wire::TaskChangedReply>, Status> {
        let asked = self.known(&request)?;
        let wire::TaskChangedRequest { task_id, name } = request.into_inner();
        let id = convert::task_id(&task_id).map_err(bad)?;
        self.app.peer_task_changed(id, &name).await.map_err(refused)?;
        Ok(self.answer(asked, wire::TaskChangedReply {}))
    }

    async fn workers(&self, request: Request<wire::WorkersRequest>) -> Result<Response<wire::WorkersReply>, Status> {
        let asked = self.known(&request)?;
        let workers = self.app.workers_here().await.map_err(refused)?;
        Ok(self.answer(asked, wire::WorkersReply { workers: workers.into_iter().map(worker).collect() }))
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

    async fn agent(&self, request: Request<wire::AgentRequest>) -> Result<Response<wire::AgentReply>, Status> {
        let asked = self.known(&request)?;
        let (job, attempt, asks) = read_agent(request.into_inner()).map_err(bad)?;
        let answer = self.app.agent_here(job, attempt, asks).await.map_err(refused)?;
        Ok(self.answer(asked, agent_reply(answer)))
    }

    async fn leaving(&self, request: Request<wire::LeavingRequest>) -> Result<Response<wire::LeavingReply>, Status> {
        let asked = self.known(&request)?;
        self.app.peer_leaving();
        Ok(self.answer(asked, wire::LeavingReply {}))
    }
}

fn read_agent(request: wire::AgentRequest) -> Result<(JobId, AttemptNo, AgentAsks), BadMessage> {
    use wire::agent_request::Asks;
    let job = job_id(&request.job_id)?;
    let asks = match request.asks.ok_or(BadMessage("an agent asks something"))? {
        Asks::Work(wire::AgentWorkRequest {}) => AgentAsks::Work,
        Asks::Alive(host) => AgentAsks::Alive { host },
        Asks::Ended(outcome) => {
            let outcome = Outcome::decode(outcome).map_err(|_| BadMessage("an outcome cannot be read"))?;
            AgentAsks::Ended(Box::new(outcome_from_wire(outcome)?))
        }
    };
    Ok((job, AttemptNo(request.attempt), asks))
}

fn agent_reply(answer: AgentAnswer) -> wire::AgentReply {
    use wire::agent_reply::Answer;
    let answer = match answer {
        AgentAnswer::Work(work) => Answer::Work(wire::AgentWork {
            task_id: id_bytes(work.task.to_bytes()),
            revision: work.revision,
            name: work.name,
            run: work.run,
            timeout_us: work.timeout.as_micros(),
            ends_by: work.ends_by.as_micros(),
            started_at: work.started_at.as_micros(),
            tracing_id: work.tracing_id,
            input: work.input,
            scheduled_run: work.scheduled_run.map(|run| scheduled_run_to_wire(run).encode_to_vec().into()),
        }),
        AgentAnswer::Alive { cancel_requested } => Answer::Alive(wire::AgentAlive { cancel_requested }),
        AgentAnswer::Recorded => Answer::Recorded(wire::AgentRecorded {}),
        AgentAnswer::Over => Answer::Over(wire::AgentOver {}),
        AgentAnswer::NotOwner => Answer::NotOwner(wire::AgentNotOwner {}),
    };
    wire::AgentReply { answer: Some(answer) }
}

struct Watcher {
    changes: Changes,
    is_told: bool,
}

impl Watcher {
    /// What has accumulated, in one message. The first is empty: the watch is on.
    async fn next(&mut self) -> Option<wire::WatchReply> {
        let mut reply = wire::WatchReply::default();
        if !std::mem::replace(&mut self.is_told, true) {
            return Some(reply);
        }
        match self.changes.recv().await {
            Ok(change) => reply.changes.push(convert::change_to_wire(&change)),
            Err(RecvError::Lagged(count)) => reply.missed = count,
            Err(RecvError::Closed) => return None,
        }
        while reply.changes.len() < CHANGES_MAX {
            match self.changes.try_recv() {
                Ok(change) => reply.changes.push(convert::change_to_wire(&change)),
                Err(TryRecvError::Lagged(count)) => {
                    reply.missed += count;
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        Some(reply)
    }
}

fn worker((status, info): (WorkerStatus, WorkerInfo)) -> wire::WorkerInfo {
    wire::WorkerInfo {
        worker_id: id_bytes(status.id.to_bytes()),
        name: info.name,
        version: info.version,
        is_connected: status.is_connected,
        queues: info.spec.queues,
        capabilities: info.spec.capabilities,
        labels: info.spec.labels.into_iter().collect(),
        credit: status.credit,
        running: status.running,
        seen_at: status.seen_at.as_micros(),
        commands_as: info.commands_as,
        host: info.host.unwrap_or_default(),
    }
}

fn bad(error: BadMessage) -> Status {
    Status::invalid_argument(error.to_string())
}

fn refused(error: AppError) -> Status {
    problem::log_call(&error, "a peer's call failed");
    Status::new(error.kind.grpc_code().into(), error.detail)
}
