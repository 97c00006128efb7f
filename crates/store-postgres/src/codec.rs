//! How values of the core look in a row.

use bytes::{Bytes, BytesMut};
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
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::trouble::Trouble;

pub(crate) type Read<T> = std::result::Result<T, Trouble>;

/// An id as PostgreSQL's uuid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }
    accepts!(UUID);
}

macro_rules! as_uuid {
    ($($id:ident),*) => {$(
        impl From<$id> for Uuid {
            fn from(id: $id) -> Self {
                Self(id.to_bytes())
            }
        }
    )*};
}
as_uuid!(ArtifactId, BackfillId, BatchId, JobId, RunId, ScheduleId, TaskId, WorkerId, ServerId);

/// Shards are numbered to 1,023.
pub(crate) const fn shard_number(shard: ShardId) -> i16 {
    shard.0 as i16
}

/// PostgreSQL's numbers have a sign. The same bits read back as the same number.
pub(crate) const fn namespace_number(namespace: NamespaceId) -> i32 {
    namespace.0 as i32
}

/// Nothing is the default namespace.
pub(crate) fn namespace_or_none(namespace: NamespaceId) -> Option<i32> {
    namespace.or_none().map(|number| number as i32)
}

pub(crate) fn rows_max(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// PostgreSQL's numbers have a sign. The same bits read back as the same number.
pub(crate) const fn attempt_number(attempt: AttemptNo) -> i32 {
    attempt.0 as i32
}

/// PostgreSQL's text cannot hold the character zero, and what an attempt says about its
/// failure may.
pub(crate) fn text(text: &str) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.to_owned() }
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Read<T> {
    row.try_get(column).map_err(|error| unreadable(row, column, &error.to_string()))
}

pub(crate) fn unreadable(row: &Row, column: usize, why: &str) -> Trouble {
    let name = row.columns().get(column).map_or("?", |column| column.name());
    Trouble::inconsistent(format!("the column {name} cannot be read: {why}"))
}

/// Any value that needs no more than its type.
pub(crate) fn value<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Read<T> {
    get(row, column)
}

pub(crate) fn state(row: &Row, column: usize) -> Read<JobState> {
    let code: i16 = get(row, column)?;
    codes::state_of_code(code).ok_or_else(|| unreadable(row, column, "not a state"))
}

pub(crate) fn state_or_none(row: &Row, column: usize) -> Read<Option<JobState>> {
    let found: Option<i16> = get(row, column)?;
    found.map(|_| state(row, column)).transpose()
}

fn ending(row: &Row, column: usize) -> Read<Ending> {
    let code: i16 = get(row, column)?;
    codes::ending_of_code(code).ok_or_else(|| unreadable(row, column, "not an ending"))
}

pub(crate) fn time(row: &Row, column: usize) -> Read<Timestamp> {
    Timestamp::from_micros(get(row, column)?).ok_or_else(|| unreadable(row, column, "not a time"))
}

pub(crate) fn time_or_none(row: &Row, column: usize) -> Read<Option<Timestamp>> {
    let found: Option<i64> = get(row, column)?;
    found.map(|_| time(row, column)).transpose()
}

fn id<T>(row: &Row, column: usize, read: fn(&[u8]) -> Option<T>) -> Read<T> {
    let Uuid(bytes) = get(row, column)?;
    read(&bytes).ok_or_else(|| unreadable(row, column, "not an id"))
}

pub(crate) fn job_id(row: &Row, column: usize) -> Read<JobId> {
    id(row, column, JobId::from_bytes)
}

pub(crate) fn task_id(row: &Row, column: usize) -> Read<TaskId> {
    id(row, column, TaskId::from_bytes)
}

pub(crate) fn task_id_or_none(row: &Row, column: usize) -> Read<Option<TaskId>> {
    let found: Option<Uuid> = get(row, column)?;
    found.map(|_| task_id(row, column)).transpose()
}

pub(crate) fn job_id_or_none(row: &Row, column: usize) -> Read<Option<JobId>> {
    let found: Option<Uuid> = get(row, column)?;
    found.map(|_| job_id(row, column)).transpose()
}

