//! Asks servers where the file of an attempt is.

use async_trait::async_trait;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::{ArtifactId, JobId};
use punctual_exec::{Download, DownloadError, Downloads};
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;

use crate::asker::{Asker, Asking, Unanswered};

#[async_trait]
impl Downloads for Asker {
    async fn locate(&self, job: JobId, attempt: AttemptNo, artifact: ArtifactId) -> Result<Download, DownloadError> {
        let asked = self.ask((job, attempt), |mut client, asking| async move {
            let Asking { worker_id, job_id, attempt, token } = asking;
            let artifact_id = id_bytes(artifact.to_bytes());
            let request = wire::DownloadRequest { worker_id, job_id, attempt, artifact_id, token };
            client.download(request).await
        });
        match asked.await {
            Ok(answer) => read(answer.reply).map_err(DownloadError::Refused),
            Err(Unanswered::Unavailable(reason)) => Err(DownloadError::Unavailable(reason)),
            Err(Unanswered::NotOurs(reason) | Unanswered::Refused(reason)) => Err(DownloadError::Refused(reason)),
        }
    }
}

pub(crate) fn read(reply: wire::DownloadReply) -> Result<Download, String> {
    let sha256 = reply.sha256.as_ref().try_into();
    let sha256 = sha256.map_err(|_| "the server sent a digest that is none".to_owned())?;
    Ok(Download { url: reply.url, size: reply.size, sha256 })
}
