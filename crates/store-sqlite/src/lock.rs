//! One process at a time: the database file itself is locked for as long as the store is open, and `<file>.lock` beside
//! it. The kernel lets go of both when the process ends, however it ends.
//!
//! The lock on the database is one of flock(2), which SQLite does not use: its own are POSIX locks, and the two kinds do
//! not see each other. A process that closes any descriptor of a file loses its POSIX locks on it, though, SQLite's too.
//! So the file beside it is locked first, which refuses a second store in this process before it opens the database, and
//! the descriptor is closed after all connections.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use punctual_store::{Result, StoreError};

use crate::fault::error_of_io;

pub(crate) struct Lock {
    _beside: File,
    _database: File,
}

/// Nobody else of those who ask for it gets here; the database may still be open.
pub(crate) struct Antechamber(File);

impl Antechamber {
    pub(crate) fn enter(store: &Path) -> Result<Self> {
        Ok(Self(take(&beside(store, ".lock"), store)?))
    }

    /// Makes the file if there is none.
    pub(crate) fn lock(self, store: &Path) -> Result<Lock> {
        Ok(Lock { _database: take(store, store)?, _beside: self.0 })
    }
}

fn take(path: &Path, store: &Path) -> Result<File> {
    let opened = File::options().create(true).read(true).write(true).truncate(false).open(path);
    let file = opened.map_err(|error| error_of_io(path, "cannot lock", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(StoreError::InUse(format!("another process has {} open", store.display())))
        }
        Err(TryLockError::Error(error)) => Err(error_of_io(path, "cannot lock", &error)),
    }
}

/// `jobs.db` and `-wal` make `jobs.db-wal`.
pub(crate) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
