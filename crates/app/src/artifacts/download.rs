//! Lets a worker fetch the file of an attempt that it runs.

use std::ops::Range;

use http::Method;
use punctual_api::ErrorKind;
use punctual_blobs::{Blob, SignedQuery};
use punctual_core::{ArtifactId, AttemptNo, JobId, Span, Timestamp, WorkerId};
use punctual_store::ArtifactState;

use super::upload::bad_url;
use super::{file_key, refused, unfit, url_of};
use crate::principal::By;
use crate::principal::permission::ServeJobs;
use crate::route::Live;
use crate::{App, AppError, Result};

/// A worker has so long to begin the download.
const DOWNLOAD_WITHIN: Span = Span::from_secs(20 * 60);
/// S3 signs nothing for longer.
const SIGNED_FOR_MAX: Span = Span::from_secs(7 * 86_400);

/// Where a worker finds a file, and how it knows that it has it.
#[derive(Clone, PartialEq, Eq)]
pub struct Download {
    pub url: String,
    pub size: u64,
    pub sha256: [u8; 32],
}

impl App {
    /// For the worker that runs this attempt and nobody else; `None` for any other. `reached` is
    /// the address at which it reached this server.
    pub async fn download(
        &self,
        _: &By<ServeJobs>,
        worker: WorkerId,
        job: JobId,
        attempt: AttemptNo,
        id: ArtifactId,
        reached: &str,
    ) -> Result<Option<Download>> {
        if self.work_with(worker, job, attempt, id).await?.is_none() {
            return Ok(None);
        }
        Ok(Some(self.download_until(id, reached, self.now() + DOWNLOAD_WITHIN).await?))
    }

    /// Whether this worker runs this attempt now.
    pub(crate) async fn runs_on(&self, worker: WorkerId, job: JobId, attempt: AttemptNo) -> Result<bool> {
        if job.shard().0 >= self.0.store.shard_count() {
            return Ok(false);
        }
        match self.live(job).await? {
            Live::Running { view, .. } => Ok(view.worker == worker && view.attempt == attempt),
            Live::Waiting => Ok(false),
            Live::Unknown => {
                let error = AppError::new(ErrorKind::ShardMoving, format!("nobody knows now whether {job} runs"));
                Err(error.hint("ask again in a moment"))
            }
        }
    }

    /// For whoever may have the file.
    pub(crate) async fn download_until(&self, id: ArtifactId, reached: &str, until: Timestamp) -> Result<Download> {
        let Some(artifact) = self.0.store.artifact(id).await? else {
            return Err(unfit(id, punctual_store::Unfit::Unknown));
        };
        match &artifact.state {
            ArtifactState::Ready { .. } => {}
            ArtifactState::Refused { reason, .. } => return Err(refused(id, reason)),
            ArtifactState::Pending { .. } => {
                return Err(AppError::new(ErrorKind::ArtifactNotFound, format!("the file of {id} has not arrived")));
            }
        }
        let now = self.now();
        let signed = self.0.blobs.presign_get(&file_key(id), now, until.min(now + SIGNED_FOR_MAX)).await?;
        Ok(Download { url: url_of(signed, id, reached), size: artifact.size, sha256: artifact.sha256 })
    }

    /// The bytes behind a signed URL of our own, or some of them.
    pub async fn artifact_content(
        &self,
        id: ArtifactId,
        query: SignedQuery,
        range: Option<Range<u64>>,
    ) -> Result<Blob> {
        self.0.blobs.verify(&Method::GET, &file_key(id), &query, self.now()).map_err(bad_url)?;
        Ok(self.0.blobs.get(&file_key(id), range).await?)
    }

    /// How large it is.
    pub async fn artifact_content_size(&self, id: ArtifactId, query: &SignedQuery) -> Result<u64> {
        self.0.blobs.verify(&Method::GET, &file_key(id), query, self.now()).map_err(bad_url)?;
        let size = self.0.blobs.head(&file_key(id)).await?;
        size.ok_or_else(|| punctual_blobs::BlobError::NotFound.into())
    }
}
