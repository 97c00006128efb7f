//! The far side of a call: real sockets that answer as a test says.

#![allow(dead_code, reason = "no single test file uses all of it")]

pub(crate) mod secure;
pub(crate) mod smtp;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use punctual_core::attempt::{AttemptNo, Failure, Outcome};
use punctual_core::task::{HttpCall, Run};
use punctual_core::{JobId, NamespaceId, ShardId, Span, Timestamp};
use punctual_exec::{Call, Cancel, ExecutionEnd, Executor, Guard, Http, LogOutlet, LogSink, Outbound, Places};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Reached only when a test fails.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Silent;

impl LogOutlet for Silent {
    fn ready(&self, _: LogSink) {}
}

pub(crate) fn job() -> JobId {
    JobId::new(Timestamp::EPOCH, ShardId(0), 1)
}

pub(crate) fn get(url: impl Into<String>) -> HttpCall {
    HttpCall { timeout: Span::from_secs(20), ..HttpCall::new(url) }
}

/// An outcome with what was logged on the way.
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    pub(crate) log: String,
}

impl Done {
    /// Neither the log nor the outcome shows the secret.
    #[track_caller]
    pub(crate) fn without(self, secret: &str) -> Self {
        assert!(!self.log.contains(secret), "{}", self.log);
        assert!(!format!("{:?}", self.outcome).contains(secret), "{:?}", self.outcome);
        self
    }

    pub(crate) fn failure(self) -> Failure {
        match self.outcome {
            Outcome::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn output(&self) -> serde_json::Value {
        match &self.outcome {
            Outcome::Succeeded { output: Some(output) } => serde_json::from_slice(output).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

/// An answer with this status, more headers and this body.
pub(crate) fn answer(status: u16, more: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\n{more}content-length: {}\r\n\r\n{body}", body.len())
}

/// An address at which nobody listens.
pub(crate) async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

pub(crate) async fn execute(spec: HttpCall, input: Option<&'static str>) -> Done {
    execute_with(spec, input, Cancel::default()).await
}

pub(crate) async fn execute_with(spec: HttpCall, input: Option<&'static str>, cancel: Cancel) -> Done {
    perform(Arc::new(Http::new(Arc::new(outbound(Places::LOOPBACK)))), Run::Http(spec), input, cancel).await
}

/// May call what `allow` names.
pub(crate) fn outbound(allow: &str) -> Outbound {
    Outbound::new(Guard::new(Places::parse(allow).unwrap(), Places::default()))
}

pub(crate) async fn perform(
    executor: Arc<dyn Executor>,
    run: Run,
    input: Option<&'static str>,
    cancel: Cancel,
) -> Done {
    let words = Words { task: "a task", input, tracing_id: "trace-7" };
    perform_with(executor, run, words, cancel).await
}

/// What a job brings along beside its task's own fields.
#[derive(Clone, Copy)]
pub(crate) struct Words<'w> {
    pub(crate) task: &'w str,
    pub(crate) input: Option<&'w str>,
    pub(crate) tracing_id: &'w str,
}

pub(crate) async fn perform_with(executor: Arc<dyn Executor>, run: Run, words: Words<'_>, cancel: Cancel) -> Done {
    let log = LogSink::new(job(), AttemptNo(3), 1 << 20, Arc::new(Silent));
    let call = Call {
        job: job(),
        attempt: AttemptNo(3),
        namespace: NamespaceId::DEFAULT,
        task: words.task.into(),
        run: Arc::new(run),
        input: words.input.map(|input| Bytes::copy_from_slice(input.as_bytes())),
        tracing_id: Some(words.tracing_id.to_owned()),
        scheduled_run: None,
        log: log.clone(),
        cancel,
        deadline: None,
    };
    let ExecutionEnd { outcome, .. } =
        tokio::time::timeout(LIMIT, executor.execute(call)).await.expect("an end in time");
    let mut text = Vec::new();
    while let Some(piece) = log.take(usize::MAX) {
        text.extend_from_slice(&piece.bytes);
    }
    Done { outcome, log: String::from_utf8(text).unwrap() }
}

/// What the far side received, head and body.
pub(crate) type Received = Arc<Mutex<Vec<String>>>;

/// Answers every request with the same bytes.
pub(crate) async fn answering(answer: impl Into<Vec<u8>>) -> (SocketAddr, Received) {
    answering_at("127.0.0.1:0", answer).await
}

pub(crate) async fn answering_at(address: &str, answer: impl Into<Vec<u8>>) -> (SocketAddr, Received) {
    let answer = answer.into();
    let received = Received::default();
    let listener = TcpListener::bind(address).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let requests = received.clone();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let request = read_request(&mut socket).await;
            requests.lock().unwrap().push(request);
            let _ = socket.write_all(&answer).await;
        }
    });
    (addr, received)
}

pub(crate) async fn read_request(socket: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    loop {
        if socket.read_buf(&mut bytes).await.unwrap() == 0 {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        if body.len() == length {
            return text.into_owned();
        }
    }
}

pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
