//! The port through which an executor asks servers to admit an agent for an attempt.

use async_trait::async_trait;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::{ArtifactId, JobId};

use crate::Download;

/// A request to admit an agent for an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    pub job: JobId,
    pub attempt: AttemptNo,
    pub artifact: ArtifactId,
    /// The random name of the environment.
    pub host_id: String,
    /// The name of the environment where it runs.
    pub pod: String,
}

/// What an agent needs for its attempt: its token, the download, and the servers.
#[derive(Clone, PartialEq, Eq)]
pub struct AdmissionGrant {
    /// Grants access to this attempt and nothing else. Everyone who has it can report for the attempt, so it must not
    /// be logged.
    pub token: String,
    pub download: Download,
    /// The address of the server that answered, as the worker reaches it.
    pub server: String,
    /// The addresses of the other servers that the worker knows, as it reaches them.
    pub others: Vec<String>,
}

/// Shows everything but the token.
impl std::fmt::Debug for AdmissionGrant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdmissionGrant")
            .field("download", &self.download)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// No server could answer now; it may work a moment later.
    #[error("no server could admit an agent: {0}")]
    Unavailable(String),
    /// The request was refused: the file is missing, or the answer makes no sense. A retry would not help.
    #[error("an agent was not admitted: {0}")]
    Refused(String),
}

#[async_trait]
pub trait Admissions: Send + Sync + 'static {
    /// Requests admission for an attempt that is assigned to this worker and not reported yet.
    async fn admit(&self, admission: Admission) -> Result<AdmissionGrant, AdmitError>;
}
