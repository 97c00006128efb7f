//! Where an executor asks that an agent may run an attempt in its stead.

use async_trait::async_trait;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::{ArtifactId, JobId};

use crate::Download;

/// What an agent is wanted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    pub job: JobId,
    pub attempt: AttemptNo,
    pub artifact: ArtifactId,
    /// Random, for one environment alone.
    pub host_id: String,
    /// What the environment is called where it runs.
    pub pod: String,
}

/// What an agent needs for its attempt.
#[derive(Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Opens this attempt and nothing else. Whoever has it can report for the attempt, so it
    /// belongs into no log.
    pub token: String,
    pub download: Download,
    /// The address of the server that answered, as the worker reaches it.
    pub server: String,
    /// The other servers that the worker knows, as it reaches them.
    pub others: Vec<String>,
}

/// Without the token.
impl std::fmt::Debug for Admitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admitted")
            .field("download", &self.download)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// It may work in a moment.
    #[error("no server could admit an agent: {0}")]
    Unavailable(String),
    /// It will not work: the file is not there, or the answer makes no sense.
    #[error("an agent was not admitted: {0}")]
    Refused(String),
}

#[async_trait]
pub trait Admissions: Send + Sync + 'static {
    /// Only for an attempt that this worker was given and has not reported.
    async fn admit(&self, admission: Admission) -> Result<Admitted, AdmitError>;
}
