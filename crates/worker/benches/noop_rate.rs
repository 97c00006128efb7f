//! Measures the worker alone: how many attempts that do nothing it takes, runs and reports in
//! a second, on one thread, against a server on another that only counts.
//!
//! `cargo bench -p punctual-worker --bench noop_rate -- [slots] [seconds]`

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use punctual_core::id::TaskId;
use punctual_core::{JobId, ServerId, ShardId, Timestamp};
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_server::{Worker as WorkerService, WorkerServer};
use punctual_worker::{Worker, WorkerError};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

fn main() -> Result<(), WorkerError> {
    let mut args = arguments().map(|arg| arg.parse().expect("a number"));
    let slots: u32 = args.next().unwrap_or(1024);
    let seconds: u32 = args.next().unwrap_or(5);
    let ended = Arc::new(AtomicU64::new(0));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("a bound port"));
    let server = Counter { ended: ended.clone(), slots };
    std::thread::spawn(move || one_thread().block_on(server.serve(listener)));

    let runtime = one_thread();
    runtime.block_on(async move {
        let measured = async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (begun, cpu, before) = (Instant::now(), cpu_secs(), ended.load(Ordering::Relaxed));
            tokio::time::sleep(Duration::from_secs(u64::from(seconds))).await;
            let outcomes = (ended.load(Ordering::Relaxed) - before) as f64;
            let (wall, cpu) = (begun.elapsed().as_secs_f64(), cpu_secs() - cpu);
            println!(
                "{slots} slots: {:.0} outcomes/s; {:.2} µs of the worker's thread each, {:.0} % busy",
                outcomes / wall,
                cpu / outcomes * 1e6,
                cpu / wall * 100.0,
            );
        };
        let worker = Worker::connect(url).slots(slots).standard_executors();
        worker.drain_timeout(Duration::from_millis(100)).run_until(measured).await
    })
}

fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn cpu_secs() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Keeps the worker's slots full, and acknowledges what it reports.
struct Counter {
    ended: Arc<AtomicU64>,
    slots: u32,
}

impl Counter {
    async fn serve(self, listener: std::net::TcpListener) {
        listener.set_nonblocking(true).expect("a socket can be non-blocking");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        // Without it, two sides that wait for each other's packets make rounds of 40 ms.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        tonic::transport::Server::builder()
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(4 << 20)
            .add_service(WorkerServer::new(self))
            .serve_with_incoming(incoming)
            .await
            .expect("the server runs");
    }
}

fn assignments(next: &mut u64, len: usize) -> wire::ServerMessage {
    let task = wire::TaskDefinition {
        task_id: id_bytes(TaskId::new(Timestamp::EPOCH, 1).to_bytes()),
        revision: 1,
        name: "noop".to_owned(),
        run: r#"{"probe":{}}"#.into(),
        timeout_us: 1_200_000_000,
        namespace: 0,
    };
    let assignments = (0..len).map(|_| {
        *next += 1;
        let job = JobId::new(Timestamp::EPOCH, ShardId(0), *next);
        wire::Assignment { job_id: id_bytes(job.to_bytes()), attempt: 1, ..Default::default() }
    });
    wire::ServerMessage { tasks: vec![task], assignments: assignments.collect(), ..Default::default() }
}

#[tonic::async_trait]
impl WorkerService for Counter {
    type WorkStream = Pin<Box<ReceiverStream<Result<wire::ServerMessage, Status>>>>;

    async fn work(
        &self,
        request: Request<Streaming<wire::WorkerMessage>>,
    ) -> Result<Response<Self::WorkStream>, Status> {
        let (outbound, sent) = mpsc::channel(16);
        let (ended, slots) = (self.ended.clone(), self.slots as usize);
        tokio::spawn(async move {
            let mut inbound = request.into_inner();
            let mut next = 0;
            let server_id = id_bytes(ServerId::new(Timestamp::EPOCH, 1).to_bytes());
            let greeting = Some(wire::Greeting { server_id, ..Default::default() });
            let _ = outbound.send(Ok(wire::ServerMessage { greeting, ..Default::default() })).await;
            let mut first = assignments(&mut next, slots);
            first.welcome = Some(wire::Welcome::default());
            let _ = outbound.send(Ok(first)).await;
            while let Ok(Some(message)) = inbound.message().await {
                let len = message.outcomes.len();
                ended.fetch_add(len as u64, Ordering::Relaxed);
                let mut answer = assignments(&mut next, len);
                let acks = message.outcomes.into_iter();
                answer.acks =
                    acks.map(|outcome| wire::AttemptRef { job_id: outcome.job_id, attempt: outcome.attempt }).collect();
                if len > 0 && outbound.send(Ok(answer)).await.is_err() {
                    break;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(sent))))
    }

    type HeartbeatStream = Pin<Box<tokio_stream::Pending<Result<wire::HeartbeatResponse, Status>>>>;

    async fn heartbeat(
        &self,
        _: Request<Streaming<wire::HeartbeatRequest>>,
    ) -> Result<Response<Self::HeartbeatStream>, Status> {
        Ok(Response::new(Box::pin(tokio_stream::pending())))
    }

    async fn admit(&self, _: Request<wire::AdmitRequest>) -> Result<Response<wire::AdmitReply>, Status> {
        Err(Status::unimplemented("there are no agents here"))
    }

    async fn download(&self, _: Request<wire::DownloadRequest>) -> Result<Response<wire::DownloadReply>, Status> {
        Err(Status::unimplemented("there are no files here"))
    }
}

/// Without the `--bench` that cargo adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}
