//! The worker protocol.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use http::Extensions;
use punctual_api::ErrorKind;
use punctual_app::permission::ServeJobs;
use punctual_app::{Admission, App, AppError, By, Download, Newcomer, Peer, PeerList};
use punctual_core::shard::write::Epoch;
use punctual_core::{ArtifactId, AttemptNo, JobId, ShardId, WorkerId};
use punctual_engine::{Greeting, OutgoingReceiver};
use punctual_proto::MESSAGE_BYTES_MAX;
use punctual_proto::convert;
use punctual_proto::identity::WorkerSecret;
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_server::{Worker, WorkerServer};
use tokio::sync::oneshot;
use tonic::{Request, Response, Status, Streaming};

use crate::guard::Reached;
use crate::outgoing::{Messages, SeenTasks};
use crate::permit::permit;
use crate::problem;
use crate::worker_stream::attend;

/// Beats of one stream are read no faster.
const BEAT_PAUSE: Duration = Duration::from_millis(10);

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
        let by = self.serves(request.extensions())?;
        let greeting = self.app.greet_worker(&by).await.map_err(|error| refused(&error))?;
        let (welcome, welcomed) = oneshot::channel();
        let (open, closed) = oneshot::channel();
        tokio::spawn(attend(self.app.clone(), by, greeting.stream, request.into_inner(), welcome, closed));
        Ok(Response::new(speak(self.app.clone(), greeting_message(greeting), welcomed, open)))
    }

    type HeartbeatStream = Complaints;

    async fn heartbeat(
        &self,
        request: Request<Streaming<wire::HeartbeatRequest>>,
    ) -> Result<Response<Complaints>, Status> {
        self.serves(request.extensions())?;
        let listener = (self.app.clone(), request.into_inner(), None);
        let complaints = stream::try_unfold(listener, |(app, mut beats, mut known)| async move {
            loop {
                let beat = tokio::select! {
                    beat = beats.message() => beat?,
                    // There is nothing left that could hold a worker's silence against it, and a server that stops would
                    // wait for this stream.
                    () = app.stopped() => None,
                };
                let Some(beat) = beat else { return Ok(None) };
                // Checked once: a worker says the same in all of them.
                let worker = match &known {
                    Some((worker, said)) if *said == beat => *worker,
                    _ => read_identity(&beat.worker_id, &beat.secret)?,
                };
                known = Some((worker, beat));
                if !app.worker_alive(worker) {
                    return Ok(Some((wire::HeartbeatResponse {}, (app, beats, known))));
                }
                // A worker beats every few seconds. What comes faster waits in its own connection.
                tokio::time::sleep(BEAT_PAUSE).await;
            }
        });
        Ok(Response::new(Box::pin(complaints)))
    }

    async fn download(&self, request: Request<wire::DownloadRequest>) -> Result<Response<wire::DownloadReply>, Status> {
        let by = self.serves(request.extensions())?;
        let reached = request.extensions().get::<Reached>().cloned();
        let reached = reached.ok_or_else(|| Status::internal("the request does not name its host"))?;
        let wire::DownloadRequest { worker_id, job_id, attempt, artifact_id, token } = request.into_inner();
        let worker = read_worker_id(&worker_id)?;
        let job = convert::job_id(&job_id).map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.check_token(job, AttemptNo(attempt), &token)?;
        let artifact = read_artifact_id(&artifact_id)?;
        let found = self.app.download(&by, worker, job, AttemptNo(attempt), artifact, &reached.url()).await;
        match found.map_err(|error| refused(&error))? {
            Some(download) => Ok(Response::new(download_reply(download))),
            None => Err(not_its_attempt()),
        }
    }

    async fn admit(&self, request: Request<wire::AdmitRequest>) -> Result<Response<wire::AdmitReply>, Status> {
        let by = self.serves(request.extensions())?;
        let reached = request.extensions().get::<Reached>().cloned();
        let reached = reached.ok_or_else(|| Status::internal("the request does not name its host"))?;
        let request = request.into_inner();
        let token = request.token.clone();
        let newcomer = read_newcomer(request)?;
        self.check_token(newcomer.job, newcomer.attempt, &token)?;
        match self.app.admit(&by, newcomer, &reached.url()).await.map_err(|error| refused(&error))? {
            Some(Admission { token, download }) => {
                Ok(Response::new(wire::AdmitReply { token, download: Some(download_reply(download)) }))
            }
            None => Err(not_its_attempt()),
        }
    }
}

