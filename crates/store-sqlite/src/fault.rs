//! What an error of SQLite says about the disk and the file. Decides nothing else; see [`crate::health`].

use std::path::Path;

use punctual_store::{StoreError, StoreFault};
use rusqlite::{Error, ErrorCode, ffi};
use rustix::fs::StatVfsMountFlags;

/// With less free space than this, an I/O error is one of a full disk. SQLite cannot extend its shared memory either,
/// and then speaks of an I/O error.
const FULL_BELOW_BYTES: u64 = 128 << 10;

pub(crate) fn fault_of(path: &Path, error: &Error) -> Option<StoreFault> {
    match error.sqlite_error_code()? {
        ErrorCode::DiskFull => Some(StoreFault::DiskFull),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Some(StoreFault::Corrupt),
        ErrorCode::ReadOnly => Some(StoreFault::ReadOnly),
        ErrorCode::SystemIoFailure if is_damage(error) => Some(StoreFault::Corrupt),
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen => fault_of_disk(path),
        _ => None,
    }
}

/// The file system or a checksum says that what was read is not what was written.
fn is_damage(error: &Error) -> bool {
    let code = error.sqlite_error().map(|cause| cause.extended_code);
    code.is_some_and(|code| [ffi::SQLITE_IOERR_CORRUPTFS, ffi::SQLITE_IOERR_DATA].contains(&code))
}

/// The error for the caller, with the fault that caused it where one is known.
pub(crate) fn error_of(path: &Path, doing: &str, error: &Error) -> StoreError {
    let path_shown = path.display();
    match fault_of(path, error) {
        Some(fault) => StoreError::faulty(fault, format!("{doing} {path_shown}: {error}")),
        None => StoreError::Unavailable(format!("{doing} {path_shown}: {error}")),
    }
}

/// The error of a file that this store reads or writes without SQLite.
pub(crate) fn error_of_io(path: &Path, doing: &str, error: &std::io::Error) -> StoreError {
    let text = format!("{doing} {}: {error}", path.display());
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            StoreError::faulty(StoreFault::DiskFull, text)
        }
        std::io::ErrorKind::ReadOnlyFilesystem => StoreError::faulty(StoreFault::ReadOnly, text),
        _ => StoreError::Unavailable(text),
    }
}

fn fault_of_disk(path: &Path) -> Option<StoreFault> {
    let disk = rustix::fs::statvfs(folder_of(path)).ok()?;
    if disk.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Some(StoreFault::ReadOnly);
    }
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    (free_bytes < FULL_BELOW_BYTES).then_some(StoreFault::DiskFull)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