pub(crate) fn schedule_id(row: &Row, column: usize) -> Read<ScheduleId> {
    id(row, column, ScheduleId::from_bytes)
}

pub(crate) fn backfill_id(row: &Row, column: usize) -> Read<BackfillId> {
    id(row, column, BackfillId::from_bytes)
}

pub(crate) fn run_id(row: &Row, column: usize) -> Read<RunId> {
    id(row, column, RunId::from_bytes)
}

pub(crate) fn batch_id(row: &Row, column: usize) -> Read<BatchId> {
    id(row, column, BatchId::from_bytes)
}

pub(crate) fn artifact_id(row: &Row, column: usize) -> Read<ArtifactId> {
    id(row, column, ArtifactId::from_bytes)
}

pub(crate) fn artifact_id_or_none(row: &Row, column: usize) -> Read<Option<ArtifactId>> {
    let found: Option<Uuid> = get(row, column)?;
    found.map(|_| artifact_id(row, column)).transpose()
}

pub(crate) fn server_id(row: &Row, column: usize) -> Read<ServerId> {
    id(row, column, ServerId::from_bytes)
}

pub(crate) fn worker_id(row: &Row, column: usize) -> Read<WorkerId> {
    id(row, column, WorkerId::from_bytes)
}

/// The worker or the server of an attempt, unless its number is not there or its id is none: the rest of the record still
/// tells something.
fn node<T>(row: &Row, column: usize, job: JobId, read: fn(&[u8]) -> Option<T>) -> Read<Option<T>> {
    let found = get::<Option<Uuid>>(row, column)?.and_then(|Uuid(bytes)| read(&bytes));
    if found.is_none() {
        tracing::debug!(%job, "the record of an attempt does not say who ran it");
    }
    Ok(found)
}

pub(crate) fn shard(row: &Row, column: usize) -> Read<ShardId> {
    Ok(ShardId(get::<i16>(row, column)? as u16))
}

/// Nothing is the default namespace.
pub(crate) fn namespace(row: &Row, column: usize) -> Read<NamespaceId> {
    Ok(get::<Option<i32>>(row, column)?.map_or(NamespaceId::DEFAULT, |number| NamespaceId(number as u32)))
}

/// Epochs rise from zero and never reach the sign.
pub(crate) fn epoch(row: &Row, column: usize) -> Read<Epoch> {
    Ok(Epoch(get::<i64>(row, column)?.unsigned_abs()))
}

pub(crate) fn priority(row: &Row, column: usize) -> Read<Priority> {
    let value: i16 = get(row, column)?;
    let value = i8::try_from(value).ok().and_then(Priority::new);
    value.ok_or_else(|| unreadable(row, column, "not a priority"))
}

pub(crate) fn attempt_no(row: &Row, column: usize) -> Read<Option<AttemptNo>> {
    Ok(get::<Option<i32>>(row, column)?.map(|number| AttemptNo(number as u32)))
}

/// Two columns from `column` on: when, and who.
pub(crate) fn by(row: &Row, column: usize) -> Read<By> {
    Ok(By { at: time(row, column)?, who: get(row, column + 1)? })
}

/// From the columns of the next attempt, the failures and the failures of nodes.
pub(crate) fn counters(row: &Row, [next_attempt, failures, node_failures]: [usize; 3]) -> Read<Counters> {
    Ok(Counters {
        next_attempt: AttemptNo(get::<i32>(row, next_attempt)? as u32),
        failures: get::<i16>(row, failures)? as u16,
        node_failures: get::<i16>(row, node_failures)? as u16,
    })
}

pub(crate) fn bytes(row: &Row, column: usize) -> Read<Option<Bytes>> {
    Ok(get::<Option<&[u8]>>(row, column)?.map(Bytes::copy_from_slice))
}

/// A job runs whoever made it, so that what cannot be read is left out.
pub(crate) fn source(row: &Row, column: usize, job: JobId) -> Read<Option<Source>> {
    match maker(row, column, job)? {
        Some(Maker::Schedule(source)) => Ok(Some(source)),
        Some(Maker::Run(_) | Maker::Batch(_)) | None => Ok(None),
    }
}