impl WorkerService {
    /// Whoever may speak as a worker.
    fn serves(&self, extensions: &Extensions) -> Result<By<ServeJobs>, Status> {
        let by = permit::<ServeJobs>(extensions).map_err(|error| refused(&error))?;
        self.app.check_worker(&by).map_err(|error| refused(&error))?;
        Ok(by)
    }

    fn check_token(&self, job: JobId, attempt: AttemptNo, token: &[u8]) -> Result<(), Status> {
        if self.app.attempt_tokens().is_of(job, attempt, token) { Ok(()) } else { Err(not_its_attempt()) }
    }
}

fn not_its_attempt() -> Status {
    Status::permission_denied("this worker does not run that attempt")
}

fn read_newcomer(request: wire::AdmitRequest) -> Result<Newcomer, Status> {
    let wire::AdmitRequest { worker_id, job_id, attempt, artifact_id, host_id, pod, token: _ } = request;
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

/// A worker that was let in.
pub(crate) struct Welcomed {
    pub(crate) message: wire::Welcome,
    pub(crate) outgoing: OutgoingReceiver,
    pub(crate) peers: PeerList,
}

/// The sending side of a stream.
struct Speaker {
    app: App,
    seen: SeenTasks,
    ready: VecDeque<wire::ServerMessage>,
    stage: Stage,
    /// Dropped with the stream, which ends the receiving side too.
    _open: oneshot::Sender<()>,
}

enum Stage {
    /// The worker has not said hello yet.
    Greeted(oneshot::Receiver<Result<Welcomed, Status>>),
    Open(OutgoingReceiver, PeerList),
    Refused,
}

fn speak(
    app: App,
    greeting: wire::ServerMessage,
    welcomed: oneshot::Receiver<Result<Welcomed, Status>>,
    open: oneshot::Sender<()>,
) -> ServerMessages {
    let ready = VecDeque::from([greeting]);
    let speaker = Speaker { app, seen: SeenTasks::default(), ready, stage: Stage::Greeted(welcomed), _open: open };
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
                            let secrets = self.seen.secrets(&self.app, &batch).await;
                            let tokens = self.app.attempt_tokens();
                            let mut messages = Messages::new(&tokens, &secrets);
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

fn greeting_message(greeting: Greeting) -> wire::ServerMessage {
    let shard = |(shard, epoch): (ShardId, Epoch)| wire::ShardEpoch { shard: u32::from(shard.0), epoch: epoch.0 };
    let greeting = wire::Greeting {
        server_id: convert::id_bytes(greeting.server.to_bytes()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        acquired: greeting.acquired,
        shards: greeting.shards.into_iter().map(shard).collect(),
    };
    wire::ServerMessage { greeting: Some(greeting), ..Default::default() }
}

pub(crate) fn peers_message(peers: &[Peer]) -> wire::Peers {
    let peer =
        |peer: &Peer| wire::Peer { server_id: convert::id_bytes(peer.id.to_bytes()), address: peer.address.clone() };
    wire::Peers { peers: peers.iter().map(peer).collect() }
}

/// The id of a worker that has proven that it is its own.
pub(crate) fn read_identity(id: &[u8], secret: &[u8]) -> Result<WorkerId, Status> {
    let id = read_worker_id(id)?;
    match WorkerSecret::from_bytes(secret) {
        Some(secret) if secret.is_of(id) => Ok(id),
        Some(_) | None => Err(Status::permission_denied("the secret is not that of this worker id")),
    }
}

fn read_worker_id(bytes: &[u8]) -> Result<WorkerId, Status> {
    WorkerId::from_bytes(bytes).ok_or_else(|| Status::invalid_argument("a worker id is 16 bytes of UUID version 7"))
}

fn read_artifact_id(bytes: &[u8]) -> Result<ArtifactId, Status> {
    ArtifactId::from_bytes(bytes)
        .ok_or_else(|| Status::invalid_argument("an artifact id is 16 bytes of UUID version 7"))
}

pub(crate) fn refused(error: &AppError) -> Status {
    problem::log_call(error, "a worker's call failed");
    if error.kind == ErrorKind::Forbidden {
        return Status::permission_denied(error.detail.clone());
    }
    Status::new(error.kind.grpc_code().into(), error.detail.clone())
}

pub(crate) fn to_millis(span: punctual_core::Span) -> u32 {
    u32::try_from(span.as_micros() / 1000).unwrap_or(u32::MAX)
}
