//! Attempts that the test itself holds as a worker: one with the token of its assignment, one with the token of an agent.

use std::time::Duration;

use punctual_core::attempt::Outcome;
use punctual_core::shard::event::Report;
use punctual_core::{AttemptNo, JobId, Span};
use punctual_pki::{ClientTls, JoinToken, LeafKey, OwnCertificate, Trust};
use punctual_proto::convert::{self, outcome_to_wire};
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_client::WorkerClient;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::guest::{channel, introduce, join, own};

/// A worker that joined, with its stream to one server.
pub(crate) struct Holder {
    client: WorkerClient<Channel>,
    worker_id: bytes::Bytes,
    said: mpsc::Sender<wire::WorkerMessage>,
    heard: Streaming<wire::ServerMessage>,
    beating: tokio::task::JoinHandle<()>,
    pub(crate) certificate: OwnCertificate,
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

/// An attempt that was assigned and has no end yet.
#[derive(Clone)]
pub(crate) struct HeldAttempt {
    pub(crate) job: JobId,
    pub(crate) attempt: AttemptNo,
    pub(crate) token: bytes::Bytes,
}

impl Holder {
    /// Joins at a server and takes jobs of a queue.
    pub(crate) async fn join(url: &str, token: &JoinToken, queue: &str) -> Self {
        let key = LeafKey::generate().expect("a key");
        let issued = join(url, token, &key).await.expect("it joins");
        let certificate = own(&issued, &key);
        let tls = ClientTls::new(&Trust::Pinned(token.authority()), Some(certificate.clone()), &[b"h2"]);
        let mut client = WorkerClient::new(channel(url, tls.expect("a configuration")).await.expect("it is let in"));
        let mut me = wire::HeartbeatRequest::default();
        let say = |hello: &mut wire::Hello| {
            me = wire::HeartbeatRequest { worker_id: hello.worker_id.clone(), secret: hello.secret.clone() };
            hello.queues = vec![queue.to_owned()];
            hello.capabilities = ["probe", "binary", "agent"].map(str::to_owned).to_vec();
        };
        let (said, heard) = introduce(&mut client, say).await.expect("it is welcome");
        let (beats, beating) = mpsc::channel(1);
        let worker_id = me.worker_id.clone();
        let mut beater = client.clone();
        let beating_task = tokio::spawn(async move {
            let stream = beater.heartbeat(ReceiverStream::new(beating)).await;
            // Dropped with the task; what it says is that the worker is not known.
            let _complaints = stream.map(tonic::Response::into_inner);
            std::future::pending::<()>().await;
        });
        let beating = tokio::spawn(async move {
            while beats.send(me.clone()).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            beating_task.abort();
        });
        Self { client, worker_id, said, heard, beating, certificate }
    }

    /// The next attempts that it is given.
    pub(crate) async fn assigned(&mut self, count: usize) -> Vec<HeldAttempt> {
        let mut held = Vec::new();
        while held.len() < count {
            let message = self.heard.message().await.expect("the stream goes on").expect("the stream goes on");
            held.extend(message.assignments.into_iter().map(|assignment| HeldAttempt {
                job: convert::job_id(&assignment.job_id).expect("an id"),
                attempt: AttemptNo(assignment.attempt),
                token: assignment.token,
            }));
        }
        held
    }

    /// The token of an agent for an attempt that it holds.
    pub(crate) async fn admit(&self, held: &HeldAttempt, artifact: &[u8]) -> String {
        self.try_admit(held, artifact).await.expect("the agent is admitted").token
    }

    pub(crate) async fn try_admit(&self, held: &HeldAttempt, artifact: &[u8]) -> Result<wire::AdmitReply, Status> {
        let request = wire::AdmitRequest {
            worker_id: self.worker_id.clone(),
            job_id: convert::id_bytes(held.job.to_bytes()),
            attempt: held.attempt.0,
            artifact_id: artifact.to_vec().into(),
            host_id: "host-1".to_owned(),
            pod: "pod".to_owned(),
            token: held.token.clone(),
        };
        self.client.clone().admit(request).await.map(tonic::Response::into_inner)
    }

    /// Where a file of an attempt is.
    pub(crate) async fn try_download(
        &self,
        held: &HeldAttempt,
        artifact: &[u8],
    ) -> Result<wire::DownloadReply, Status> {
        let request = wire::DownloadRequest {
            worker_id: self.worker_id.clone(),
            job_id: convert::id_bytes(held.job.to_bytes()),
            attempt: held.attempt.0,
            artifact_id: artifact.to_vec().into(),
            token: held.token.clone(),
        };
        self.client.clone().download(request).await.map(tonic::Response::into_inner)
    }

    /// Reports that an attempt has ended well, and waits until that is durable.
    pub(crate) async fn succeed(&mut self, held: &HeldAttempt) {
        let outcome = Outcome::Succeeded { output: None };
        let report = Report { id: held.job, attempt: held.attempt, outcome, timed_out: false, details: None };
        let outcome = wire::Outcome { token: held.token.clone(), ..outcome_to_wire(&report) };
        let message = wire::WorkerMessage { outcomes: vec![outcome], ..Default::default() };
        self.said.send(message).await.expect("the stream is open");
        let ends = async {
            loop {
                let message = self.heard.message().await.expect("the stream goes on").expect("the stream goes on");
                let is_it = |ack: &wire::AttemptRef| ack.job_id[..] == held.job.to_bytes();
                if message.acks.iter().any(is_it) {
                    break;
                }
            }
        };
        tokio::time::timeout(Span::from_secs(30).to_std(), ends).await.expect("the outcome is acknowledged");
    }
}
