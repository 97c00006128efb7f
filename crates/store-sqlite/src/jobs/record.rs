//! Everything that is known of one job.

use bytes::Bytes;
use punctual_core::attempt::AttemptRecord;
use punctual_core::{AttemptNo, JobId, JobKey};
use punctual_store::{FinishedJob, HotJob, JobRecord, LateOutcome, RerunRecord};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::writer::Failure;
use crate::{codec, sql, transitions};

pub(super) fn find(conn: &Connection, id: JobId) -> Result<Option<JobRecord>, Failure> {
    if let Some((job, input)) = hot(conn, id)? {
        return Ok(Some(JobRecord::Hot { job, input, attempts: attempts(conn, id)? }));
    }
    let Some((job, last, input, output)) = finished(conn, id)? else { return Ok(None) };
    let mut attempts = attempts(conn, id)?;
    attempts.extend(last);
    Ok(Some(JobRecord::Finished { job, input, output, attempts }))
}

fn hot(conn: &Connection, id: JobId) -> Result<Option<(HotJob, Option<Bytes>)>, Failure> {
    let mut statement = conn.prepare_cached(sql!("job_record_hot"))?;
    transitions::at_its_key(conn, id, |key: JobKey| {
        statement
            .query_row(params![key.shard().0, key.due_at.as_micros(), id.to_bytes()], |row| {
                Ok((read_hot(row)?, codec::bytes(row, 12)?))
            })
            .optional()
    })
}

pub(super) fn hot_at(conn: &Connection, keys: &[JobKey]) -> Result<Vec<HotJob>, Failure> {
    let mut statement = conn.prepare_cached(sql!("hot_job"))?;
    let mut jobs = Vec::with_capacity(keys.len());
    for key in keys {
        let place = params![key.shard().0, key.due_at.as_micros(), key.id.to_bytes()];
        jobs.extend(statement.query_row(place, read_hot).optional()?);
    }
    Ok(jobs)
}

pub(super) fn finished_among(conn: &Connection, ids: &[JobId]) -> Result<Vec<FinishedJob>, Failure> {
    let mut statement = conn.prepare_cached(sql!("finished_job"))?;
    let mut jobs = Vec::new();
    for id in ids {
        jobs.extend(statement.query_row([id.to_bytes()], read_finished).optional()?);
    }
    Ok(jobs)
}

type FinishedRow = (FinishedJob, Option<AttemptRecord>, Option<Bytes>, Option<Bytes>);

fn finished(conn: &Connection, id: JobId) -> Result<Option<FinishedRow>, Failure> {
    let mut statement = conn.prepare_cached(sql!("job_record_finished"))?;
    let row = statement.query_row([id.to_bytes()], |row| {
        let ran = row.get::<_, Option<u32>>(13)?.is_some();
        let last = if ran { readable_attempt(row, 13, id) } else { None };
        Ok((read_finished(row)?, last, codec::bytes(row, 25)?, codec::bytes(row, 26)?))
    });
    Ok(row.optional()?)
}

fn attempts(conn: &Connection, id: JobId) -> Result<Vec<AttemptRecord>, Failure> {
    let mut statement = conn.prepare_cached(sql!("attempts_of_job"))?;
    let rows = statement.query_map([id.to_bytes()], |row| Ok(readable_attempt(row, 0, id)))?;
    Ok(rows.filter_map(Result::transpose).collect::<rusqlite::Result<_>>()?)
}

/// One attempt that cannot be read must not hide its job.
fn readable_attempt(row: &Row<'_>, column: usize, id: JobId) -> Option<AttemptRecord> {
    codec::attempt(row, column, id)
        .inspect_err(|error| tracing::error!(job = %id, %error, "an attempt cannot be read and is not shown"))
        .ok()
}

pub(super) fn reruns(conn: &Connection, id: JobId) -> Result<Vec<RerunRecord>, Failure> {
    let mut statement = conn.prepare_cached(sql!("reruns_of_job"))?;
    let rows = statement.query_map([id.to_bytes()], |row| {
        let next_attempt = AttemptNo(row.get(2)?);
        Ok(RerunRecord { at: codec::time(row, 0)?, from: codec::state(row, 1)?, next_attempt })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn late_outcomes(conn: &Connection, id: JobId, limit: usize) -> Result<Vec<LateOutcome>, Failure> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = conn.prepare_cached(sql!("late_outcomes_of_job"))?;
    let rows = statement.query_map(params![id.to_bytes(), limit], |row| {
        Ok(LateOutcome {
            attempt: AttemptNo(row.get(0)?),
            worker: codec::worker_id(row, 1)?,
            at: codec::time(row, 2)?,
            outcome: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The first twelve columns of `job_record_hot`, `hot_job`, `list_hot`, `list_moved` and `given_back`.
pub(super) fn read_hot(row: &Row<'_>) -> rusqlite::Result<HotJob> {
    let id = codec::job_id(row, 0)?;
    Ok(HotJob {
        key: JobKey { id, due_at: codec::time(row, 1)? },
        task: codec::task_id(row, 2)?,
        priority: codec::priority(row, 3)?,
        counters: codec::counters(row, 4)?,
        submitted_at: codec::time(row, 7)?,
        tracing_id: row.get(8)?,
        source: codec::source(row, 10, id)?,
        give_backs: codec::give_backs(row, 11, id)?,
        cancel_requested: row.get(9)?,
    })
}

/// The first thirteen columns of `job_record_finished`, `finished_job` and the lists of finished jobs.
pub(super) fn read_finished(row: &Row<'_>) -> rusqlite::Result<FinishedJob> {
    let id = codec::job_id(row, 0)?;
    Ok(FinishedJob {
        id,
        task: codec::task_id(row, 1)?,
        priority: codec::priority(row, 2)?,
        counters: codec::counters(row, 3)?,
        submitted_at: codec::time(row, 6)?,
        tracing_id: row.get(7)?,
        source: codec::source(row, 12, id)?,
        state: codec::state(row, 8)?,
        finished_at: codec::time(row, 9)?,
        due_at: codec::time(row, 10)?,
        reason: row.get(11)?,
    })
}
