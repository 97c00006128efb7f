//! Asks servers to admit an agent for an attempt: implements the executors' `Admissions` port over gRPC.

use async_trait::async_trait;
use punctual_exec::{Admission, AdmissionGrant, Admissions, AdmitError};
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;

use crate::asker::{AskError, Asker, AttemptQuestion, ServerAnswer};
use crate::downloads;

#[async_trait]
impl Admissions for Asker {
    async fn admit(&self, admission: Admission) -> Result<AdmissionGrant, AdmitError> {
        let asked = self.ask((admission.job, admission.attempt), |mut client, asking| {
            let AttemptQuestion { worker_id, job_id, attempt, token } = asking;
            let request = wire::AdmitRequest {
                worker_id,
                job_id,
                attempt,
                token,
                artifact_id: id_bytes(admission.artifact.to_bytes()),
                host_id: admission.host_id.clone(),
                pod: admission.pod.clone(),
            };
            async move { client.admit(request).await }
        });
        match asked.await {
            Ok(answer) => read(answer).map_err(AdmitError::Refused),
            // A server that is behind may say so of an attempt that is ours. If it is another's, nobody listens
            // to what we say of it.
            Err(AskError::Unavailable(reason) | AskError::NotOurs(reason)) => Err(AdmitError::Unavailable(reason)),
            Err(AskError::Refused(reason)) => Err(AdmitError::Refused(reason)),
        }
    }
}

fn read(answer: ServerAnswer<wire::AdmitReply>) -> Result<AdmissionGrant, String> {
    let wire::AdmitReply { token, download } = answer.reply;
    if token.is_empty() {
        return Err("the server sent no token".to_owned());
    }
    let download = download.ok_or_else(|| "the server did not say where the file is".to_owned())?;
    Ok(AdmissionGrant { token, download: downloads::read(download)?, server: answer.server, others: answer.others })
}
