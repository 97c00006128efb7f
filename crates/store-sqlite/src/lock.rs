//! One process at a time: `<file>.lock` is held for as long as the store is open.
//! The kernel lets go of it when the process ends, however it ends.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use punctual_store::{Result, StoreError};

pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(store: &Path) -> Result<Self> {
        let path = beside(store, ".lock");
        let unavailable = |error| StoreError::Unavailable(format!("cannot lock {}: {error}", path.display()));
        let file = File::options().create(true).write(true).truncate(false).open(&path).map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse(format!(
                "another process has {} open; stop it first, or use another file",
                store.display()
            ))),
            Err(TryLockError::Error(error)) => Err(unavailable(error)),
        }
    }
}

/// `jobs.db` and `-wal` make `jobs.db-wal`.
pub(crate) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut path = store.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
