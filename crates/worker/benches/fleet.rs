//! Opens many idle workers to each of the given servers, in one process, as a measure of what
//! they cost a server. Each is what a worker is to a server: a stream, and a heartbeat on a
//! connection of its own.
//!
//! `cargo bench -p punctual-worker --bench fleet -- <workers> <seconds> <url>…`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use punctual_core::Timestamp;
use punctual_proto::convert::id_bytes;
use punctual_proto::identity::WorkerSecret;
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_client::WorkerClient;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

/// Workers that connect at the same time. More would only fill the servers' queues of
/// connections that were not accepted yet.
const CONNECTING_MAX: usize = 64;

#[derive(Default)]
struct Tally {
    connected: AtomicUsize,
    beats: AtomicUsize,
    failed: AtomicUsize,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = arguments();
    let usage = "fleet <workers> <seconds> <url>…";
    let workers: u64 = args.next().ok_or(usage)?.parse()?;
    let seconds: u64 = args.next().ok_or(usage)?.parse()?;
    let urls: Vec<String> = args.collect();
    let tally = Arc::new(Tally::default());
    let connecting = Arc::new(Semaphore::new(CONNECTING_MAX));
    let begun = Instant::now();
    for number in 0..workers {
        for url in &urls {
            let worker = idle(url.clone(), number, connecting.clone(), tally.clone());
            let tally = tally.clone();
            tokio::spawn(async move {
                if let Err(error) = worker.await
                    && tally.failed.fetch_add(1, Ordering::Relaxed) == 0
                {
                    eprintln!("the first failure: {error}");
                }
            });
        }
    }
    let all = workers as usize * urls.len();
    while tally.connected.load(Ordering::Relaxed) + tally.failed.load(Ordering::Relaxed) < all {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("{} streams to {} servers are up after {:.1?}", all, urls.len(), begun.elapsed());
    // Heartbeats and pings reach their rhythm.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (begun, cpu, beats) = (Instant::now(), cpu_secs(), tally.beats.load(Ordering::Relaxed));
    let mut before = Vec::new();
    for url in &urls {
        before.push(server_usage(url).await?.0);
    }
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let wall = begun.elapsed().as_secs_f64();
    for (url, before) in urls.iter().zip(before) {
        let (cpu, rss) = server_usage(url).await?;
        let (percent, mib) = ((cpu - before) as f64 / 1e4 / wall, rss as f64 / f64::from(1 << 20));
        println!("{url}: {percent:.2} % of a core, {mib:.0} MiB");
    }
    println!(
        "{:.0} heartbeats/s; this process: {:.2} % of a core; {} failures",
        (tally.beats.load(Ordering::Relaxed) - beats) as f64 / wall,
        (cpu_secs() - cpu) / wall * 100.0,
        tally.failed.load(Ordering::Relaxed),
    );
    Ok(())
}

/// Connects, and beats until the program ends.
async fn idle(
    url: String,
    number: u64,
    connecting: Arc<Semaphore>,
    tally: Arc<Tally>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let permit = connecting.acquire().await?;
    let mut secret = [0; 32];
    secret[..8].copy_from_slice(&number.to_be_bytes());
    let secret = WorkerSecret::new(secret);
    let worker_id = id_bytes(secret.worker_id(Timestamp::EPOCH).to_bytes());
    let secret = Bytes::from(secret.to_bytes().to_vec());
    let endpoint = Endpoint::from_shared(url)?
        .tcp_nodelay(true)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_while_idle(true);
    let streaming = endpoint.clone().initial_stream_window_size(4 << 20).initial_connection_window_size(4 << 20);
    let mut client = WorkerClient::new(streaming.connect().await?);
    let (sender, messages) = mpsc::channel(1);
    let mut inbound = client.work(ReceiverStream::new(messages)).await?.into_inner();
    let greeting = inbound.message().await?.and_then(|message| message.greeting).ok_or("no greeting")?;
    let hello = wire::Hello {
        worker_id: worker_id.clone(),
        name: format!("idle-{number}"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        queues: vec!["default".to_owned()],
        capabilities: vec!["http".to_owned(), "probe".to_owned()],
        credit: 8,
        acquired: greeting.acquired,
        secret: secret.clone(),
        ..Default::default()
    };
    sender.send(wire::WorkerMessage { hello: Some(hello), ..Default::default() }).await?;
    let welcome = inbound.message().await?.and_then(|message| message.welcome).ok_or("no welcome")?;
    let mut heart = WorkerClient::new(endpoint.connect().await?);
    let (beats, messages) = mpsc::channel(1);
    let mut complaints = heart.heartbeat(ReceiverStream::new(messages)).await?.into_inner();
    tally.connected.fetch_add(1, Ordering::Relaxed);
    drop(permit);
    let every = Duration::from_millis(u64::from(welcome.heartbeat_ms));
    // Spread over the period, as a fleet is that did not start in one moment.
    tokio::time::sleep(every.mul_f64(number as f64 * 0.618_034 % 1.0)).await;
    let mut ticks = tokio::time::interval(every);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                beats.send(wire::HeartbeatRequest { worker_id: worker_id.clone(), secret: secret.clone() }).await?;
                tally.beats.fetch_add(1, Ordering::Relaxed);
            }
            complaint = complaints.message() => {
                complaint?.ok_or("the server closed the stream of heartbeats")?;
                return Err("the server does not know this worker".into());
            }
            message = inbound.message() => {
                message?.ok_or("the server closed the stream")?;
            }
        }
    }
}

/// CPU time in microseconds and memory in bytes, as the server itself says.
async fn server_usage(url: &str) -> Result<(u64, u64), Box<dyn Error>> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = tokio::net::TcpStream::connect(host).await?;
    let request = format!("GET /v1/stats HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer.split("\r\n\r\n").nth(1).ok_or("no answer")?;
    let stats: serde_json::Value = serde_json::from_str(body)?;
    let figure = |name: &str| stats[name].as_u64().ok_or("the server does not tell");
    Ok((figure("cpu_us")?, figure("rss_bytes")?))
}

fn cpu_secs() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Without the `--bench` that cargo adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}
