//! The one shape of what happens by itself.

use std::time::Duration;

use async_trait::async_trait;
use punctual_app::AppError;
use punctual_blobs::BlobError;
use punctual_engine::EngineError;
use punctual_store::StoreError;

/// Work that a server does without being asked. A crash during a tick loses nothing: the next tick, on this server or
/// another, finds what was left undone.
#[async_trait]
pub trait Duty: Send {
    /// Names the duty in logs and in [`DutyStatus`](crate::DutyStatus).
    fn name(&self) -> &'static str;

    /// The lease that a server must hold to tick. Without one, every server ticks.
    fn lease(&self) -> Option<&'static str>;

    /// Does what there is to do now, and says when to tick again.
    async fn tick(&mut self) -> Result<Next, TickError>;

    /// How long after its start a server ticks for the first time.
    fn first_after(&self) -> Duration {
        Duration::ZERO
    }

    /// Resolves when there is something to do before the next tick is due. The runner drops the future when the tick is
    /// due first, so nothing may be lost with it.
    async fn wake(&mut self) {
        std::future::pending().await
    }

    /// Forgets earlier ticks: another server has held the lease since.
    fn lease_lost(&mut self) {}
}

/// When a duty ticks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// There is more to do already.
    AtOnce,
    After(Duration),
}

/// Why a tick ended early. The runner ticks again after a back-off.
#[derive(Debug, thiserror::Error)]
pub enum TickError {
    /// The database is unavailable. The engine logs that once for the whole server, so a duty does not.
    #[error("{0}")]
    Unavailable(String),
    /// The server is shutting down: this duty does not tick any more.
    #[error("the engine has stopped")]
    Stopped,
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl From<StoreError> for TickError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Faulty { .. } | StoreError::Closed => {
                Self::Unavailable(error.to_string())
            }
            StoreError::Inconsistent(_) | StoreError::InUse(_) | StoreError::Schema(_) | StoreError::DataLoss(_) => {
                Self::Failed(error.into())
            }
        }
    }
}

impl From<BlobError> for TickError {
    fn from(error: BlobError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<AppError> for TickError {
    fn from(error: AppError) -> Self {
        if error.kind.is_outage() { Self::Unavailable(error.to_string()) } else { Self::Failed(error.into()) }
    }
}

impl From<EngineError> for TickError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Stopped => Self::Stopped,
            EngineError::NoLease | EngineError::ClockSkew(_) => Self::Unavailable(error.to_string()),
        }
    }
}
