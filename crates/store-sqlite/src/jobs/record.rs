//! Everything that is known of one job.

use bytes::Bytes;
use punctual_core::attempt::AttemptRecord;
use punctual_core::{AttemptNo, JobId, JobKey};
use punctual_store::columns::{finished_job, hot_job};
use punctual_store::{FinishedJob, HotJob, JobRecord, LateOutcome, RequesterId, RerunRecord};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::writer::Failure;
use crate::{codec, sql, transitions};

pub(super) fn find(conn: &Connection, id: JobId) -> Result<Option<JobRecord>, Failure> {
    if let Some((job, requester, input)) = hot(conn, id)? {
        return Ok(Some(JobRecord::Hot { job, requester, input, attempts: attempts(conn, id)? }));
    }
    let Some((job, last, requester, input, output)) = finished(conn, id)? else { return Ok(None) };
    let mut attempts = attempts(conn, id)?;
    attempts.extend(last);
    Ok(Some(JobRecord::Finished { job, requester, input, output, attempts }))
}

fn hot(conn: &Connection, id: JobId) -> Result<Option<HotRow>, Failure> {
    let mut statement = conn.prepare_cached(sql!("job_record_hot"))?;
    transitions::at_its_key(conn, id, |key: JobKey| {
        statement
            .query_row(params![key.shard().0, key.due_at.as_micros(), id.to_bytes()], |row| {
                Ok((read_hot(row)?, requester(row, hot_job::COUNT + 1)?, codec::bytes(row, hot_job::COUNT)?))
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

fn requester(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<RequesterId>> {
    Ok(row.get::<_, Option<u32>>(column)?.map(RequesterId))
}

/// In `job_record_finished`, the input, the output and the requester are after the job and its last attempt.
const INPUT: usize = finished_job::COUNT + 12;

type HotRow = (HotJob, Option<RequesterId>, Option<Bytes>);
type FinishedRow = (FinishedJob, Option<AttemptRecord>, Option<RequesterId>, Option<Bytes>, Option<Bytes>);

fn finished(conn: &Connection, id: JobId) -> Result<Option<FinishedRow>, Failure> {
    let mut statement = conn.prepare_cached(sql!("job_record_finished"))?;
    let row = statement.query_row([id.to_bytes()], |row| {
        let ran = row.get::<_, Option<u32>>(finished_job::COUNT)?.is_some();
        let last = if ran { readable_attempt(row, finished_job::COUNT, id) } else { None };
        let requester = requester(row, INPUT + 2)?;
        Ok((read_finished(row)?, last, requester, codec::bytes(row, INPUT)?, codec::bytes(row, INPUT + 1)?))
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

/// From a row of `job_record_hot`, `hot_job`, `list_hot`, `list_moved` and `given_back`.
pub(super) fn read_hot(row: &Row<'_>) -> rusqlite::Result<HotJob> {
    use hot_job as column;
    let id = codec::job_id(row, column::ID)?;
    Ok(HotJob {
        key: JobKey { id, due_at: codec::time(row, column::DUE_AT)? },
        namespace: codec::namespace(row, column::NAMESPACE)?,
        task: codec::task_id(row, column::TASK)?,
        priority: codec::priority(row, column::PRIORITY)?,
        counters: codec::counters(row, [column::NEXT_ATTEMPT, column::FAILURES, column::NODE_FAILURES])?,
        submitted_at: codec::time(row, column::SUBMITTED_AT)?,
        tracing_id: row.get(column::TRACING_ID)?,
        source: codec::source(row, column::SOURCE, id)?,
        give_backs: codec::give_backs(row, column::GIVE_BACKS, id)?,
        cancel_requested: row.get(column::CANCEL_REQUESTED)?,
    })
}

/// From a row of `job_record_finished`, `finished_job` and the lists of finished jobs.
pub(super) fn read_finished(row: &Row<'_>) -> rusqlite::Result<FinishedJob> {
    use finished_job as column;
    let id = codec::job_id(row, column::ID)?;
    Ok(FinishedJob {
        id,
        namespace: codec::namespace(row, column::NAMESPACE)?,
        task: codec::task_id(row, column::TASK)?,
        priority: codec::priority(row, column::PRIORITY)?,
        counters: codec::counters(row, [column::NEXT_ATTEMPT, column::FAILURES, column::NODE_FAILURES])?,
        submitted_at: codec::time(row, column::SUBMITTED_AT)?,
        tracing_id: row.get(column::TRACING_ID)?,
        source: codec::source(row, column::SOURCE, id)?,
        state: codec::state(row, column::STATE)?,
        finished_at: codec::time(row, column::FINISHED_AT)?,
        due_at: codec::time(row, column::DUE_AT)?,
        reason: row.get(column::REASON)?,
    })
}
