//! Workers that were seen, so that whoever ran an attempt stays known when it is gone.

use async_trait::async_trait;
use punctual_core::{Timestamp, WorkerId};

use crate::Result;

/// A worker as it described itself. Every start of a process is a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenWorker {
    pub id: WorkerId,
    pub name: String,
    /// Its machine; `None` if it did not say.
    pub host: Option<String>,
    pub version: String,
    pub first_seen_at: Timestamp,
    /// Behind the truth while it is connected.
    pub last_seen_at: Timestamp,
    /// When it said that it leaves. `None` of one that is connected, or was lost.
    pub left_at: Option<Timestamp>,
}

/// Rows go by retention, some days after the worker was last seen.
#[async_trait]
pub trait SeenWorkers: Send + Sync + 'static {
    /// Adds workers, or renews what is known of them. Servers may tell in any order: of each worker the first and the last
    /// time stay, and that it has left; everything else is as told with the last time. Crash before: some servers' news are
    /// missing until they are told again.
    async fn keep_workers(&self, workers: Vec<SeenWorker>) -> Result<()>;

    /// Those of `ids` that are known, in no order.
    async fn workers_by_id(&self, ids: Vec<WorkerId>) -> Result<Vec<SeenWorker>>;

    /// Those that were last seen at or after `since`, the latest first, at most `limit`.
    async fn workers_since(&self, since: Timestamp, limit: usize) -> Result<Vec<SeenWorker>>;
}
