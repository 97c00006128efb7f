//! A client of the worker protocol that says what it is told to.

use bytes::Bytes;
use punctual_core::{JobId, Timestamp, WorkerId};
use punctual_proto::convert::id_bytes;
use punctual_proto::identity::WorkerSecret;
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_client::WorkerClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use super::HOSTILE;
use crate::harness::{PATIENCE, Server};

/// One stream to a server.
pub(super) struct Liar {
    pub(super) secret: WorkerSecret,
    pub(super) id: WorkerId,
    acquired: u64,
    said: mpsc::Sender<wire::WorkerMessage>,
    heard: Streaming<wire::ServerMessage>,
}

/// An attempt that the server gave it.
#[derive(Clone)]
pub(super) struct Assigned {
    pub(super) job: JobId,
    pub(super) attempt: u32,
    pub(super) token: Bytes,
}

/// A client that may send more than the server takes.
pub(super) async fn client(server: &Server) -> WorkerClient<Channel> {
    let client = WorkerClient::connect(server.url.clone()).await.expect("the server takes connections");
    client.max_encoding_message_size(64 << 20)
}

/// The secret of a worker that was never seen.
pub(super) fn new_secret() -> WorkerSecret {
    let mut random = [0; 32];
    getrandom::fill(&mut random).expect("the system has random bytes");
    WorkerSecret::new(random)
}

pub(super) fn secret_bytes(secret: &WorkerSecret) -> Bytes {
    Bytes::from(secret.to_bytes().to_vec())
}

impl Liar {
    /// Has heard the greeting and said nothing yet.
    pub(super) async fn greeted(server: &Server, secret: WorkerSecret) -> Self {
        let (said, messages) = mpsc::channel(1);
        let heard = client(server).await.work(ReceiverStream::new(messages)).await.expect("it may open a stream");
        let mut heard = heard.into_inner();
        let greeting = heard.message().await.expect("the server greets").and_then(|message| message.greeting);
        let acquired = greeting.expect("the first message is a greeting").acquired;
        // When it started is nobody's business here.
        let id = secret.worker_id(Timestamp::EPOCH);
        Self { secret, id, acquired, said, heard }
    }

    /// What an honest worker of the hostile queue would say.
    pub(super) fn hello(&self) -> wire::Hello {
        wire::Hello {
            worker_id: id_bytes(self.id.to_bytes()),
            secret: secret_bytes(&self.secret),
            name: "liar".to_owned(),
            version: "0".to_owned(),
            queues: vec![HOSTILE.to_owned()],
            capabilities: vec!["probe".to_owned()],
            credit: 8,
            acquired: self.acquired,
            ..Default::default()
        }
    }

    /// Says hello; the answer is the server's.
    pub(super) async fn introduce(&mut self, hello: wire::Hello) -> Result<(), Status> {
        self.say(wire::WorkerMessage { hello: Some(hello), ..Default::default() }).await;
        let message = self.hear().await?.ok_or_else(|| Status::cancelled("the server closed the stream"))?;
        message.welcome.map(|_| ()).ok_or_else(|| Status::internal("no welcome"))
    }

    /// Let in as a worker of the hostile queue.
    pub(super) async fn welcomed(server: &Server) -> Self {
        let mut liar = Self::greeted(server, new_secret()).await;
        let hello = liar.hello();
        liar.introduce(hello).await.expect("an honest hello is welcome");
        liar
    }

    pub(super) async fn say(&self, message: wire::WorkerMessage) {
        let said = tokio::time::timeout(PATIENCE, self.said.send(message)).await.expect("the server reads");
        // Not heard when the server has closed the stream.
        let _ = said;
    }

    /// Says as much as the server reads, up to so many messages, and reads nothing itself.
    pub(super) async fn shout(&self, message: &wire::WorkerMessage, count: usize) -> usize {
        for said in 0..count {
            let unread = std::time::Duration::from_secs(2);
            if !matches!(tokio::time::timeout(unread, self.said.send(message.clone())).await, Ok(Ok(()))) {
                return said;
            }
        }
        count
    }

    pub(super) async fn hear(&mut self) -> Result<Option<wire::ServerMessage>, Status> {
        tokio::time::timeout(PATIENCE, self.heard.message()).await.expect("the server says something")
    }

    /// The next attempt that it is given.
    pub(super) async fn assigned(&mut self) -> Assigned {
        loop {
            let message = self.hear().await.expect("the stream is open").expect("the stream is open");
            if let Some(assignment) = message.assignments.into_iter().next() {
                let job = JobId::from_bytes(&assignment.job_id).expect("a job id");
                return Assigned { job, attempt: assignment.attempt, token: assignment.token };
            }
        }
    }

    /// Waits until the server acknowledges the outcome of this attempt.
    pub(super) async fn acknowledged(&mut self, job: JobId) {
        loop {
            let message = self.hear().await.expect("the stream is open").expect("the stream is open");
            if message.acks.iter().any(|ack| ack.job_id == id_bytes(job.to_bytes())) {
                return;
            }
        }
    }

    /// Waits until the server has ended the stream.
    pub(super) async fn cut_off(&mut self) {
        while let Ok(Some(_)) = self.hear().await {}
    }

    pub(super) async fn report(&self, outcome: wire::Outcome) {
        self.say(wire::WorkerMessage { outcomes: vec![outcome], ..Default::default() }).await;
    }

    pub(super) async fn print(&self, logs: Vec<wire::LogChunk>) {
        self.say(wire::WorkerMessage { logs, ..Default::default() }).await;
    }
}

impl Assigned {
    pub(super) fn succeeded(&self, output: Option<Bytes>) -> wire::Outcome {
        self.outcome(wire::outcome::Result::Succeeded(wire::Succeeded { output }))
    }

    pub(super) fn failed(&self, reason: String) -> wire::Outcome {
        let failed = wire::Failed { reason, r#final: true, retry_after_us: Some(u64::MAX), ..Default::default() };
        self.outcome(wire::outcome::Result::Failed(failed))
    }

    fn outcome(&self, result: wire::outcome::Result) -> wire::Outcome {
        wire::Outcome {
            job_id: id_bytes(self.job.to_bytes()),
            attempt: self.attempt,
            result: Some(result),
            details: None,
            token: self.token.clone(),
        }
    }

    pub(super) fn printed(&self, offset: u64, bytes: impl Into<Bytes>) -> wire::LogChunk {
        wire::LogChunk {
            job_id: id_bytes(self.job.to_bytes()),
            attempt: self.attempt,
            offset,
            bytes: bytes.into(),
            marks: Bytes::new(),
            token: self.token.clone(),
        }
    }
}

#[track_caller]
pub(super) fn denied<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code) {
    let status = answer.expect_err("the server refuses it");
    assert_eq!(status.code(), code, "{status}");
}
