//! Removes what crashes have left in the storage: files without an artifact, uploads that are not awaited, copies that
//! nobody checks, and objects of logs that no attempt names.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_blobs::{Blobs, Key};
use punctual_core::ArtifactId;
use punctual_engine::RETENTION;
use punctual_store::{ArtifactState, Store};

use crate::log_archive::LogSweep;
use crate::shared_storage::SharedStorage;
use crate::{Context, Duty, Next, TickError};

/// A sweep lists all files that there are.
const EVERY: Duration = Duration::from_secs(3600);
/// A server that has just started has more urgent things to do.
const FIRST_AFTER: Duration = Duration::from_secs(60);
/// Keys in one page.
const PAGE: usize = 1000;

/// Deletes files that nothing refers to.
pub struct StorageSweep {
    store: Arc<dyn Store>,
    blobs: Blobs,
    logs: LogSweep,
    servers: SharedStorage,
}

impl StorageSweep {
    pub fn new(context: &Context) -> Self {
        Self {
            store: Arc::clone(&context.store),
            blobs: context.blobs.clone(),
            logs: LogSweep::new(context),
            servers: SharedStorage::new(context),
        }
    }

    async fn sweep_artifacts(&self) -> Result<usize, TickError> {
        let mut removed = 0;
        for folder in ["artifacts", "uploads", "checks"] {
            let folder_key = Key::new(folder).expect("a word is a key");
            let mut after: Option<Key> = None;
            loop {
                let page = self.blobs.list(&folder_key, after.as_ref(), PAGE).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.key.clone());
                for found in page {
                    if self.is_orphan(folder, &found.key).await? {
                        self.blobs.delete(&found.key).await?;
                        removed += 1;
                    }
                }
            }
        }
        Ok(removed)
    }

    async fn is_orphan(&self, folder: &str, key: &Key) -> Result<bool, TickError> {
        // A copy that is being checked has a number after the id.
        let name = key.name().split('-').next().unwrap_or_default();
        // Files with other names are not ours.
        let Ok(id) = name.parse::<ArtifactId>() else { return Ok(false) };
        let state = self.store.artifact(id).await?.map(|artifact| artifact.state);
        Ok(match state {
            None | Some(ArtifactState::Refused { .. }) => true,
            Some(ArtifactState::Ready { .. }) => folder != "artifacts",
            Some(ArtifactState::Pending { .. }) => false,
        })
    }
}

#[async_trait]
impl Duty for StorageSweep {
    fn name(&self) -> &'static str {
        "storage-sweep"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(RETENTION)
    }

    fn first_after(&self) -> Duration {
        FIRST_AFTER
    }

    async fn tick(&mut self) -> Result<Next, TickError> {
        let mut removed = self.blobs.sweep().await?;
        removed += self.sweep_artifacts().await?;
        removed += self.servers.sweep().await?;
        removed += self.logs.sweep().await?;
        if removed > 0 {
            tracing::info!(files = removed, "removed files that nothing refers to");
        }
        Ok(Next::After(EVERY))
    }
}
