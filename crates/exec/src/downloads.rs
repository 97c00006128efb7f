//! Where an executor learns from where to fetch the file that an attempt runs.

use async_trait::async_trait;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::{ArtifactId, JobId};

/// A file, and how to know that all of it was fetched.
#[derive(Clone, PartialEq, Eq)]
pub struct Download {
    /// The URL for GET, with ranges and without credentials, valid for 20 minutes. Everyone who has it can fetch the
    /// file, so it must not be logged.
    pub url: String,
    pub size: u64,
    /// What does not fit it must not be run.
    pub sha256: [u8; 32],
}

/// Shows everything but the URL.
impl std::fmt::Debug for Download {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Download").field("size", &self.size).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// No server could answer now; it may work a moment later.
    #[error("no server could say where the file is: {0}")]
    Unavailable(String),
    /// The request was refused: the attempt is not this worker's, or the file is missing. A retry would not help.
    #[error("the file is not to be had: {0}")]
    Refused(String),
}

#[async_trait]
pub trait Downloads: Send + Sync + 'static {
    /// Only for an attempt that this worker was given and has not reported.
    async fn locate(&self, job: JobId, attempt: AttemptNo, artifact: ArtifactId) -> Result<Download, DownloadError>;
}
