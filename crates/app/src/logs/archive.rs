//! What one server does for the logs of attempts that ended: moves them into object storage, and deletes
//! objects that nothing names any more.
//!
//! The object is written before it is recorded, and its pieces in the store go with the record. Its name carries a digest
//! of what is in it, so that two servers who both believe that it is their turn never write different things under
//! one name. Nothing waits for any of this: while the storage is away, logs stay where they are.

use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use punctual_blobs::{BlobError, Key};
use punctual_core::attempt::ArchivedLog;
use punctual_core::{AttemptNo, JobId, Span, Timestamp, hex};
use punctual_engine::LOGS;
use punctual_store::{Archived, Archiving, EndedLog, FoundRow, KeptLog};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::marks::{self, Marks};
use super::shared::Sharing;
use crate::{App, Inner, LOG_BYTES_MAX, Result};

/// How often the store is asked. With nothing to do, that is two reads of empty tables.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// An attempt's last pieces come before its end; this is for those that come again.
const AFTER_END: Span = Span::from_secs(3);
/// Attempts that are looked at in one read, and recorded in one write.
const PAGE: usize = 128;
/// Pages in one round. The next goes on where it ended: what runs and prints is looked at again and again.
const PAGES_AT_ONCE: usize = 16;
/// Logs that are in memory at a time, each twice while it is assembled: this many, or fewer if they may be long.
const AT_ONCE: usize = 16;
const BYTES_AT_ONCE: u64 = 16 << 20;
/// Keys in one page of a sweep.
pub(super) const SWEEP_PAGE: usize = 1000;

/// While the storage is away.
const BACKOFF_FIRST: Duration = Duration::from_secs(2);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

const FOLDER: &str = "logs";

/// Until the app is gone.
pub(crate) async fn keep(app: Weak<Inner>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut duty = Duty { place: None, away: None, sharing: Sharing::default() };
    loop {
        ticks.tick().await;
        let Some(inner) = app.upgrade() else { return };
        duty.tick(&App(inner)).await;
    }
}

struct Duty {
    /// The attempt that was looked at last.
    place: Option<(JobId, AttemptNo)>,
    away: Option<Away>,
    sharing: Sharing,
}

enum Round {
    Done,
    /// Another server does it, or nobody for now.
    NotOurs,
}

/// The storage did not take a log.
struct Away {
    backoff: Duration,
    retry_at: Instant,
}

impl Duty {
    async fn tick(&mut self, app: &App) {
        let is_too_early = self.away.as_ref().is_some_and(|away| Instant::now() < away.retry_at);
        if is_too_early {
            return;
        }
        match self.round(app).await {
            Ok(Round::Done) => {
                if self.away.take().is_some() {
                    tracing::info!("the storage is back: logs are archived again");
                }
            }
            Ok(Round::NotOurs) => self.away = None,
            Err(NotArchived::Store(error)) => tracing::debug!(%error, "logs were not archived; trying again"),
            Err(NotArchived::Storage(error)) => {
                if self.away.is_none() {
                    tracing::warn!(%error, "logs stay in the database for now: the storage did not take them; trying again");
                }
                let backoff = self.away.take().map_or(BACKOFF_FIRST, |away| (away.backoff * 2).min(BACKOFF_MAX));
                self.away = Some(Away { backoff, retry_at: Instant::now() + backoff });
            }
        }
    }

    async fn round(&mut self, app: &App) -> Done<Round> {
        self.sharing.sign(app).await?;
        if !app.0.engine.holds(LOGS) || !self.sharing.is_shared(app).await? {
            return Ok(Round::NotOurs);
        }
        app.archive_some(&mut self.place).await?;
        Ok(Round::Done)
    }
}

