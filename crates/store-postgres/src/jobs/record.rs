//! Everything that is known of one job.

use bytes::Bytes;
use punctual_core::attempt::AttemptRecord;
use punctual_core::{AttemptNo, JobId, JobKey};
use punctual_store::columns::{finished_job, hot_job};
use punctual_store::{FinishedJob, HotJob, JobRecord, LateOutcome, RequesterId, RerunRecord, StoreError};
use tokio_postgres::Row;

use crate::codec::{self, Read, Uuid, shard_number};
use crate::connection::Conn;
use crate::link::Borrowed;
use crate::pipeline::{Pipeline, Step};
use crate::requesters::id_or_none;
use crate::sql;
use crate::trouble::Trouble;

/// In one snapshot: a job that moves between two looks would not be seen at all.
pub(super) async fn find(conn: &Borrowed<'_>, id: JobId) -> Result<Option<JobRecord>, Trouble> {
    let key = JobKey::original(id);
    let steps = vec![
        Step::Plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        Step::Prepared(
            conn.prepare(sql!("job_record_hot")).await?,
            vec![Box::new(shard_number(key.shard())), Box::new(key.due_at.as_micros()), Box::new(Uuid::from(id))],
        ),
        Step::Prepared(conn.prepare(sql!("job_record_finished")).await?, vec![Box::new(Uuid::from(id))]),
        Step::Prepared(conn.prepare(sql!("attempts_of_job")).await?, vec![Box::new(Uuid::from(id))]),
        Step::Plain("COMMIT"),
    ];
    let mut answers = conn.within_limit(async { Ok::<_, Trouble>(Pipeline::new(conn.shared(), steps).await) }).await?;
    let mut answer = |place: usize| std::mem::replace(&mut answers[place], Ok(Vec::new()));
    answer(0)?;
    let (hot, finished) = (answer(1)?, answer(2)?);
    let mut attempts: Vec<_> = answer(3)?.iter().filter_map(|row| readable_attempt(row, 0, id)).collect();
    if let Some(row) = hot.first() {
        let (input, requester) = (codec::bytes(row, hot_job::COUNT)?, id_or_none(row, hot_job::COUNT + 1)?);
        return Ok(Some(JobRecord::Hot { job: read_hot(row)?, requester, input, attempts }));
    }
    let Some(row) = finished.first() else { return Ok(None) };
    let (job, last, requester, input, output) = read_record(row, id)?;
    attempts.extend(last);
    Ok(Some(JobRecord::Finished { job, requester, input, output, attempts }))
}

pub(super) async fn reruns(conn: &Conn, id: JobId) -> Result<Vec<RerunRecord>, Trouble> {
    let rows = conn.query(sql!("reruns_of_job"), &[&Uuid::from(id)]).await?;
    let read = |row: &Row| {
        let next_attempt = codec::value::<i32>(row, 2)?;
        let next_attempt = AttemptNo(next_attempt.unsigned_abs());
        Ok(RerunRecord { at: codec::time(row, 0)?, from: codec::state(row, 1)?, next_attempt })
    };
    rows.iter().map(read).collect()
}

pub(super) async fn late_outcomes(conn: &Conn, id: JobId, limit: usize) -> Result<Vec<LateOutcome>, Trouble> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = conn.query(sql!("late_outcomes_of_job"), &[&Uuid::from(id), &limit]).await?;
    let read = |row: &Row| {
        Ok(LateOutcome {
            attempt: AttemptNo(codec::value::<i32>(row, 0)?.unsigned_abs()),
            worker: codec::worker_id(row, 1)?,
            at: codec::time(row, 2)?,
            outcome: codec::value(row, 3)?,
        })
    };
    rows.iter().map(read).collect()
}

/// In `job_record_finished`, the input, the output and the requester are after the job and its last attempt.
const INPUT: usize = finished_job::COUNT + 12;

type FinishedRow = (FinishedJob, Option<AttemptRecord>, Option<RequesterId>, Option<Bytes>, Option<Bytes>);

