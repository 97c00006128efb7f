//! What the owner of a shard reads of its schedules.

use std::collections::BTreeMap;

use punctual_core::schedule::Source;
use punctual_core::{JobId, NamespaceId, ScheduleId, ShardId, Timestamp};
use punctual_store::{LoadedRow, ShardSchedules};
use rusqlite::{Connection, OptionalExtension, params};

use super::row::{read_loaded, read_occurrence};
use crate::writer::Failure;
use crate::{codec, sql};

pub(super) fn of_shard(conn: &Connection, shard: ShardId) -> Result<ShardSchedules, Failure> {
    let watermark =
        conn.prepare_cached(sql!("shard_watermark"))?.query_row([shard.0], |row| codec::time(row, 0)).optional()?;
    let mut statement = conn.prepare_cached(sql!("queued_occurrences"))?;
    let queued = statement.query_map([shard.0], read_occurrence)?.collect::<rusqlite::Result<_>>()?;
    let tracked = tracked(conn, shard)?;
    Ok(ShardSchedules { watermark: watermark.unwrap_or(Timestamp::EPOCH), queued, tracked })
}

pub(super) fn watermarks(conn: &Connection) -> Result<Vec<(ShardId, Timestamp)>, Failure> {
    let mut statement = conn.prepare_cached(sql!("watermarks"))?;
    let rows = statement.query_map([], |row| Ok((codec::shard(row, 0)?, codec::time(row, 1)?)))?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn tracked(conn: &Connection, shard: ShardId) -> Result<Vec<(Source, JobId)>, Failure> {
    let mut statement = conn.prepare_cached(sql!("tracked_jobs"))?;
    let mut rows = statement.query([shard.0])?;
    let mut tracked = Vec::new();
    while let Some(row) = rows.next()? {
        let job = codec::job_id(row, 0)?;
        tracked.extend(codec::source(row, 1, job)?.map(|source| (source, job)));
    }
    Ok(tracked)
}

pub(super) fn page(
    conn: &Connection,
    shard: ShardId,
    after: Option<ScheduleId>,
    limit: usize,
) -> Result<Vec<LoadedRow>, Failure> {
    let mut statement = conn.prepare_cached(sql!("load_schedules"))?;
    let rows = statement.query_map(params![shard.0, bytes_of(after), limit as i64], read_loaded)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The first rows of one page for each calendar: a schedule among them comes first for every calendar.
pub(super) fn with_calendars(
    conn: &Connection,
    names: Vec<(NamespaceId, String)>,
    after: Option<ScheduleId>,
    limit: usize,
) -> Result<Vec<LoadedRow>, Failure> {
    let mut statement = conn.prepare_cached(sql!("schedules_with_calendar"))?;
    let mut users = BTreeMap::new();
    for (namespace, name) in names {
        let wanted = params![name, bytes_of(after), limit as i64, namespace.0];
        for row in statement.query_map(wanted, read_loaded)? {
            let row = row?;
            users.insert(row.id, row);
        }
    }
    Ok(users.into_values().take(limit).collect())
}

/// Bytes of zeros sort before every id.
fn bytes_of(after: Option<ScheduleId>) -> [u8; 16] {
    after.map_or([0; 16], ScheduleId::to_bytes)
}