/// Why a round ended early. All of it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum NotArchived {
    #[error(transparent)]
    Store(#[from] punctual_store::StoreError),
    #[error(transparent)]
    Storage(#[from] BlobError),
}

type Done<T> = std::result::Result<T, NotArchived>;

impl App {
    /// Everything that is to be moved or deleted now.
    pub async fn archive_logs(&self) -> Done<()> {
        let mut place = None;
        loop {
            self.archive_some(&mut place).await?;
            if place.is_none() {
                return Ok(());
            }
        }
    }

    /// One round, from `place` on.
    async fn archive_some(&self, place: &mut Option<(JobId, AttemptNo)>) -> Done<()> {
        for _ in 0..PAGES_AT_ONCE {
            let page = self.0.store.kept_logs(*place, PAGE).await?;
            *place = page.last().filter(|_| page.len() == PAGE).map(|last| (last.job, last.attempt));
            self.archive_page(page).await?;
            if place.is_none() {
                break;
            }
        }
        self.delete_dropped_logs().await
    }

    async fn archive_page(&self, page: Vec<KeptLog>) -> Done<()> {
        let now = self.now();
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
            let became = self.0.store.archive_logs(written).await?;
            let changed = became.iter().filter(|became| **became == Archived::Changed).count();
            if changed > 0 {
                tracing::debug!(changed, "logs changed while they were archived; the next round takes them");
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Writes the object of a log, unless it is there: pieces that are repeated add nothing.
    async fn write_log(&self, job: JobId, attempt: AttemptNo, end: EndedLog) -> Done<Archiving> {
        let before = match &end.archived {
            Some(log) => match self.read_whole(log).await {
                Ok(bytes) => Some(bytes),
                // Somebody deleted it behind our back. What comes again is better than nothing.
                Err(BlobError::NotFound) => None,
                Err(error) => return Err(error.into()),
            },
            None => None,
        };
        let base = before.clone().unwrap_or_default();
        let whole = self.0.store.assemble_log(job, attempt, base, LOG_BYTES_MAX as usize).await?;
        let replaces = end.archived.as_ref().map(|log| log.path.clone());
        let log = match end.archived {
            Some(log) if before.as_ref() == Some(&whole.bytes) => log,
            Some(_) | None => {
                let key = key_of(job, attempt, end.finished_at, &whole.bytes);
                let bytes = whole.bytes.clone();
                // After the pieces were read: those that came since are marked, too, and the next round takes them.
                let mut marks = match &replaces {
                    Some(path) => marks::read(&self.0.blobs, path).await?,
                    None => Marks::default(),
                };
                marks.add(self.0.store.log_marks(job, attempt, 0, LOG_BYTES_MAX).await?);
                marks::write(&self.0.blobs, key.as_str(), &marks).await?;
                self.0.blobs.put(&key, LOG_BYTES_MAX, stream::iter([Ok(bytes)])).await?;
                ArchivedLog { path: key.as_str().to_owned(), bytes: whole.bytes.len() as u64 }
            }
        };
        Ok(Archiving { job, attempt, log, replaces, pieces: whole.pieces })
    }

    fn logs_at_once(&self) -> usize {
        let fitting = BYTES_AT_ONCE / self.0.settings.log_limit.get().max(1);
        (fitting as usize).clamp(1, AT_ONCE)
    }

    async fn read_whole(&self, log: &ArchivedLog) -> punctual_blobs::Result<Bytes> {
        super::read_object(&self.0.blobs, log, 0..log.bytes).await
    }

    /// Pieces that came after their job went would stay forever.
    async fn forget_stray(&self, job: JobId, now: Timestamp) -> Done<()> {
        // A job that was due since is there, or was never: looking for it can wait.
        if job.due_at() < now - self.0.settings.retention && self.0.store.find(job).await? == FoundRow::Absent {
            self.0.store.forget_pieces(job).await?;
        }
        Ok(())
    }

    async fn delete_dropped_logs(&self) -> Done<()> {
        loop {
            let paths = self.0.store.dropped_logs(PAGE).await?;
            let is_last = paths.len() < PAGE;
            if paths.is_empty() {
                return Ok(());
            }
            let deletes = stream::iter(paths.clone().into_iter().map(|path| self.delete_log(path)));
            let deleted: Vec<_> = deletes.buffer_unordered(AT_ONCE).collect().await;
            deleted.into_iter().collect::<punctual_blobs::Result<()>>()?;
            self.0.store.forget_dropped_logs(paths).await?;
            if is_last {
                return Ok(());
            }
        }
    }

    async fn delete_log(&self, path: String) -> punctual_blobs::Result<()> {
        let beside = marks::key_beside(&path);
        // No object has a name that is no key.
        for key in [beside, Key::new(path)].into_iter().flatten() {
            self.0.blobs.delete(&key).await?;
        }
        Ok(())
    }

    /// Deletes objects that no attempt names: what a server wrote that lost its turn meanwhile. Looks only at
    /// days that are over for retention, of which few objects are left. Answers how many went.
    pub(crate) async fn sweep_logs(&self) -> Result<usize> {
        let folder = Key::new(FOLDER).expect("a word is a key");
        let kept_from = day(self.now() - self.0.settings.retention);
        let mut after: Option<Key> = None;
        let mut swept = self.sweep_signs().await?;
        loop {
            let page = self.0.blobs.list(&folder, after.as_ref(), SWEEP_PAGE).await?;
            let Some(last) = page.last() else { return Ok(swept) };
            after = Some(last.key.clone());
            for found in page {
                // What is not ours is left alone.
                let Some(place) = Place::parse(&found.key) else { continue };
                if place.day >= kept_from {
                    return Ok(swept);
                }
                if self.is_named(&found.key, place.job, place.attempt).await? {
                    continue;
                }
                self.0.blobs.delete(&found.key).await?;
                swept += 1;
            }
        }
    }

    async fn is_named(&self, key: &Key, job: JobId, attempt: AttemptNo) -> Result<bool> {
        // Pieces first: they go when an object is recorded, so one that is about to be is not missed.
        if self.0.store.log_end(job, attempt).await? > 0 {
            return Ok(true);
        }
        let archived = self.0.store.archived_log(job, attempt).await?;
        let log_path = marks::log_beside(key.as_str()).unwrap_or_else(|| key.as_str().to_owned());
        Ok(archived.is_some_and(|log| log.path == log_path))
    }
}

/// Such as `2026-12-24`, in UTC.
fn day(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

fn key_of(job: JobId, attempt: AttemptNo, finished_at: Timestamp, bytes: &[u8]) -> Key {
    let digest = hex::encode(&Sha256::digest(bytes)[..6]);
    let day = day(finished_at);
    Key::new(format!("{FOLDER}/{day}/{job}/{attempt}-{digest}.log")).expect("days, ids and digits are words of a key")
}

/// What the name of an object says.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    day: String,
    job: JobId,
    attempt: AttemptNo,
}

impl Place {
    fn parse(key: &Key) -> Option<Self> {
        let mut words = key.as_str().split('/').skip(1);
        let (day, job, name) = (words.next()?, words.next()?, words.next()?);
        let name = name.strip_suffix(".log").or_else(|| name.strip_suffix(marks::EXTENSION))?;
        let (attempt, _) = name.split_once('-')?;
        Some(Self { day: day.to_owned(), job: job.parse().ok()?, attempt: AttemptNo(attempt.parse().ok()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::ShardId;

    #[test]
    fn the_name_of_an_object_says_whose_log_it_is_and_what_is_in_it() {
        let at = Timestamp::EPOCH + Span::from_secs(86_400 * 365);
        let job = JobId::new(at, ShardId(3), 7);
        let key = key_of(job, AttemptNo(12), at, b"hello");
        assert_eq!(key.as_str(), format!("logs/1971-01-01/{job}/12-2cf24dba5fb0.log"));
        let place = Place { day: "1971-01-01".to_owned(), job, attempt: AttemptNo(12) };
        assert_eq!(Place::parse(&key), Some(place));
        assert_ne!(key_of(job, AttemptNo(12), at, b"hello!"), key);
        for foreign in ["logs/x", "logs/1971-01-01/x/1-a.log", "logs/1971-01-01/x/1.log"] {
            assert_eq!(Place::parse(&Key::new(foreign).unwrap()), None, "{foreign}");
        }
    }
}
