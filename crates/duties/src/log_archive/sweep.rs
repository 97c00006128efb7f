//! Deletes objects that no attempt names: those that a server wrote whose lease had gone to another.

use std::sync::Arc;

use punctual_app::App;
use punctual_app::logs::marks;
use punctual_blobs::{Blobs, Key};
use punctual_core::{AttemptNo, JobId, Span};
use punctual_store::Store;

use super::object::{FOLDER, ObjectName, day};
use crate::{Context, TickError};

/// Keys in one page.
const PAGE: usize = 1000;

pub(crate) struct LogSweep {
    app: App,
    store: Arc<dyn Store>,
    blobs: Blobs,
    retention: Span,
}

impl LogSweep {
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            app: context.app.clone(),
            store: Arc::clone(&context.store),
            blobs: context.blobs.clone(),
            retention: context.settings.retention,
        }
    }

    /// Reads only days that are older than the retention, of which few objects are left. Returns how many were deleted.
    pub(crate) async fn sweep(&self) -> Result<usize, TickError> {
        let folder = Key::new(FOLDER).expect("a word is a key");
        let kept_from = day(self.app.now() - self.retention);
        let mut after: Option<Key> = None;
        let mut removed = 0;
        loop {
            let page = self.blobs.list(&folder, after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { return Ok(removed) };
            after = Some(last.key.clone());
            for found in page {
                // Objects with other names are not ours.
                let Some(name) = ObjectName::parse(&found.key) else { continue };
                if name.day >= kept_from {
                    return Ok(removed);
                }
                if self.is_named(&found.key, name.job, name.attempt).await? {
                    continue;
                }
                self.blobs.delete(&found.key).await?;
                removed += 1;
            }
        }
    }

    async fn is_named(&self, key: &Key, job: JobId, attempt: AttemptNo) -> Result<bool, TickError> {
        // Pieces first: they go when an object is recorded, so an object that is about to be recorded is not missed.
        if self.store.log_end(job, attempt).await? > 0 {
            return Ok(true);
        }
        let archived = self.store.archived_log(job, attempt).await?;
        let log_path = marks::log_beside(key.as_str()).unwrap_or_else(|| key.as_str().to_owned());
        Ok(archived.is_some_and(|log| log.path == log_path))
    }
}
