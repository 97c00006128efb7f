//! The far side of the wire: a server that does only what a test tells it to.

// Each test file uses a part of it.
#![allow(dead_code, reason = "no single test file uses all of it")]

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::TaskId;
use punctual_core::shard::event::Report;
use punctual_core::{JobId, ServerId, ShardId, Timestamp};
use punctual_proto::convert::{attempt_ref, id_bytes, outcome_from_wire};
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_server::{Worker as WorkerService, WorkerServer};
use punctual_worker::Worker;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

/// How often every server here says it has acquired a shard.
const ACQUIRED: u64 = 5;

/// Far longer than anything here takes; reached only when a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited too long for {what}"),
    }
}

/// Waits for something that no message tells of.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    within(what, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

pub(crate) type Outbound = mpsc::UnboundedSender<Result<wire::ServerMessage, Status>>;

/// A worker's question where a file is, and where to put the answer.
pub(crate) type Question = (wire::DownloadRequest, oneshot::Sender<Result<wire::DownloadReply, Status>>);

/// A request to admit an agent, and where its answer goes.
pub(crate) type Wish = (wire::AdmitRequest, oneshot::Sender<Result<wire::AdmitReply, Status>>);

struct Service {
    streams: mpsc::UnboundedSender<(Streaming<wire::WorkerMessage>, Outbound)>,
    downloads: mpsc::UnboundedSender<Question>,
    admissions: mpsc::UnboundedSender<Wish>,
    heartbeats: mpsc::UnboundedSender<wire::HeartbeatRequest>,
    known: Arc<AtomicBool>,
}

#[tonic::async_trait]
impl WorkerService for Service {
    type WorkStream = Pin<Box<UnboundedReceiverStream<Result<wire::ServerMessage, Status>>>>;

    async fn work(
        &self,
        request: Request<Streaming<wire::WorkerMessage>>,
    ) -> Result<Response<Self::WorkStream>, Status> {
        let (outbound, sent) = mpsc::unbounded_channel();
        let _ = self.streams.send((request.into_inner(), outbound));
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(sent))))
    }

    type HeartbeatStream = Pin<Box<UnboundedReceiverStream<Result<wire::HeartbeatResponse, Status>>>>;

    async fn heartbeat(
        &self,
        request: Request<Streaming<wire::HeartbeatRequest>>,
    ) -> Result<Response<Self::HeartbeatStream>, Status> {
        let (complain, complaints) = mpsc::unbounded_channel();
        let (heartbeats, known) = (self.heartbeats.clone(), self.known.clone());
        tokio::spawn(async move {
            let mut beats = request.into_inner();
            while let Ok(Some(beat)) = beats.message().await {
                let _ = heartbeats.send(beat);
                if !known.load(Ordering::SeqCst) {
                    let _ = complain.send(Ok(wire::HeartbeatResponse {}));
                }
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(complaints))))
    }

    async fn admit(&self, request: Request<wire::AdmitRequest>) -> Result<Response<wire::AdmitReply>, Status> {
        let (answer, reply) = oneshot::channel();
        let _ = self.admissions.send((request.into_inner(), answer));
        reply.await.unwrap_or_else(|_| Err(Status::unavailable("nobody answers"))).map(Response::new)
    }

    async fn download(&self, request: Request<wire::DownloadRequest>) -> Result<Response<wire::DownloadReply>, Status> {
        let (answer, reply) = oneshot::channel();
        let _ = self.downloads.send((request.into_inner(), answer));
        reply.await.unwrap_or_else(|_| Err(Status::unavailable("nobody answers"))).map(Response::new)
    }
}

/// A server on a runtime of its own, which can be killed with all of its connections.
pub(crate) struct FarServer {
    pub(crate) addr: SocketAddr,
    pub(crate) id: ServerId,
    /// The shards that it says it owns, with their epochs.
    pub(crate) owns: Vec<(u32, u64)>,
    /// The servers that it tells of.
    pub(crate) peers: Vec<wire::Peer>,
    runtime: Option<tokio::runtime::Runtime>,
    streams: mpsc::UnboundedReceiver<(Streaming<wire::WorkerMessage>, Outbound)>,
    pub(crate) downloads: mpsc::UnboundedReceiver<Question>,
    pub(crate) admissions: mpsc::UnboundedReceiver<Wish>,
    pub(crate) heartbeats: mpsc::UnboundedReceiver<wire::HeartbeatRequest>,
    pub(crate) known: Arc<AtomicBool>,
}