/// One attempt that cannot be read must not hide its job.
fn readable_attempt(row: &Row, column: usize, id: JobId) -> Option<AttemptRecord> {
    codec::attempt(row, column, id)
        .map_err(StoreError::from)
        .inspect_err(|error| tracing::error!(job = %id, %error, "an attempt cannot be read and is not shown"))
        .ok()
}

fn read_record(row: &Row, id: JobId) -> Read<FinishedRow> {
    let last =
        codec::attempt_no(row, finished_job::COUNT)?.and_then(|_| readable_attempt(row, finished_job::COUNT, id));
    let requester = id_or_none(row, INPUT + 2)?;
    Ok((read_finished(row)?, last, requester, codec::bytes(row, INPUT)?, codec::bytes(row, INPUT + 1)?))
}

pub(super) async fn hot_at(conn: &Conn, keys: &[JobKey]) -> Result<Vec<HotJob>, Trouble> {
    let shards: Vec<i16> = keys.iter().map(|key| shard_number(key.shard())).collect();
    let due: Vec<i64> = keys.iter().map(|key| key.due_at.as_micros()).collect();
    let ids: Vec<Uuid> = keys.iter().map(|key| key.id.into()).collect();
    let rows = conn.query(sql!("hot_jobs"), &[&shards, &due, &ids]).await?;
    let read = |row: &Row| Ok((codec::value::<i64>(row, hot_job::COUNT)?, read_hot(row)?));
    let mut jobs = rows.iter().map(read).collect::<Read<Vec<_>>>()?;
    jobs.sort_by_key(|(place, _)| *place);
    Ok(jobs.into_iter().map(|(_, job)| job).collect())
}

pub(super) async fn finished_among(conn: &Conn, ids: &[JobId]) -> Result<Vec<FinishedJob>, Trouble> {
    let ids: Vec<Uuid> = ids.iter().map(|id| Uuid::from(*id)).collect();
    let rows = conn.query(sql!("finished_jobs"), &[&ids]).await?;
    rows.iter().map(read_finished).collect()
}

/// From a row of `job_record_hot`, `hot_jobs`, `list_hot`, `list_moved` and `given_back`.
pub(super) fn read_hot(row: &Row) -> Read<HotJob> {
    use hot_job as column;
    let id = codec::job_id(row, column::ID)?;
    Ok(HotJob {
        key: JobKey { id, due_at: codec::time(row, column::DUE_AT)? },
        namespace: codec::namespace(row, column::NAMESPACE)?,
        task: codec::task_id(row, column::TASK)?,
        priority: codec::priority(row, column::PRIORITY)?,
        counters: codec::counters(row, [column::NEXT_ATTEMPT, column::FAILURES, column::NODE_FAILURES])?,
        submitted_at: codec::time(row, column::SUBMITTED_AT)?,
        tracing_id: codec::value(row, column::TRACING_ID)?,
        cancel_requested: codec::value(row, column::CANCEL_REQUESTED)?,
        source: codec::source(row, column::SOURCE, id)?,
        give_backs: codec::give_backs(row, column::GIVE_BACKS, id)?,
    })
}

/// From a row of `job_record_finished`, `finished_jobs` and the lists of finished jobs.
pub(super) fn read_finished(row: &Row) -> Read<FinishedJob> {
    use finished_job as column;
    let id = codec::job_id(row, column::ID)?;
    let was_moved = codec::value::<Option<i64>>(row, column::DUE_AT)?.is_some();
    Ok(FinishedJob {
        id,
        namespace: codec::namespace(row, column::NAMESPACE)?,
        task: codec::task_id(row, column::TASK)?,
        priority: codec::priority(row, column::PRIORITY)?,
        counters: codec::counters(row, [column::NEXT_ATTEMPT, column::FAILURES, column::NODE_FAILURES])?,
        submitted_at: codec::time(row, column::SUBMITTED_AT)?,
        tracing_id: codec::value(row, column::TRACING_ID)?,
        state: codec::state(row, column::STATE)?,
        finished_at: codec::time(row, column::FINISHED_AT)?,
        due_at: if was_moved { codec::time(row, column::DUE_AT)? } else { id.due_at() },
        reason: codec::value(row, column::REASON)?,
        source: codec::source(row, column::SOURCE, id)?,
    })
}