/// The schedule or the run that made a job.
pub(crate) fn maker(row: &Row, column: usize, job: JobId) -> Read<Option<Maker>> {
    let Some(bytes) = get::<Option<&[u8]>>(row, column)? else { return Ok(None) };
    let maker = Maker::from_bytes(bytes);
    if maker.is_none() {
        tracing::warn!(%job, "the schedule that made a job cannot be read");
    }
    Ok(maker)
}

/// From the columns of the input, which is there when it is short, and of its length.
pub(crate) fn input(row: &Row, column: usize, len: usize) -> Read<Input> {
    let Some(len) = get::<Option<i32>>(row, len)? else { return Ok(Input::None) };
    Ok(bytes(row, column)?.map_or(Input::Stored { len: len.unsigned_abs() }, Input::Inline))
}

/// The budgets begin anew if they cannot be read: the job still runs.
pub(crate) fn give_backs(row: &Row, column: usize, job: JobId) -> Read<Option<Box<GiveBacks>>> {
    let Some(text) = get::<Option<&str>>(row, column)? else { return Ok(None) };
    let read = serde_json::from_str(text)
        .inspect_err(|error| tracing::warn!(%job, %error, "how often a job was given back cannot be read"));
    Ok(read.ok().map(Box::new))
}

/// JSON escapes the character that PostgreSQL's text cannot hold.
pub(crate) fn give_backs_text(give_backs: Option<&GiveBacks>) -> Option<String> {
    give_backs.map(|give_backs| serde_json::to_string(give_backs).expect("numbers, times and a text are JSON"))
}

/// Where the job stands among those that were given back; the index is by this.
pub(crate) fn late_from(give_backs: Option<&GiveBacks>) -> Option<i64> {
    Some(give_backs?.last.as_ref()?.since.as_micros())
}

/// JSON escapes the character that PostgreSQL's text cannot hold.
pub(crate) fn details_text(details: Option<&Details>) -> Option<String> {
    details.map(|details| serde_json::to_string(details).expect("details are JSON"))
}

/// They are for people, so that what cannot be read is left out: the rest still tells something.
fn details(row: &Row, column: usize, job: JobId) -> Read<Option<Box<Details>>> {
    let Some(text) = get::<Option<&str>>(row, column)? else { return Ok(None) };
    let read = serde_json::from_str(text)
        .inspect_err(|error| tracing::warn!(%job, %error, "the details of an attempt cannot be read"));
    Ok(read.ok().map(Box::new))
}

/// Two columns from `column` on: log_path, log_bytes.
pub(crate) fn archived_log(row: &Row, column: usize) -> Read<Option<ArchivedLog>> {
    let Some(path) = get(row, column)? else { return Ok(None) };
    Ok(Some(ArchivedLog { path, bytes: get::<i64>(row, column + 1)?.unsigned_abs() }))
}

/// Twelve columns from `column` on: attempt, worker, server, picked_up_at, started_at,
/// finished_at, ending, reason, details, log_path, log_bytes, due_at.
pub(crate) fn attempt(row: &Row, column: usize, job: JobId) -> Read<AttemptRecord> {
    Ok(AttemptRecord {
        attempt: AttemptNo(get::<i32>(row, column)? as u32),
        worker: node(row, column + 1, job, WorkerId::from_bytes)?.unwrap_or(WorkerId::UNKNOWN),
        server: node(row, column + 2, job, ServerId::from_bytes)?.unwrap_or(ServerId::UNKNOWN),
        due_at: match get::<Option<i64>>(row, column + 11)? {
            Some(_) => time(row, column + 11)?,
            None => job.due_at(),
        },
        picked_up_at: time(row, column + 3)?,
        started_at: time(row, column + 4)?,
        finished_at: time(row, column + 5)?,
        ending: ending(row, column + 6)?,
        reason: get(row, column + 7)?,
        details: details(row, column + 8, job)?,
        log: archived_log(row, column + 9)?.map(Box::new),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_postgresql_cannot_hold_is_replaced() {
        assert_eq!(text("a\0b"), "a\u{fffd}b");
    }
}
