//! Looks for damage, table by table: at the start for as long as a start may take, in `punctual doctor` to the end.

use std::path::Path;
use std::time::{Duration, Instant};

use punctual_store::{Result, StoreError, StoreFault};
use rusqlite::{Connection, ErrorCode};

use crate::connection;
use crate::fault::error_of;

/// Steps of SQLite's machine between two looks at the clock.
const STEPS_BETWEEN_LOOKS: i32 = 1000;
/// More would say the same at length.
const FINDINGS_SHOWN: usize = 3;

/// How thoroughly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The trees and their order.
    Quick,
    /// Also that each index holds what its table does.
    Full,
}

/// How far a check came that found nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checked {
    pub tables: usize,
    pub tables_total: usize,
}

impl Checked {
    pub fn is_whole(self) -> bool {
        self.tables == self.tables_total
    }
}

/// Checks the whole database at `path`, also while a server has it open; tells which table comes next.
pub fn check_whole(path: &Path, mut next_table: impl FnMut(&str)) -> Result<Checked> {
    let mut conn = connection::open_reader(path)?;
    check(&mut conn, path, Depth::Full, None, &mut next_table)
}

/// Checks until the time is over. Damage is an error.
pub(crate) fn check_within(conn: &mut Connection, path: &Path, limit: Duration) -> Result<Checked> {
    check(conn, path, Depth::Quick, Some(limit), &mut |_| ())
}

fn check(
    conn: &mut Connection,
    path: &Path,
    depth: Depth,
    limit: Option<Duration>,
    next_table: &mut dyn FnMut(&str),
) -> Result<Checked> {
    let cannot = |error: rusqlite::Error| error_of(path, "cannot check", &error);
    let deadline = limit.map(|limit| Instant::now() + limit);
    let is_over = move || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    conn.progress_handler(STEPS_BETWEEN_LOOKS, Some(is_over)).map_err(cannot)?;
    let result = check_tables(conn, path, depth, next_table);
    conn.progress_handler(0, None::<fn() -> bool>).map_err(cannot)?;
    result
}

fn check_tables(conn: &Connection, path: &Path, depth: Depth, next_table: &mut dyn FnMut(&str)) -> Result<Checked> {
    let cannot = |error: rusqlite::Error| error_of(path, "cannot check", &error);
    let read_names = || -> rusqlite::Result<Vec<String>> {
        // The smallest of them, such as leases and schedules, are named before jobs and their history.
        let mut statement = conn.prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
             ORDER BY name IN ('history', 'attempt', 'occurrence', 'log'), name = 'job', name",
        )?;
        statement.query_map([], |row| row.get(0))?.collect()
    };
    let names = match read_names() {
        Err(error) if is_interrupt(&error) => return Ok(Checked { tables: 0, tables_total: usize::MAX }),
        names => names.map_err(cannot)?,
    };
    let tables_total = names.len();
    for (tables, name) in names.iter().enumerate() {
        next_table(name);
        match check_table(conn, name, depth) {
            Ok(findings) if findings.is_empty() => {}
            Ok(findings) => {
                let text = format!("{}: table {name}: {}", path.display(), findings.join("; "));
                return Err(StoreError::faulty(StoreFault::Corrupt, text));
            }
            Err(error) if is_interrupt(&error) => return Ok(Checked { tables, tables_total }),
            Err(error) => return Err(error_of(path, &format!("cannot check table {name} of"), &error)),
        }
    }
    Ok(Checked { tables: tables_total, tables_total })
}

fn check_table(conn: &Connection, name: &str, depth: Depth) -> rusqlite::Result<Vec<String>> {
    let pragma = match depth {
        Depth::Quick => "quick_check",
        Depth::Full => "integrity_check",
    };
    let mut statement = conn.prepare(&format!("PRAGMA {pragma}({name:?})"))?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let mut findings = Vec::new();
    for line in lines {
        let line = line?;
        if line != "ok" && findings.len() < FINDINGS_SHOWN {
            findings.push(line.trim().replace('\n', ", "));
        }
    }
    Ok(findings)
}

fn is_interrupt(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}
