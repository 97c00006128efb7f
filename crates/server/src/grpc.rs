//! The worker protocol.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use punctual_app::{
    Admission, App, AppError, CREDIT_MAX, Connected, Download, Newcomer, Parting, Peer, PeerList, WorkerGreeting,
    WorkerHello,
};
use punctual_core::shard::event::{StreamId, WorkerSpec};
use punctual_core::shard::write::Epoch;
use punctual_core::{ArtifactId, AttemptNo, ShardId, WorkerId};
use punctual_engine::{Outgoing, WorkerSession};
use punctual_proto::MESSAGE_BYTES_MAX;
use punctual_proto::convert::{self, BadMessage};
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_server::{Worker, WorkerServer};
use punctual_store::LogChunk;
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status, Streaming};

use crate::guard::Reached;
use crate::outgoing::Messages;
use crate::problem;

/// A worker that connects and says nothing is cut off after this.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Messages of the engine that are put into one.
const COALESCE_MAX: usize = 64;

pub(crate) fn service(app: App) -> WorkerServer<WorkerService> {
    WorkerServer::new(WorkerService { app })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

#[derive(Clone)]
pub(crate) struct WorkerService {
    app: App,
}

type Complaints = Pin<Box<dyn Stream<Item = Result<wire::HeartbeatResponse, Status>> + Send>>;
type ServerMessages = Pin<Box<dyn Stream<Item = Result<wire::ServerMessage, Status>> + Send>>;

#[tonic::async_trait]
impl Worker for WorkerService {
    type WorkStream = ServerMessages;

    async fn work(&self, request: Request<Streaming<wire::WorkerMessage>>) -> Result<Response<ServerMessages>, Status> {
        let greeting = self.app.greet_worker().await.map_err(|error| refused(&error))?;
        let (welcome, welcomed) = oneshot::channel();
        let (open, closed) = oneshot::channel();
        tokio::spawn(attend(self.app.clone(), greeting.stream, request.into_inner(), welcome, closed));
        Ok(Response::new(speak(greeting_message(greeting), welcomed, open)))
    }

    type HeartbeatStream = Complaints;

    async fn heartbeat(
        &self,
        request: Request<Streaming<wire::HeartbeatRequest>>,
    ) -> Result<Response<Complaints>, Status> {
        let listener = (self.app.clone(), request.into_inner());
        let complaints = stream::try_unfold(listener, |(app, mut beats)| async move {
            while let Some(beat) = beats.message().await? {
                if !app.worker_alive(read_worker_id(&beat.worker_id)?) {
                    return Ok(Some((wire::HeartbeatResponse {}, (app, beats))));
                }
            }
            Ok(None)
        });
        Ok(Response::new(Box::pin(complaints)))
    }

    async fn download(&self, request: Request<wire::DownloadRequest>) -> Result<Response<wire::DownloadReply>, Status> {
        let reached = request.extensions().get::<Reached>().cloned();
        let Reached(reached) = reached.ok_or_else(|| Status::internal("the request does not name its host"))?;
        let wire::DownloadRequest { worker_id, job_id, attempt, artifact_id } = request.into_inner();
        let worker = read_worker_id(&worker_id)?;
        let job = convert::job_id(&job_id).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let artifact = read_artifact_id(&artifact_id)?;
        let found = self.app.download(worker, job, AttemptNo(attempt), artifact, &reached).await;
        match found.map_err(|error| refused(&error))? {
            Some(download) => Ok(Response::new(download_reply(download))),
            None => Err(Status::permission_denied("this worker does not run that attempt")),
        }
    }

    async fn admit(&self, request: Request<wire::AdmitRequest>) -> Result<Response<wire::AdmitReply>, Status> {
        let reached = request.extensions().get::<Reached>().cloned();
        let Reached(reached) = reached.ok_or_else(|| Status::internal("the request does not name its host"))?;
        let newcomer = read_newcomer(request.into_inner())?;
        match self.app.admit(newcomer, &reached).await.map_err(|error| refused(&error))? {
            Some(Admission { token, download }) => {
                Ok(Response::new(wire::AdmitReply { token, download: Some(download_reply(download)) }))
            }
            None => Err(Status::permission_denied("this worker does not run that attempt")),
        }
    }
}

fn read_newcomer(request: wire::AdmitRequest) -> Result<Newcomer, Status> {
    let wire::AdmitRequest { worker_id, job_id, attempt, artifact_id, host_id, pod } = request;
    Ok(Newcomer {
        worker: read_worker_id(&worker_id)?,
        job: convert::job_id(&job_id).map_err(|error| Status::invalid_argument(error.to_string()))?,
        attempt: AttemptNo(attempt),
        artifact: read_artifact_id(&artifact_id)?,
        host: host_id,
        pod,
    })
}

fn download_reply(Download { url, size, sha256 }: Download) -> wire::DownloadReply {
    wire::DownloadReply { url, size, sha256: sha256.to_vec().into() }
}

/// One worker's stream, from its hello to its end.
async fn attend(
    app: App,
    stream: StreamId,
    mut inbound: Streaming<wire::WorkerMessage>,
    welcome: oneshot::Sender<Result<Welcomed, Status>>,
    mut closed: oneshot::Receiver<()>,
) {
    let first = tokio::select! {
        _ = &mut closed => return,
        first = tokio::time::timeout(HELLO_WITHIN, inbound.message()) => first,
    };
    let first = first.unwrap_or_else(|_| Err(Status::deadline_exceeded("the worker did not say hello")));
    match first.and_then(|first| meet(&app, stream, first)) {
        Err(status) => {
            let _ = welcome.send(Err(status));
        }
        Ok((worker, session, first, welcomed)) => {
            // Not heard when the stream is gone already; then `closed` says so.
            let _ = welcome.send(Ok(welcomed));
            receive(app, worker, session, inbound, first, closed).await;
        }
    }
}

type Met = (WorkerId, WorkerSession, wire::WorkerMessage, Welcomed);

fn meet(app: &App, stream: StreamId, first: Option<wire::WorkerMessage>) -> Result<Met, Status> {
    let mut first = first.unwrap_or_default();
    let hello = first.hello.take().ok_or_else(|| Status::invalid_argument("the first message must be a hello"))?;
    let hello = read_hello(hello)?;
    let worker = hello.worker;
    let name = hello.name.clone();
    let Connected { answer, session, outgoing, mut peers } =
        app.connect_worker(stream, hello).map_err(|error| refused(&error))?;
    tracing::info!(%worker, name, "a worker connected");
    let message = wire::Welcome {
        server_id: convert::id_bytes(answer.server.to_bytes()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        heartbeat_ms: to_millis(answer.heartbeat),
        dead_after_ms: to_millis(answer.dead_after),
        log_bytes_max: answer.log_limit.get() as u32,
        peers: Some(peers_message(&peers.borrow_and_update())),
    };
    Ok((worker, session, first, Welcomed { message, outgoing, peers }))
}

/// Takes in what the worker says until either side ends the connection.
async fn receive(
    app: App,
    worker: WorkerId,
    session: WorkerSession,
    mut inbound: Streaming<wire::WorkerMessage>,
    first: wire::WorkerMessage,
    mut closed: oneshot::Receiver<()>,
) {
    let mut message = Some(first);
    let mut parting = Parting::Lost;
    loop {
        if message.as_ref().is_some_and(|message| message.leaving) {
            parting = Parting::Left;
        }
        if let Some(message) = message.take()
            && let Err(error) = take(&app, &session, message).await
        {
            tracing::warn!(%worker, %error, "the message of a worker was not taken; cutting it off");
            break;
        }
        tokio::select! {
            // The engine or the worker dropped the other direction.
            _ = &mut closed => break,
            received = inbound.message() => match received {
                Ok(Some(received)) => message = Some(received),
                Ok(None) => break,
                Err(status) => {
                    tracing::debug!(%worker, %status, "the connection of a worker broke");
                    break;
                }
            },
        }
    }
    drop(session);
    app.worker_parted(worker, parting);
    tracing::info!(%worker, "a worker disconnected");
}

async fn take(app: &App, session: &WorkerSession, message: wire::WorkerMessage) -> Result<(), BadMessage> {
    if let Some(credit) = message.credit {
        if credit > CREDIT_MAX {
            return Err(BadMessage("the credit is larger than any worker's"));
        }
        session.credit(credit);
    }
    // Before the outcomes: whoever hears that a job ended finds its log complete.
    if !message.logs.is_empty() {
        let chunks: Result<Vec<LogChunk>, BadMessage> = message.logs.into_iter().map(read_log).collect();
        match app.append_logs(chunks?).await {
            Ok(()) => {}
            // It says all of it again on its next stream, and its outcomes after that.
            Err(error) if error.kind.is_retryable() => return Err(BadMessage("the store does not take its logs")),
            Err(error) => tracing::warn!(%error, "a piece of a log was not kept"),
        }
    }
    if !message.outcomes.is_empty() {
        let reports: Result<_, BadMessage> = message.outcomes.into_iter().map(convert::outcome_from_wire).collect();
        session.report(reports?);
    }
    Ok(())
}

/// A worker that was let in.
struct Welcomed {
    message: wire::Welcome,
    outgoing: mpsc::UnboundedReceiver<Outgoing>,
    peers: PeerList,
}

/// The sending side of a stream.
struct Speaker {
    ready: VecDeque<wire::ServerMessage>,
    stage: Stage,
    /// Dropped with the stream, which ends the receiving side too.
    _open: oneshot::Sender<()>,
}

enum Stage {
    /// The worker has not said hello yet.
    Greeted(oneshot::Receiver<Result<Welcomed, Status>>),
    Open(mpsc::UnboundedReceiver<Outgoing>, PeerList),
    Refused,
}

fn speak(
    greeting: wire::ServerMessage,
    welcomed: oneshot::Receiver<Result<Welcomed, Status>>,
    open: oneshot::Sender<()>,
) -> ServerMessages {
    let speaker = Speaker { ready: VecDeque::from([greeting]), stage: Stage::Greeted(welcomed), _open: open };
    Box::pin(stream::unfold(speaker, |mut speaker| async move {
        let message = speaker.next().await?;
        Some((message, speaker))
    }))
}

impl Speaker {
    async fn next(&mut self) -> Option<Result<wire::ServerMessage, Status>> {
        loop {
            if let Some(message) = self.ready.pop_front() {
                return Some(Ok(message));
            }
            match &mut self.stage {
                Stage::Refused => return None,
                Stage::Greeted(welcomed) => match welcomed.await.ok()? {
                    Ok(Welcomed { message, outgoing, peers }) => {
                        self.stage = Stage::Open(outgoing, peers);
                        self.ready.push_back(wire::ServerMessage { welcome: Some(message), ..Default::default() });
                    }
                    Err(status) => {
                        self.stage = Stage::Refused;
                        return Some(Err(status));
                    }
                },
                Stage::Open(outgoing, peers) => {
                    let mut batch = Vec::new();
                    tokio::select! {
                        taken = outgoing.recv_many(&mut batch, COALESCE_MAX) => {
                            if taken == 0 {
                                return None;
                            }
                            let mut messages = Messages::default();
                            for outgoing in batch {
                                messages.add(outgoing);
                            }
                            self.ready.extend(messages.into_messages());
                        }
                        Ok(()) = peers.changed() => {
                            let peers = Some(peers_message(&peers.borrow_and_update()));
                            self.ready.push_back(wire::ServerMessage { peers, ..Default::default() });
                        }
                    }
                }
            }
        }
    }
}

fn greeting_message(greeting: WorkerGreeting) -> wire::ServerMessage {
    let shard = |(shard, epoch): (ShardId, Epoch)| wire::ShardEpoch { shard: u32::from(shard.0), epoch: epoch.0 };
    let greeting = wire::Greeting {
        server_id: convert::id_bytes(greeting.server.to_bytes()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        acquired: greeting.acquired,
        shards: greeting.shards.into_iter().map(shard).collect(),
    };
    wire::ServerMessage { greeting: Some(greeting), ..Default::default() }
}

fn peers_message(peers: &[Peer]) -> wire::Peers {
    let peer =
        |peer: &Peer| wire::Peer { server_id: convert::id_bytes(peer.id.to_bytes()), address: peer.address.clone() };
    wire::Peers { peers: peers.iter().map(peer).collect() }
}

fn read_hello(hello: wire::Hello) -> Result<WorkerHello, Status> {
    let held: Result<Vec<_>, BadMessage> = hello.held.iter().map(convert::read_attempt_ref).collect();
    Ok(WorkerHello {
        worker: read_worker_id(&hello.worker_id)?,
        name: hello.name,
        host: Some(hello.host).filter(|host| !host.is_empty()),
        version: hello.version,
        spec: WorkerSpec {
            queues: hello.queues,
            capabilities: hello.capabilities,
            labels: hello.labels.into_iter().collect(),
            credit: hello.credit,
        },
        held: held.map_err(|error| Status::invalid_argument(error.to_string()))?,
        acquired: hello.acquired,
        commands_as: hello.commands_as,
    })
}

fn read_worker_id(bytes: &[u8]) -> Result<WorkerId, Status> {
    WorkerId::from_bytes(bytes).ok_or_else(|| Status::invalid_argument("a worker id is 16 bytes of UUID version 7"))
}

fn read_artifact_id(bytes: &[u8]) -> Result<ArtifactId, Status> {
    ArtifactId::from_bytes(bytes)
        .ok_or_else(|| Status::invalid_argument("an artifact id is 16 bytes of UUID version 7"))
}

fn read_log(chunk: wire::LogChunk) -> Result<LogChunk, BadMessage> {
    Ok(LogChunk {
        job: convert::job_id(&chunk.job_id)?,
        attempt: AttemptNo(chunk.attempt),
        offset: chunk.offset,
        bytes: chunk.bytes,
        marks: chunk.marks,
    })
}

fn refused(error: &AppError) -> Status {
    problem::log_call(error, "a worker's call failed");
    if error.kind.is_retryable() {
        Status::unavailable(error.detail.clone())
    } else if error.kind.http_status() >= 500 {
        Status::internal(error.detail.clone())
    } else {
        Status::invalid_argument(error.detail.clone())
    }
}

pub(crate) fn to_millis(span: punctual_core::Span) -> u32 {
    u32::try_from(span.as_micros() / 1000).unwrap_or(u32::MAX)
}
