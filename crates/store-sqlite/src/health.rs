//! Whether the store may be written to and read from, and what the log was told of it.
//!
//! Corruption is an alarm that stays until the process ends: nothing is written any more and nothing is read, because
//! a damaged tree answers with a part of what it holds. A file that was moved or deleted stops writes for as long as it
//! is gone. A full disk stops nothing: each write is tried, and space that comes back is used at once.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use punctual_store::{Result, StoreError, StoreFault};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;

use crate::fault::error_of;

/// A small write may succeed on a disk that refuses larger ones, so a probe is not believed until no write has failed
/// for this long.
const DOUBTED_FOR: Duration = Duration::from_secs(5);

pub(crate) struct Health {
    path: PathBuf,
    /// The files that are open, as they were found at their paths.
    files: Vec<WatchedFile>,
    corrupt: OnceLock<String>,
    /// Whether `failing` holds something: asked after every commit.
    is_failing: AtomicBool,
    failing: Mutex<Option<Failing>>,
    is_replaced: AtomicBool,
}

/// The last failed write.
#[derive(Clone)]
struct Failing {
    fault: StoreFault,
    detail: String,
    at: Instant,
}

struct WatchedFile {
    path: PathBuf,
    identity: FileIdentity,
}

impl WatchedFile {
    fn new(path: &Path) -> std::io::Result<Self> {
        Ok(Self { path: path.to_owned(), identity: FileIdentity::of(path)? })
    }

    /// A path that cannot be read for another reason than absence says nothing.
    fn is_in_place(&self) -> bool {
        match FileIdentity::of(&self.path) {
            Ok(found) => found == self.identity,
            Err(error) => !matches!(error, Errno::NOENT | Errno::NOTDIR),
        }
    }
}

#[derive(PartialEq, Eq)]
struct FileIdentity {
    device: (u32, u32),
    inode: u64,
}

impl FileIdentity {
    /// Asks for the number of the inode alone. Whoever asks for its times makes the kernel give the next write an exact time
    /// of its own, which the flush then has to write too: `stat` before each commit made a commit 40 % slower.
    fn of(path: &Path) -> rustix::io::Result<Self> {
        let found = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::INO)?;
        Ok(Self { device: (found.stx_dev_major, found.stx_dev_minor), inode: found.stx_ino })
    }
}

impl Health {
    /// `files` are open by now; from here on their paths must lead to them.
    pub(crate) fn new(path: &Path, files: &[PathBuf]) -> std::io::Result<Self> {
        let files = files.iter().map(|file| WatchedFile::new(file)).collect::<std::io::Result<_>>()?;
        Ok(Self {
            path: path.to_owned(),
            files,
            corrupt: OnceLock::new(),
            is_failing: AtomicBool::new(false),
            failing: Mutex::default(),
            is_replaced: AtomicBool::new(false),
        })
    }

    /// To be asked before every transaction.
    pub(crate) fn writable(&self) -> Result<()> {
        self.readable()?;
        let gone = self.files.iter().find(|file| !file.is_in_place());
        let was_replaced = self.is_replaced.swap(gone.is_some(), Ordering::Relaxed);
        let Some(gone) = gone else {
            if was_replaced {
                tracing::info!(file = %self.path.display(), "the database file is back; writes go on");
            }
            return Ok(());
        };
        let (file, pid) = (gone.path.display(), std::process::id());
        if !was_replaced {
            tracing::error!(
                %file, pid,
                "a file of the database was moved or deleted; nothing is written until it is back"
            );
        }
        Err(StoreError::faulty(StoreFault::FileReplaced, format!("{file} is not the file that process {pid} has open")))
    }

    /// To be asked before every read.
    pub(crate) fn readable(&self) -> Result<()> {
        match self.corrupt.get() {
            Some(detail) => Err(StoreError::faulty(StoreFault::Corrupt, detail.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn is_corrupt(&self) -> bool {
        self.corrupt.get().is_some()
    }

    /// What an error of SQLite means to the caller. Raises the alarm if it is corruption.
    pub(crate) fn judge(&self, error: &rusqlite::Error) -> StoreError {
        let judged = error_of(&self.path, "SQLite cannot use", error);
        if let StoreError::Faulty { fault, detail } = &judged {
            self.note(*fault, detail);
        }
        judged
    }

    fn note(&self, fault: StoreFault, detail: &str) {
        if fault == StoreFault::Corrupt {
            if self.corrupt.set(detail.to_owned()).is_ok() {
                tracing::error!(
                    detail,
                    "THE DATABASE IS CORRUPT: this server writes and reads nothing any more. Stop it, copy the files, \
                     and restore a backup or run `sqlite3 punctual.db .recover`; see docs/health.md"
                );
            }
            return;
        }
        let mut failing = self.failing();
        if failing.as_ref().is_none_or(|failing| failing.fault != fault) {
            tracing::error!(detail, "{}; writes fail until that changes", fault.title());
        }
        *failing = Some(Failing { fault, detail: detail.to_owned(), at: Instant::now() });
        self.is_failing.store(true, Ordering::Release);
    }

    /// A transaction was committed.
    pub(crate) fn committed(&self) {
        if !self.is_failing.load(Ordering::Acquire) {
            return;
        }
        let mut failing = self.failing();
        if failing.as_ref().is_some_and(|failing| failing.at.elapsed() >= DOUBTED_FOR) {
            *failing = None;
            self.is_failing.store(false, Ordering::Release);
            tracing::info!("writes to the database succeed again");
        }
    }

    /// The last failure, while it is too fresh for one success to prove the contrary.
    pub(crate) fn recovered(&self) -> Result<()> {
        match self.failing().clone() {
            Some(Failing { fault, detail, .. }) => Err(StoreError::Faulty { fault, detail }),
            None => Ok(()),
        }
    }

    fn failing(&self) -> MutexGuard<'_, Option<Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
