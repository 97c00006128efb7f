//! What the owner reads.

use bytes::Bytes;
use punctual_core::job::Input;
use punctual_core::shard::event::{Load, Sweep};
use punctual_core::shard::write::{BatchSeq, CancelMark, OpenStart, StartsId};
use punctual_core::{AttemptNo, JobId, JobKey, JobRow, ShardId};
use punctual_store::columns::job_row;
use punctual_store::{FoundRow, LoadPage, MakerFields, OpenStarts};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use super::starts;
use crate::writer::Failure;
use crate::{codec, sql};

const INLINE_MAX: i64 = Input::INLINE_MAX as i64;

pub(super) fn load(conn: &Connection, load: &Load) -> Result<LoadPage, Failure> {
    let mut statement = conn.prepare_cached(match load.sweep {
        Sweep::All | Sweep::Floor | Sweep::Parked => sql!("load"),
        Sweep::Urgent => sql!("load_urgent"),
    })?;
    // An id of zeros sorts before every id.
    let after = load.after.map_or((-1, [0; 16]), |key| (key.due_at.as_micros(), key.id.to_bytes()));
    let look_at_max = load.look_at_max();
    let mut rows = statement.query(params![
        load.shard.0,
        after.0,
        after.1,
        load.until.as_micros(),
        look_at_max as i64,
        INLINE_MAX
    ])?;
    let mut page = LoadPage::default();
    let mut looked_at = 0;
    while let Some(row) = rows.next()? {
        looked_at += 1;
        let is_skipped = !load.skip.is_empty() && load.skip.contains(&codec::task_id(row, job_row::TASK)?);
        if looked_at == look_at_max || (!is_skipped && page.rows.len() + 1 == load.limit) {
            page.stopped_at =
                Some(JobKey { id: codec::job_id(row, job_row::ID)?, due_at: codec::time(row, job_row::DUE_AT)? });
        }
        if !is_skipped {
            page.rows.push(read_row(row)?);
        }
        if page.stopped_at.is_some() {
            break;
        }
    }
    Ok(page)
}

pub(crate) fn find(conn: &Connection, id: JobId) -> Result<FoundRow, Failure> {
    let mut statement = conn.prepare_cached(sql!("job_row"))?;
    if let Some(row) = at_its_key(conn, id, |key| job_row(&mut statement, key))? {
        return Ok(FoundRow::Hot(row));
    }
    let finished = conn.prepare_cached(sql!("find_finished"))?.query_row([id.to_bytes()], |row| {
        Ok(FoundRow::Finished {
            state: codec::state(row, 0)?,
            attempt: row.get::<_, Option<u32>>(1)?.map(AttemptNo),
            counters: codec::counters(row, [2, 3, 4])?,
        })
    });
    Ok(finished.optional()?.unwrap_or(FoundRow::Absent))
}

pub(super) fn inputs(conn: &Connection, keys: &[JobKey]) -> Result<Vec<Option<Bytes>>, Failure> {
    let mut statement = conn.prepare_cached(sql!("job_input"))?;
    let mut inputs = Vec::with_capacity(keys.len());
    for &key in keys {
        let input = statement.query_row(place(key), |row| codec::bytes(row, 0)).optional()?;
        inputs.push(input.flatten());
    }
    Ok(inputs)
}

/// A start is open while its job's row still expects that attempt: the end of an attempt
/// removes the row or raises its number.
pub(super) fn open_starts(conn: &Connection, shard: ShardId) -> Result<OpenStarts, Failure> {
    let mut records = conn.prepare_cached(sql!("open_starts"))?;
    let mut rows = records.query([shard.0])?;
    let mut row_at = conn.prepare_cached(sql!("job_row"))?;
    let mut cancel_requested = conn.prepare_cached(sql!("cancel_requested"))?;
    let whole_since = conn.prepare_cached(sql!("whole_since"))?.query_row([], |row| codec::epoch(row, 0)).optional()?;
    let mut open = OpenStarts { whole_since: whole_since.unwrap_or_default(), ..OpenStarts::default() };
    while let Some(record) = rows.next()? {
        let name =
            StartsId { shard, epoch: codec::epoch(record, 0)?, seq: BatchSeq(record.get::<_, i64>(1)?.unsigned_abs()) };
        let server = codec::server_id(record, 2)?;
        let bytes = record.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        let starts = starts::decode(bytes)
            .ok_or_else(|| Failure::inconsistent(format!("the record of starts {name:?} cannot be read")))?;
        let before = open.running.len();
        for start in starts {
            let Some(row) = job_row(&mut row_at, start.key)? else { continue };
            if row.counters.next_attempt != start.attempt {
                continue;
            }
            let asked = cancel_requested.exists([start.key.id.to_bytes()])?;
            let cancel = if asked { CancelMark::Recorded } else { CancelMark::None };
            open.running.push((OpenStart { starts: name, start, server, cancel }, row));
        }
        if open.running.len() == before {
            open.spent.push(name);
        }
    }
    Ok(open)
}

/// Reads a job where its id says, or else where it was moved to.
pub(crate) fn at_its_key<T>(
    conn: &Connection,
    id: JobId,
    mut read: impl FnMut(JobKey) -> rusqlite::Result<Option<T>>,
) -> Result<Option<T>, Failure> {
    if let Some(found) = read(JobKey::original(id))? {
        return Ok(Some(found));
    }
    let moved =
        conn.prepare_cached(sql!("moved_job"))?.query_row([id.to_bytes()], |row| codec::time(row, 0)).optional()?;
    match moved {
        Some(due_at) => Ok(read(JobKey { due_at, id })?),
        None => Ok(None),
    }
}

fn place(key: JobKey) -> (u16, i64, [u8; 16]) {
    (key.shard().0, key.due_at.as_micros(), key.id.to_bytes())
}

fn job_row(statement: &mut CachedStatement<'_>, key: JobKey) -> rusqlite::Result<Option<JobRow>> {
    let (shard, due_at, id) = place(key);
    statement.query_row(params![shard, due_at, id, INLINE_MAX], read_row).optional()
}

/// From a row of `load`, `load_urgent` and `job_row`.
fn read_row(row: &Row<'_>) -> rusqlite::Result<JobRow> {
    use job_row as column;
    let id = codec::job_id(row, column::ID)?;
    let MakerFields { source, node, member } = codec::maker(row, column::SOURCE, id)?.into();
    Ok(JobRow {
        key: JobKey { id, due_at: codec::time(row, column::DUE_AT)? },
        task: codec::task_id(row, column::TASK)?,
        priority: codec::priority(row, column::PRIORITY)?,
        counters: codec::counters(row, [column::NEXT_ATTEMPT, column::FAILURES, column::NODE_FAILURES])?,
        submitted_at: codec::time(row, column::SUBMITTED_AT)?,
        tracing_id: row.get(column::TRACING_ID)?,
        source,
        node,
        member,
        give_backs: codec::give_backs(row, column::GIVE_BACKS, id)?,
        input: codec::input(row, column::INPUT, column::INPUT_LEN)?,
    })
}
