//! Asks servers for the download URL of an attempt's file: implements the executors' `Downloads` port over gRPC.

use async_trait::async_trait;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::{ArtifactId, JobId};
use punctual_exec::{Download, DownloadError, Downloads};
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;

use crate::asker::{AskError, Asker, AttemptQuestion};

#[async_trait]
impl Downloads for Asker {
    async fn locate(&self, job: JobId, attempt: AttemptNo, artifact: ArtifactId) -> Result<Download, DownloadError> {
        let asked = self.ask((job, attempt), |mut client, asking| async move {
            let AttemptQuestion { worker_id, job_id, attempt, token } = asking;
            let artifact_id = id_bytes(artifact.to_bytes());
            let request = wire::DownloadRequest { worker_id, job_id, attempt, artifact_id, token };
            client.download(request).await
        });
        match asked.await {
            Ok(answer) => read(answer.reply).map_err(DownloadError::Refused),
            Err(AskError::Unavailable(reason)) => Err(DownloadError::Unavailable(reason)),
            Err(AskError::NotOurs(reason) | AskError::Refused(reason)) => Err(DownloadError::Refused(reason)),
        }
    }
}

pub(crate) fn read(reply: wire::DownloadReply) -> Result<Download, String> {
    let sha256 = reply.sha256.as_ref().try_into();
    let sha256 = sha256.map_err(|_| "the server sent a digest that is none".to_owned())?;
    Ok(Download { url: reply.url, size: reply.size, sha256 })
}
