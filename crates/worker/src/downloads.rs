//! Asks servers where the file of an attempt is.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::{ArtifactId, JobId, WorkerId};
use punctual_exec::{Download, DownloadError, Downloads};
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;
use punctual_proto::worker::worker_client::WorkerClient;
use tonic::{Code, Status};

use crate::link::Server;
use crate::servers::ServerList;

/// For one server. An answer takes it a look at its memory and one at the store.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// For executors that are made before the worker runs, and so before it has servers.
#[derive(Clone, Default)]
pub(crate) struct Asker(Arc<OnceLock<(WorkerId, ServerList)>>);

impl Asker {
    /// A second run of the same worker keeps asking the servers of the first.
    pub(crate) fn begin(&self, worker: WorkerId, servers: ServerList) {
        let _ = self.0.set((worker, servers));
    }
}

#[async_trait]
impl Downloads for Asker {
    async fn locate(&self, job: JobId, attempt: AttemptNo, artifact: ArtifactId) -> Result<Download, DownloadError> {
        let Some((worker, servers)) = self.0.get() else {
            return Err(DownloadError::Unavailable("the worker does not run yet".to_owned()));
        };
        let request = wire::DownloadRequest {
            worker_id: id_bytes(worker.to_bytes()),
            job_id: id_bytes(job.to_bytes()),
            attempt: attempt.0,
            artifact_id: id_bytes(artifact.to_bytes()),
        };
        let servers = servers.borrow().clone();
        let mut reasons = Vec::new();
        // Any of them knows whom to ask; the first that answers is as good as the rest.
        for server in servers.iter() {
            match ask(server, request.clone()).await {
                Ok(reply) => return read(reply),
                Err(status) if is_final(&status) => return Err(DownloadError::Refused(status.message().to_owned())),
                Err(status) => reasons.push(format!("{}: {}", server.url, status.message())),
            }
        }
        Err(DownloadError::Unavailable(if reasons.is_empty() {
            "no server is known".to_owned()
        } else {
            reasons.join("; ")
        }))
    }
}

async fn ask(server: &Server, request: wire::DownloadRequest) -> Result<wire::DownloadReply, Status> {
    let asked = async {
        let channel = server.beat_endpoint.connect().await;
        let channel = channel.map_err(|error| Status::unavailable(punctual_exec::root_cause(&error)))?;
        Ok(WorkerClient::new(channel).download(request).await?.into_inner())
    };
    tokio::time::timeout(ANSWER_LIMIT, asked).await.unwrap_or_else(|_| Err(Status::unavailable("no answer in time")))
}

/// Whether asking again, or another server, would be answered the same.
fn is_final(status: &Status) -> bool {
    matches!(status.code(), Code::PermissionDenied | Code::InvalidArgument | Code::NotFound)
}

fn read(reply: wire::DownloadReply) -> Result<Download, DownloadError> {
    let sha256 = reply.sha256.as_ref().try_into();
    let sha256 = sha256.map_err(|_| DownloadError::Refused("the server sent a digest that is none".to_owned()))?;
    Ok(Download { url: reply.url, size: reply.size, sha256 })
}
