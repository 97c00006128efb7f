//! Opens connections and sets them up. Every pragma is here.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use punctual_store::{Result, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, OpenFlags};

use crate::fault::{error_of, error_of_io};
use crate::lock::beside;
use crate::options::{Durability, Options};

/// "punc": a file of somebody else is refused instead of being written to.
pub(crate) const APPLICATION_ID: i64 = 0x7075_6e63;

const PAGE_BYTES: u32 = 4096;
const READER_CACHE_BYTES: usize = 2 << 20;
/// More than there are queries, so that none is ever prepared twice.
const STATEMENTS_MAX: usize = 256;
/// Only the log's restart after a checkpoint ever makes two connections meet.
const BUSY_TIMEOUT_MS: u32 = 5_000;

pub(crate) fn open_writer(path: &Path, options: &Options) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags).map_err(|error| cannot_open(path, &error))?;
    check_owner(&conn, path)?;
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    set(
        &conn,
        &[
            // Takes effect only in a file that has no pages yet.
            ("page_size", PAGE_BYTES.to_string()),
            ("application_id", APPLICATION_ID.to_string()),
            ("journal_mode", "WAL".to_owned()),
            ("synchronous", synchronous.to_owned()),
            // Restarted, never cut: see Options::wal_kept_bytes.
            ("journal_size_limit", "-1".to_owned()),
            ("wal_autocheckpoint", options.checkpoint_pages.to_string()),
            ("cache_size", cache_size(options.cache_bytes)),
        ],
    )
    .map_err(|error| cannot_open(path, &error))?;
    common(&conn).map_err(|error| cannot_open(path, &error))?;
    check_wal(&conn, path)?;
    Ok(conn)
}

/// SQLite stays with another journal, silently, where files cannot share memory.
fn check_wal(conn: &Connection, path: &Path) -> Result<()> {
    let mode: String =
        conn.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(|error| cannot_open(path, &error))?;
    if mode == "wal" {
        return Ok(());
    }
    let path = path.display();
    Err(StoreError::Unavailable(format!("{path} cannot have a write-ahead log here; put it on a local disk")))
}

pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let conn = Connection::open_with_flags(path, flags)?;
        set(&conn, &[("cache_size", cache_size(READER_CACHE_BYTES)), ("query_only", "1".to_owned())])?;
        common(&conn)?;
        Ok(conn)
    };
    open().map_err(|error| cannot_open(path, &error))
}

fn common(conn: &Connection) -> rusqlite::Result<()> {
    set(conn, &[("temp_store", "MEMORY".to_owned()), ("busy_timeout", BUSY_TIMEOUT_MS.to_string())])?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Else SQLite plans some statements anew whenever they are bound to other values.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The writer's last act is a checkpoint, unless the database is damaged: then nobody's is.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // The last connection to close would remove the log, and the next start make it again.
    let mut keep = 1;
    conn.file_control(None::<&str>, FileControl::PersistWal(&mut keep))
}

fn set(conn: &Connection, pragmas: &[(&str, String)]) -> rusqlite::Result<()> {
    for (name, value) in pragmas {
        // Some answer with a row, some do not; the answers say nothing new.
        conn.pragma_update_and_check(None, name, value, |_| Ok(())).or_else(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => Ok(()),
            error => Err(error),
        })?;
    }
    Ok(())
}

/// Negative: SQLite reads it as KiB instead of pages.
fn cache_size(bytes: usize) -> String {
    format!("-{}", bytes / 1024)
}

fn check_owner(conn: &Connection, path: &Path) -> Result<()> {
    let read = || -> rusqlite::Result<(i64, i64)> {
        let id = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let objects = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, objects))
    };
    let (id, objects) = read().map_err(|error| cannot_open(path, &error))?;
    if id == APPLICATION_ID || objects == 0 {
        return Ok(());
    }
    Err(StoreError::Schema(format!("{} is a database of another program; name another file", path.display())))
}

fn cannot_open(path: &Path, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => {
            StoreError::Schema(format!("{} is not an SQLite database; name another file", path.display()))
        }
        _ => error_of(path, "cannot open", error),
    }
}

/// Writes zeros behind the end of the log until it has its length. SQLite takes them for
/// the remains of an older generation, whose checksums do not fit, and stops there. Answers the file that SQLite has open.
pub(crate) fn grow_wal(store: &Path, bytes: u64) -> Result<File> {
    let path = beside(store, "-wal");
    let grow = || -> std::io::Result<File> {
        let mut file = File::options().create(true).write(true).truncate(false).open(&path)?;
        let mut at = file.seek(SeekFrom::End(0))?;
        if at >= bytes {
            return Ok(file);
        }
        let zeros = vec![0; 1 << 20];
        while at < bytes {
            let len = zeros.len().min(usize::try_from(bytes - at).unwrap_or(zeros.len()));
            file.write_all(&zeros[..len])?;
            at += len as u64;
        }
        file.sync_all()?;
        Ok(file)
    };
    grow().map_err(|error| error_of_io(&path, "cannot grow", &error))
}
