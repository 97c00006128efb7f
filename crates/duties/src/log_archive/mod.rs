//! Moves the logs of attempts that ended into object storage, and deletes objects whose jobs are gone.
//!
//! The object is written before it is recorded, and its pieces in the store go with the record. Its name carries a digest
//! of its content, so that two servers that both believe to hold the lease never write different things under one name.
//! Nothing waits for any of this: while the storage is unavailable, logs stay in the store.

mod object;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use punctual_app::logs::{marks, read_object};
use punctual_app::{App, LOG_BYTES_MAX};
use punctual_blobs::{BlobError, Blobs, Key};
use punctual_core::attempt::ArchivedLog;
use punctual_core::size::ByteSize;
use punctual_core::{AttemptNo, JobId, Span, Timestamp};
use punctual_engine::LOGS;
use punctual_store::{Archived, Archiving, EndedLog, FoundRow, KeptLog, Store};

pub(crate) use sweep::LogSweep;

use crate::shared_storage::SharedStorage;
use crate::{Context, Duty, Next, TickError};

/// With nothing to do, a tick is two reads of empty tables.
const EVERY: Duration = Duration::from_secs(2);
/// An attempt's last pieces come before its end; this is for those that a worker sends again.
const AFTER_END: Span = Span::from_secs(3);
/// Attempts of one read, which are recorded in one write.
const PAGE: usize = 128;
/// Pages of one tick. The next tick goes on where it ended, past attempts that still run and print.
const PAGES_PER_TICK: usize = 16;
/// Logs that are in memory at a time, each twice while it is assembled: this many, or fewer if they may be long.
const LOGS_AT_ONCE: usize = 16;
const BYTES_AT_ONCE: u64 = 16 << 20;

/// Archives logs.
pub struct LogArchive {
    app: App,
    store: Arc<dyn Store>,
    blobs: Blobs,
    retention: Span,
    log_limit: ByteSize,
    storage: SharedStorage,
    /// The attempt whose log was read last.
    after: Option<(JobId, AttemptNo)>,
}

type Result<T> = std::result::Result<T, TickError>;

#[async_trait]
impl Duty for LogArchive {
    fn name(&self) -> &'static str {
        "log-archive"
    }

    fn lease(&self) -> Option<&'static str> {
        Some(LOGS)
    }

    async fn tick(&mut self) -> Result<Next> {
        if self.storage.is_shared().await? {
            self.archive_pages().await?;
            self.delete_dropped_logs().await?;
        }
        Ok(Next::After(EVERY))
    }
}

impl LogArchive {
    pub fn new(context: &Context) -> Self {
        Self {
            app: context.app.clone(),
            store: Arc::clone(&context.store),
            blobs: context.blobs.clone(),
            retention: context.settings.retention,
            log_limit: context.settings.log_limit,
            storage: SharedStorage::new(context),
            after: None,
        }
    }

    async fn archive_pages(&mut self) -> Result<()> {
        for _ in 0..PAGES_PER_TICK {
            let page = self.store.kept_logs(self.after, PAGE).await?;
            self.after = page.last().filter(|_| page.len() == PAGE).map(|last| (last.job, last.attempt));
            self.archive_page(page).await?;
            if self.after.is_none() {
                break;
            }
        }
        Ok(())
    }

