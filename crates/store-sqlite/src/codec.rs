//! How values of the core look in a row.

use bytes::Bytes;
use punctual_core::attempt::{ArchivedLog, AttemptRecord, Details, Ending};
use punctual_core::give_backs::GiveBacks;
use punctual_core::job::Input;
use punctual_core::schedule::{By, Source};
use punctual_core::shard::write::Epoch;
use punctual_core::task::Priority;
use punctual_core::{
    ArtifactId, AttemptNo, BackfillId, BatchId, Counters, JobId, JobState, NamespaceId, RunId, ScheduleId, ServerId,
    ShardId, TaskId, Timestamp, WorkerId,
};
use punctual_store::{Maker, codes};
use rusqlite::Row;
use rusqlite::types::{FromSqlError, Type, ValueRef};

pub(crate) fn unreadable(column: usize, kind: Type, what: &str) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, kind, FromSqlError::Other(what.into()).into())
}

pub(crate) fn unreadable_text(column: usize, error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

pub(crate) fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<JobState> {
    codes::state_of_code(row.get(column)?).ok_or_else(|| unreadable(column, Type::Integer, "not a state"))
}

fn ending(row: &Row<'_>, column: usize) -> rusqlite::Result<Ending> {
    codes::ending_of_code(row.get(column)?).ok_or_else(|| unreadable(column, Type::Integer, "not an ending"))
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_micros(row.get(column)?).ok_or_else(|| unreadable(column, Type::Integer, "not a time"))
}

/// `None` where there is nothing in this column.
pub(crate) fn or_none<T>(
    row: &Row<'_>,
    column: usize,
    read: fn(&Row<'_>, usize) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    if row.get_ref(column)? == ValueRef::Null { Ok(None) } else { read(row, column).map(Some) }
}

/// Two columns from `column` on: when, and who.
pub(crate) fn by(row: &Row<'_>, column: usize) -> rusqlite::Result<By> {
    Ok(By { at: time(row, column)?, who: row.get(column + 1)? })
}

fn id<T>(row: &Row<'_>, column: usize, read: fn(&[u8]) -> Option<T>) -> rusqlite::Result<T> {
    let bytes = row.get_ref(column)?.as_blob()?;
    read(bytes).ok_or_else(|| unreadable(column, Type::Blob, "not an id"))
}

pub(crate) fn job_id(row: &Row<'_>, column: usize) -> rusqlite::Result<JobId> {
    id(row, column, JobId::from_bytes)
}

pub(crate) fn task_id(row: &Row<'_>, column: usize) -> rusqlite::Result<TaskId> {
    id(row, column, TaskId::from_bytes)
}

pub(crate) fn schedule_id(row: &Row<'_>, column: usize) -> rusqlite::Result<ScheduleId> {
    id(row, column, ScheduleId::from_bytes)
}

pub(crate) fn backfill_id(row: &Row<'_>, column: usize) -> rusqlite::Result<BackfillId> {
    id(row, column, BackfillId::from_bytes)
}

pub(crate) fn run_id(row: &Row<'_>, column: usize) -> rusqlite::Result<RunId> {
    id(row, column, RunId::from_bytes)
}

pub(crate) fn batch_id(row: &Row<'_>, column: usize) -> rusqlite::Result<BatchId> {
    id(row, column, BatchId::from_bytes)
}

pub(crate) fn artifact_id(row: &Row<'_>, column: usize) -> rusqlite::Result<ArtifactId> {
    id(row, column, ArtifactId::from_bytes)
}

pub(crate) fn artifact_id_or_none(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ArtifactId>> {
    or_none(row, column, artifact_id)
}

pub(crate) fn worker_id(row: &Row<'_>, column: usize) -> rusqlite::Result<WorkerId> {
    id(row, column, WorkerId::from_bytes)
}

pub(crate) fn server_id(row: &Row<'_>, column: usize) -> rusqlite::Result<ServerId> {
    id(row, column, ServerId::from_bytes)
}

/// Nothing is the default namespace.
pub(crate) fn namespace(row: &Row<'_>, column: usize) -> rusqlite::Result<NamespaceId> {
    NamespaceId::from_column(row.get(column)?)
        .ok_or_else(|| unreadable(column, Type::Integer, "not the number of a namespace"))
}

pub(crate) fn shard(row: &Row<'_>, column: usize) -> rusqlite::Result<ShardId> {
    row.get(column).map(ShardId)
}

/// Epochs count up from zero by one: they never reach the sign.
pub(crate) fn epoch(row: &Row<'_>, column: usize) -> rusqlite::Result<Epoch> {
    let epoch: i64 = row.get(column)?;
    Ok(Epoch(epoch.unsigned_abs()))
}

/// Versions count up from zero by one: they never reach the sign.
pub(crate) fn version(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let version: i64 = row.get(column)?;
    Ok(version.unsigned_abs())
}

pub(crate) fn priority(row: &Row<'_>, column: usize) -> rusqlite::Result<Priority> {
    Priority::new(row.get(column)?).ok_or_else(|| unreadable(column, Type::Integer, "not a priority"))
}

/// From the columns of the next attempt, the failures and the failures of nodes.
pub(crate) fn counters(
    row: &Row<'_>,
    [next_attempt, failures, node_failures]: [usize; 3],
) -> rusqlite::Result<Counters> {
    Ok(Counters {
        next_attempt: AttemptNo(row.get(next_attempt)?),
        failures: row.get(failures)?,
        node_failures: row.get(node_failures)?,
    })
}

pub(crate) fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Bytes>> {
    Ok(row.get_ref(column)?.as_blob_or_null()?.map(Bytes::copy_from_slice))
}

/// A job runs without knowing why it exists, so that what cannot be read is left out.
pub(crate) fn source(row: &Row<'_>, column: usize, job: JobId) -> rusqlite::Result<Option<Source>> {
    match maker(row, column, job)? {
        Some(Maker::Schedule(source)) => Ok(Some(source)),
        Some(Maker::Run(_) | Maker::Batch(_)) | None => Ok(None),
    }
}

/// The schedule or the run that made a job.
pub(crate) fn maker(row: &Row<'_>, column: usize, job: JobId) -> rusqlite::Result<Option<Maker>> {
    let Some(bytes) = row.get_ref(column)?.as_blob_or_null()? else { return Ok(None) };
    let maker = Maker::from_bytes(bytes);
    if maker.is_none() {
        tracing::warn!(%job, "which schedule made a job cannot be read");
    }
    Ok(maker)
}

/// From the columns of the input, which is there when it is short, and of its length.
pub(crate) fn input(row: &Row<'_>, column: usize, len: usize) -> rusqlite::Result<Input> {
    let Some(len) = row.get::<_, Option<u32>>(len)? else { return Ok(Input::None) };
    Ok(bytes(row, column)?.map_or(Input::Stored { len }, Input::Inline))
}

/// The budgets begin anew if they cannot be read: the job still runs.
pub(crate) fn give_backs(row: &Row<'_>, column: usize, job: JobId) -> rusqlite::Result<Option<Box<GiveBacks>>> {
    let Some(text) = row.get_ref(column)?.as_bytes_or_null()? else { return Ok(None) };
    let read = serde_json::from_slice(text)
        .inspect_err(|error| tracing::warn!(%job, %error, "how often a job was given back cannot be read"));
    Ok(read.ok().map(Box::new))
}

pub(crate) fn give_backs_text(give_backs: Option<&GiveBacks>) -> Option<String> {
    give_backs.map(|give_backs| serde_json::to_string(give_backs).expect("numbers, times and a text are JSON"))
}

/// Where the job stands among those that were given back; the index is by this.
pub(crate) fn late_from(give_backs: Option<&GiveBacks>) -> Option<i64> {
    Some(give_backs?.last.as_ref()?.since.as_micros())
}

pub(crate) fn details_text(details: Option<&Details>) -> Option<String> {
    details.map(|details| serde_json::to_string(details).expect("details are JSON"))
}

/// They are for people, so that what cannot be read is left out: the rest still tells something.
fn details(row: &Row<'_>, column: usize, job: JobId) -> rusqlite::Result<Option<Box<Details>>> {
    let Some(text) = row.get_ref(column)?.as_bytes_or_null()? else { return Ok(None) };
    let read = serde_json::from_slice(text)
        .inspect_err(|error| tracing::warn!(%job, %error, "the details of an attempt cannot be read"));
    Ok(read.ok().map(Box::new))
}

/// Two columns from `column` on: log_path, log_bytes.
pub(crate) fn archived_log(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ArchivedLog>> {
    let Some(path) = row.get(column)? else { return Ok(None) };
    Ok(Some(ArchivedLog { path, bytes: row.get::<_, i64>(column + 1)?.unsigned_abs() }))
}

/// Twelve columns from `column` on: attempt, worker, server, picked_up_at, started_at,
/// finished_at, ending, reason, details, log_path, log_bytes, due_at.
pub(crate) fn attempt(row: &Row<'_>, column: usize, job: JobId) -> rusqlite::Result<AttemptRecord> {
    Ok(AttemptRecord {
        attempt: AttemptNo(row.get(column)?),
        worker: worker_id(row, column + 1).unwrap_or(WorkerId::UNKNOWN),
        server: server_id(row, column + 2).unwrap_or(ServerId::UNKNOWN),
        due_at: or_none(row, column + 11, time)?.unwrap_or_else(|| job.due_at()),
        picked_up_at: time(row, column + 3)?,
        started_at: time(row, column + 4)?,
        finished_at: time(row, column + 5)?,
        ending: ending(row, column + 6)?,
        reason: row.get(column + 7)?,
        details: details(row, column + 8, job)?,
        log: archived_log(row, column + 9)?.map(Box::new),
    })
}
