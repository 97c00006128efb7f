//! The worker protocol.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use punctual_app::{App, AppError, CREDIT_MAX, LOG_BYTES_MAX, WorkerHello};
use punctual_core::shard::event::WorkerSpec;
use punctual_core::{AttemptNo, WorkerId};
use punctual_engine::{Outgoing, WorkerSession};
use punctual_proto::MESSAGE_BYTES_MAX;
use punctual_proto::convert::{self, BadMessage};
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_server::{Worker, WorkerServer};
use punctual_store::LogChunk;
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status, Streaming};

use crate::outgoing::Messages;

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

type ServerMessages = Pin<Box<dyn Stream<Item = Result<wire::ServerMessage, Status>> + Send>>;

#[tonic::async_trait]
impl Worker for WorkerService {
    type WorkStream = ServerMessages;

    async fn work(&self, request: Request<Streaming<wire::WorkerMessage>>) -> Result<Response<ServerMessages>, Status> {
        let mut inbound = request.into_inner();
        let first = tokio::time::timeout(HELLO_WITHIN, inbound.message())
            .await
            .map_err(|_| Status::deadline_exceeded("the worker did not say hello"))??;
        let hello = first
            .as_ref()
            .and_then(|message| message.hello.clone())
            .ok_or_else(|| Status::invalid_argument("the first message must be a hello"))?;
        let hello = read_hello(hello)?;
        let worker = hello.worker;
        let name = hello.name.clone();
        let (answer, session, outgoing) = self.app.connect_worker(hello).map_err(|error| refused(&error))?;
        tracing::info!(%worker, name, "a worker connected");
        let welcome = wire::Welcome {
            server_id: convert::id_bytes(answer.server.to_bytes()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            heartbeat_ms: to_millis(answer.heartbeat),
            dead_after_ms: to_millis(answer.dead_after),
            log_bytes_max: LOG_BYTES_MAX as u32,
        };
        let (open, closed) = oneshot::channel();
        tokio::spawn(receive(self.app.clone(), worker, session, inbound, first, closed));
        Ok(Response::new(send(welcome, outgoing, open)))
    }

    async fn heartbeat(
        &self,
        request: Request<wire::HeartbeatRequest>,
    ) -> Result<Response<wire::HeartbeatResponse>, Status> {
        let worker = read_worker_id(&request.get_ref().worker_id)?;
        let known = self.app.worker_alive(worker).await.map_err(|error| refused(&error))?;
        Ok(Response::new(wire::HeartbeatResponse { known }))
    }
}

/// Takes in what the worker says until either side ends the connection.
async fn receive(
    app: App,
    worker: WorkerId,
    session: WorkerSession,
    mut inbound: Streaming<wire::WorkerMessage>,
    first: Option<wire::WorkerMessage>,
    mut closed: oneshot::Receiver<()>,
) {
    let mut message = first;
    loop {
        if let Some(message) = message.take()
            && let Err(error) = take(&app, &session, message).await
        {
            tracing::warn!(%worker, %error, "a worker sent what cannot be read; cutting it off");
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
        if let Err(error) = app.append_logs(chunks?).await {
            tracing::warn!(%error, "a piece of a log was not kept");
        }
    }
    if !message.outcomes.is_empty() {
        let reports: Result<_, BadMessage> = message.outcomes.into_iter().map(convert::outcome_from_wire).collect();
        session.report(reports?);
    }
    Ok(())
}

struct Sender {
    outgoing: mpsc::UnboundedReceiver<Outgoing>,
    ready: VecDeque<wire::ServerMessage>,
    /// Dropped with the stream, which ends the receiving side too.
    _open: oneshot::Sender<()>,
}

fn send(
    welcome: wire::Welcome,
    outgoing: mpsc::UnboundedReceiver<Outgoing>,
    open: oneshot::Sender<()>,
) -> ServerMessages {
    let welcome = wire::ServerMessage { welcome: Some(welcome), ..Default::default() };
    let sender = Sender { outgoing, ready: VecDeque::from([welcome]), _open: open };
    Box::pin(stream::unfold(sender, |mut sender| async move {
        loop {
            if let Some(message) = sender.ready.pop_front() {
                return Some((Ok(message), sender));
            }
            let mut batch = Vec::new();
            if sender.outgoing.recv_many(&mut batch, COALESCE_MAX).await == 0 {
                return None;
            }
            let mut messages = Messages::default();
            for outgoing in batch {
                messages.add(outgoing);
            }
            sender.ready.extend(messages.into_messages());
        }
    }))
}

fn read_hello(hello: wire::Hello) -> Result<WorkerHello, Status> {
    let held: Result<Vec<_>, BadMessage> = hello.held.iter().map(convert::read_attempt_ref).collect();
    Ok(WorkerHello {
        worker: read_worker_id(&hello.worker_id)?,
        name: hello.name,
        version: hello.version,
        spec: WorkerSpec {
            queues: hello.queues,
            capabilities: hello.capabilities,
            labels: hello.labels.into_iter().collect(),
            credit: hello.credit,
        },
        held: held.map_err(|error| Status::invalid_argument(error.to_string()))?,
    })
}

fn read_worker_id(bytes: &[u8]) -> Result<WorkerId, Status> {
    WorkerId::from_bytes(bytes).ok_or_else(|| Status::invalid_argument("a worker id is 16 bytes of UUID version 7"))
}

fn read_log(chunk: wire::LogChunk) -> Result<LogChunk, BadMessage> {
    Ok(LogChunk {
        job: convert::job_id(&chunk.job_id)?,
        attempt: AttemptNo(chunk.attempt),
        offset: chunk.offset,
        bytes: chunk.bytes,
    })
}

fn refused(error: &AppError) -> Status {
    if error.kind.is_retryable() {
        Status::unavailable(error.detail.clone())
    } else if error.kind.http_status() >= 500 {
        Status::internal(error.detail.clone())
    } else {
        Status::invalid_argument(error.detail.clone())
    }
}

fn to_millis(span: punctual_core::Span) -> u32 {
    u32::try_from(span.as_micros() / 1000).unwrap_or(u32::MAX)
}