impl FarServer {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap()).await
    }

    pub(crate) async fn start_at(addr: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (streams_sender, streams) = mpsc::unbounded_channel();
        let (heartbeats_sender, heartbeats) = mpsc::unbounded_channel();
        let (downloads_sender, downloads) = mpsc::unbounded_channel();
        let (admissions_sender, admissions) = mpsc::unbounded_channel();
        let known = Arc::new(AtomicBool::new(true));
        let service = Service {
            streams: streams_sender,
            downloads: downloads_sender,
            admissions: admissions_sender,
            heartbeats: heartbeats_sender,
            known: known.clone(),
        };
        let (bound_sender, bound) = oneshot::channel();
        runtime.spawn(async move {
            // A port of a server that was killed may be in use for a moment, by a socket of
            // another test.
            let listener = loop {
                match tokio::net::TcpListener::bind(addr).await {
                    Ok(listener) => break listener,
                    Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
                }
            };
            bound_sender.send(listener.local_addr().unwrap()).unwrap();
            tonic::transport::Server::builder()
                .add_service(WorkerServer::new(service))
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await
        });
        let addr = within("the port", bound).await.unwrap();
        static STARTED: AtomicU64 = AtomicU64::new(1);
        let id = ServerId::new(Timestamp::EPOCH, STARTED.fetch_add(1, Ordering::Relaxed));
        Self {
            addr,
            id,
            owns: vec![(0, 1)],
            peers: vec![],
            runtime: Some(runtime),
            streams,
            downloads,
            admissions,
            heartbeats,
            known,
        }
    }

    pub(crate) fn peer(&self) -> wire::Peer {
        wire::Peer { server_id: id_bytes(self.id.to_bytes()), address: self.url() }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The next stream of a worker, with its hello; not welcomed yet.
    pub(crate) async fn accept(&mut self) -> FarStream {
        self.accept_unless_silent().await.expect("the first message is a hello")
    }

    /// Greets the next stream; `None` if the worker goes without a word.
    pub(crate) async fn accept_unless_silent(&mut self) -> Option<FarStream> {
        let (inbound, outbound) = self.stream().await;
        self.greet(inbound, outbound).await
    }

    /// The next stream, on which nothing was said yet.
    pub(crate) async fn stream(&mut self) -> (Streaming<wire::WorkerMessage>, Outbound) {
        within("a stream", self.streams.recv()).await.expect("the server runs")
    }

    pub(crate) async fn greet(
        &self,
        mut inbound: Streaming<wire::WorkerMessage>,
        outbound: Outbound,
    ) -> Option<FarStream> {
        let shards = self.owns.iter().map(|&(shard, epoch)| wire::ShardEpoch { shard, epoch }).collect();
        let server_id = id_bytes(self.id.to_bytes());
        let greeting = wire::Greeting { server_id, acquired: ACQUIRED, shards, ..Default::default() };
        let _ = outbound.send(Ok(wire::ServerMessage { greeting: Some(greeting), ..Default::default() }));
        let first = within("a hello", inbound.message()).await.ok()??;
        let hello = first.hello.expect("the first message is a hello");
        assert_eq!(hello.acquired, ACQUIRED);
        Some(FarStream { hello, inbound, outbound, logs: Vec::new() })
    }

    /// The next stream, welcomed with a heartbeat that no test waits for, and with what was
    /// granted confirmed.
    pub(crate) async fn welcome(&mut self) -> FarStream {
        let stream = self.accept().await;
        let mut message = welcome_message(60_000, 0);
        let peers = wire::Peers { peers: self.peers.clone() };
        message.welcome.as_mut().expect("it is a welcome").peers = Some(peers);
        stream.send(message);
        stream.confirm(stream.hello.credit);
        stream
    }

    /// As by `kill -9`: no stream is closed in order. Its port is free afterwards.
    pub(crate) async fn kill(mut self) -> SocketAddr {
        let runtime = self.runtime.take().expect("it is killed once");
        let killed = tokio::task::spawn_blocking(|| runtime.shutdown_timeout(LIMIT));
        within("the server to die", killed).await.unwrap();
        self.addr
    }

    fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for FarServer {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn welcome_message(heartbeat_ms: u32, log_bytes_max: u32) -> wire::ServerMessage {
    let welcome = wire::Welcome { heartbeat_ms, log_bytes_max, ..Default::default() };
    wire::ServerMessage { welcome: Some(welcome), ..Default::default() }
}

/// One stream of a worker. Closed, from the server's side, when dropped.
pub(crate) struct FarStream {
    pub(crate) hello: wire::Hello,
    inbound: Streaming<wire::WorkerMessage>,
    outbound: Outbound,
    pub(crate) logs: Vec<wire::LogChunk>,
}

impl FarStream {
    pub(crate) fn send(&self, message: wire::ServerMessage) {
        self.outbound.send(Ok(message)).expect("the worker listens");
    }

    pub(crate) fn assign(&self, task: wire::TaskDefinition, jobs: &[JobId]) {
        self.send(assignments(task, jobs));
    }

    /// Keeps to this credit, with nothing else in flight.
    pub(crate) fn confirm(&self, credit: u32) {
        let credit = Some(wire::CreditKept { told: credit, bound: credit });
        self.send(wire::ServerMessage { credit, ..Default::default() });
    }

    pub(crate) fn demand(&self, jobs: u32) {
        self.send(wire::ServerMessage { demand: Some(jobs), ..Default::default() });
    }

    /// The credit of the next message that has one.
    pub(crate) async fn credit(&mut self) -> u32 {
        loop {
            if let Some(credit) = self.message().await.expect("the worker is connected").credit {
                return credit;
            }
        }
    }

    pub(crate) fn ack(&self, jobs: &[JobId]) {
        self.send(wire::ServerMessage { acks: refs(jobs), ..Default::default() });
    }

    /// `None` when the worker has closed the stream.
    pub(crate) async fn message(&mut self) -> Option<wire::WorkerMessage> {
        let message = within("a message of the worker", self.inbound.message()).await.ok()??;
        let said = message.outcomes.iter().map(|outcome| (&outcome.job_id, &outcome.token));
        for (job, token) in said.chain(message.logs.iter().map(|log| (&log.job_id, &log.token))) {
            assert_eq!(
                *token,
                token_of(&JobId::from_bytes(job).unwrap()),
                "it goes with all that is said of an attempt"
            );
        }
        self.logs.extend(message.logs.iter().cloned());
        Some(message)
    }

    /// The outcomes of the next message that has some.
    pub(crate) async fn outcomes(&mut self) -> Vec<Report> {
        loop {
            let message = self.message().await.expect("the worker is connected");
            if !message.outcomes.is_empty() {
                return message.outcomes.into_iter().map(|o| outcome_from_wire(o).unwrap()).collect();
            }
        }
    }

    pub(crate) async fn outcome(&mut self) -> Report {
        let mut outcomes = self.outcomes().await;
        assert_eq!(outcomes.len(), 1, "{outcomes:?}");
        outcomes.remove(0)
    }

    /// Reads on until a log has this line.
    pub(crate) async fn printed(&mut self, line: &str) {
        let line = format!("{line}\n");
        while !self.logs.iter().any(|chunk| chunk.bytes == line) {
            self.message().await.expect("the worker is connected");
        }
    }

    /// What the worker printed so far, put together by offset.
    pub(crate) fn log_text(&self) -> String {
        let mut text = Vec::new();
        for chunk in &self.logs {
            assert_eq!(chunk.offset as usize, text.len(), "a gap in the log");
            text.extend_from_slice(&chunk.bytes);
        }
        String::from_utf8(text).unwrap()
    }
}

pub(crate) fn job(random: u64) -> JobId {
    job_of(0, random)
}

pub(crate) fn job_of(shard: u16, random: u64) -> JobId {
    JobId::new(Timestamp::EPOCH, ShardId(shard), random)
}

pub(crate) fn refs(jobs: &[JobId]) -> Vec<wire::AttemptRef> {
    jobs.iter().map(|&job| attempt_ref(job, AttemptNo::FIRST)).collect()
}

pub(crate) fn sorted(mut refs: Vec<wire::AttemptRef>) -> Vec<wire::AttemptRef> {
    refs.sort_by(|a, b| a.job_id.cmp(&b.job_id));
    refs
}

/// A task with a timeout that no test reaches.
pub(crate) fn task(run: &str) -> wire::TaskDefinition {
    wire::TaskDefinition {
        task_id: id_bytes(TaskId::new(Timestamp::EPOCH, 1).to_bytes()),
        revision: 1,
        name: "a task".to_owned(),
        run: Bytes::copy_from_slice(run.as_bytes()),
        timeout_us: 1_200_000_000,
        namespace: 0,
    }
}

pub(crate) fn handler_task(name: &str) -> wire::TaskDefinition {
    task(&format!(r#"{{"handler":{{"name":"{name}"}}}}"#))
}

pub(crate) fn probe_task(probe: &str) -> wire::TaskDefinition {
    task(&format!(r#"{{"probe":{probe}}}"#))
}

/// What the server expects with all that is said of the only attempt of a job.
pub(crate) fn token_of(job: &JobId) -> Bytes {
    Bytes::from([b"token of ", &job.to_bytes()[..]].concat())
}

pub(crate) fn assignments(task: wire::TaskDefinition, jobs: &[JobId]) -> wire::ServerMessage {
    let assignment = |job: &JobId| wire::Assignment {
        job_id: id_bytes(job.to_bytes()),
        attempt: 1,
        epoch: 1,
        token: token_of(job),
        ..Default::default()
    };
    wire::ServerMessage { tasks: vec![task], assignments: jobs.iter().map(assignment).collect(), ..Default::default() }
}

/// A worker that runs until it is told to leave.
pub(crate) struct Running {
    leave: oneshot::Sender<()>,
    done: tokio::task::JoinHandle<Result<(), punctual_worker::WorkerError>>,
}

pub(crate) fn run(worker: Worker) -> Running {
    let (leave, told) = oneshot::channel();
    let shutdown = async {
        let _ = told.await;
    };
    Running { leave, done: tokio::spawn(worker.run_until(shutdown)) }
}

impl Running {
    pub(crate) fn tell_to_leave(self) -> tokio::task::JoinHandle<Result<(), punctual_worker::WorkerError>> {
        let _ = self.leave.send(());
        self.done
    }

    pub(crate) async fn leave(self) {
        within("the worker to leave", self.tell_to_leave()).await.unwrap().unwrap();
    }
}