    async fn archive_page(&self, page: Vec<KeptLog>) -> Result<()> {
        let now = self.app.now();
        let mut ended = Vec::new();
        for kept in page {
            match kept.ended {
                Some(end) if end.finished_at + AFTER_END <= now => ended.push((kept.job, kept.attempt, end)),
                Some(_) => {}
                None => self.forget_stray(kept.job, now).await?,
            }
        }
        let mut writes = stream::iter(ended.into_iter().map(|(job, attempt, end)| self.write_log(job, attempt, end)))
            .buffer_unordered(self.logs_at_once());
        let (mut written, mut failure) = (Vec::new(), None);
        while let Some(result) = writes.next().await {
            match result {
                Ok(log) => written.push(log),
                // The others would wait as long for the same answer.
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        if !written.is_empty() {
            let became = self.store.archive_logs(written).await?;
            let changed = became.iter().filter(|became| **became == Archived::Changed).count();
            if changed > 0 {
                tracing::debug!(changed, "logs changed while they were archived; the next tick takes them");
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes the object of a log, unless it is there: pieces that are repeated add nothing.
    async fn write_log(&self, job: JobId, attempt: AttemptNo, end: EndedLog) -> Result<Archiving> {
        let before = match &end.archived {
            Some(log) => match self.read_whole(log).await {
                Ok(bytes) => Some(bytes),
                // Somebody deleted the object. What the worker sends again is better than nothing.
                Err(BlobError::NotFound) => None,
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        let base = before.clone().unwrap_or_default();
        let whole = self.store.assemble_log(job, attempt, base, LOG_BYTES_MAX as usize).await?;
        let replaces = end.archived.as_ref().map(|log| log.path.clone());
        let log = match end.archived {
            Some(log) if before.as_ref() == Some(&whole.bytes) => log,
            Some(_) | None => {
                let key = object::key_of(job, attempt, end.finished_at, &whole.bytes);
                let bytes = whole.bytes.clone();
                // After the pieces were read: those that came since are marked, too, and the next tick takes them.
                let mut marks = match &replaces {
                    Some(path) => marks::read(&self.blobs, path).await?,
                    None => marks::Marks::default(),
                };
                marks.add(self.store.log_marks(job, attempt, 0, LOG_BYTES_MAX).await?);
                marks::write(&self.blobs, key.as_str(), &marks).await?;
                self.blobs.put(&key, LOG_BYTES_MAX, stream::iter([Ok(bytes)])).await?;
                ArchivedLog { path: key.as_str().to_owned(), bytes: whole.bytes.len() as u64 }
            }
        };
        let namespace = self.app.namespace_of_log(job).await?;
        Ok(Archiving { job, namespace, attempt, log, replaces, pieces: whole.pieces })
    }

    fn logs_at_once(&self) -> usize {
        let fitting = BYTES_AT_ONCE / self.log_limit.get().max(1);
        (fitting as usize).clamp(1, LOGS_AT_ONCE)
    }

    async fn read_whole(&self, log: &ArchivedLog) -> punctual_blobs::Result<Bytes> {
        read_object(&self.blobs, log, 0..log.bytes).await
    }

    /// Removes pieces that came after their job had left history: nothing else would.
    async fn forget_stray(&self, job: JobId, now: Timestamp) -> Result<()> {
        // A job that was due later is in history, or never was: there is no hurry.
        if job.due_at() < now - self.retention && self.store.find(job).await? == FoundRow::Absent {
            self.store.forget_pieces(job).await?;
        }
        Ok(())
    }

    async fn delete_dropped_logs(&self) -> Result<()> {
        loop {
            let paths = self.store.dropped_logs(PAGE).await?;
            let is_last = paths.len() < PAGE;
            if paths.is_empty() {
                return Ok(());
            }
            let deletes = stream::iter(paths.clone().into_iter().map(|path| self.delete_log(path)));
            let deleted: Vec<_> = deletes.buffer_unordered(LOGS_AT_ONCE).collect().await;
            deleted.into_iter().collect::<punctual_blobs::Result<()>>()?;
            self.store.forget_dropped_logs(paths).await?;
            if is_last {
                return Ok(());
            }
        }
    }

    async fn delete_log(&self, path: String) -> punctual_blobs::Result<()> {
        let beside = marks::key_beside(&path);
        // A path that is no key is the path of no object.
        for key in [beside, Key::new(path)].into_iter().flatten() {
            self.blobs.delete(&key).await?;
        }
        Ok(())
    }
}
