//! Batches. A step of a batch is worked out by the core, in the transaction of the writer that applies it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::batch::{BatchEvent, BatchMember, BatchState, BatchStatus, MemberRef};
use punctual_core::schedule::By;
use punctual_core::shard::write::{Batch, Void};
use punctual_core::{BatchId, JobId, NamespaceId, TaskId, Timestamp};
use punctual_store::{
    BatchChange, BatchChanges, BatchFilter, BatchRow, Batches, DueBatch, FoundRow, Maker, RequesterId, Result,
    batch_ends, tasks_from_bytes, tasks_to_bytes,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::jobs::store_jobs;
use crate::writer::{Db, Failure};
use crate::{SqliteStore, codec, sql, tasks};

type Done<T> = std::result::Result<T, Failure>;

/// Sorts after every id.
const AFTER_ALL_IDS: [u8; 16] = [0xff; 16];

#[async_trait]
impl Batches for SqliteStore {
    async fn change_batch(&self, id: BatchId, event: BatchEvent, now: Timestamp) -> Result<Option<BatchChange>> {
        let shard_count = self.shared.shard_count;
        let change = move |db: &mut Db| {
            db.all_or_nothing(|db| {
                let Some(row) = one(&db.conn, id)? else { return Ok(None) };
                change(db, &row, &[event], now, shard_count).map(Some)
            })
        };
        self.write(1, change).await
    }

    async fn batch(&self, id: BatchId) -> Result<Option<BatchRow>> {
        self.shared.people_reads.read(move |conn| one(conn, id)).await
    }

    async fn batch_in(&self, namespace: NamespaceId, id: BatchId) -> Result<Option<BatchRow>> {
        let find = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("batch_of_namespace"))?;
            Ok(statement.query_row(params![id.to_bytes(), namespace.0], read).optional()?)
        };
        self.shared.people_reads.read(find).await
    }

    async fn list_batches(&self, filter: BatchFilter) -> Result<Vec<BatchRow>> {
        let BatchFilter { namespace, status, before, limit } = filter;
        let before = before.map_or(AFTER_ALL_IDS, BatchId::to_bytes);
        let list = move |conn: &Connection| match status {
            Some(status) => {
                let mut statement = conn.prepare_cached(sql!("list_batches_of_status"))?;
                let wanted = params![namespace.0, before, limit as i64, status.number()];
                Ok(statement.query_map(wanted, read)?.collect::<rusqlite::Result<_>>()?)
            }
            None => {
                let mut statement = conn.prepare_cached(sql!("list_batches"))?;
                let wanted = params![namespace.0, before, limit as i64];
                Ok(statement.query_map(wanted, read)?.collect::<rusqlite::Result<_>>()?)
            }
        };
        self.shared.people_reads.read(list).await
    }

    async fn due_batches(&self, now: Timestamp, after: Option<DueBatch>, limit: usize) -> Result<Vec<DueBatch>> {
        let due = move |conn: &Connection| {
            let (at, id) = after.map_or((i64::MIN, [0; 16]), |after| (after.at.as_micros(), after.id.to_bytes()));
            let mut statement = conn.prepare_cached(sql!("due_batches"))?;
            let rows = statement.query_map(params![now.as_micros(), at, id, limit as i64], |row| {
                Ok(DueBatch { at: codec::time(row, 0)?, id: codec::batch_id(row, 1)? })
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.shared.owner_reads.read(due).await
    }

    async fn member_of_job(&self, job: JobId) -> Result<Option<MemberRef>> {
        let find = move |conn: &Connection| match crate::transitions::find(conn, job)? {
            FoundRow::Hot(row) => Ok(row.member.as_deref().copied()),
            FoundRow::Finished { .. } => {
                let mut statement = conn.prepare_cached(sql!("maker_of_finished"))?;
                let maker = statement.query_row([job.to_bytes()], |row| codec::maker(row, 0, job)).optional()?;
                Ok(match maker.flatten() {
                    Some(Maker::Batch(member)) => Some(member),
                    Some(Maker::Schedule(_) | Maker::Run(_)) | None => None,
                })
            }
            FoundRow::Absent => Ok(None),
        };
        self.shared.people_reads.read(find).await
    }
}

/// Stores a batch with the jobs of its submission, in an operation that leaves nothing behind when it is refused.
pub(crate) fn insert(db: &mut Db, row: &BatchRow) -> Done<()> {
    let BatchRow { id, namespace, name, made, requester, due_at, tasks, members, state, status } = row;
    let columns: Vec<Option<(TaskId, _)>> = tasks.iter().copied().map(Some).collect();
    db.conn.prepare_cached(sql!("insert_batch"))?.execute(params![
        id.to_bytes(),
        namespace.0,
        name,
        made.at.as_micros(),
        made.who,
        requester.map(|requester| requester.0),
        due_at.as_micros(),
        tasks_to_bytes(&columns),
        BatchMember::to_bytes(members),
        status.number(),
        state_text(state),
        row.first_wake().map(Timestamp::as_micros)
    ])?;
    // Retention leaves them alone until nothing is to be undone any more.
    for (task, _) in tasks {
        db.use_task(*task, row.tasks_used_until())?;
    }
    Ok(())
}

/// What follows from the ends of jobs in a transaction of the owner. The jobs have ended whatever becomes of their batch. Answers
/// the batches that are to be looked at.
pub(crate) fn step_all(db: &mut Db, batch: &Batch, void: &Void) -> Done<Vec<BatchId>> {
    let mut pressing = Vec::new();
    for (id, events) in batch_ends(batch, void) {
        let row = match one(&db.conn, id) {
            Ok(None) => continue,
            Err(Failure::Refused(error)) => {
                tracing::error!(batch = %id, %error, "a batch cannot be read");
                continue;
            }
            Ok(Some(row)) => row,
            Err(failure) => return Err(failure),
        };
        let changes = row.step(&events, batch.at);
        write(&db.conn, &changes)?;
        if changes.wake_at.is_some() {
            pressing.push(id);
        }
    }
    Ok(pressing)
}

fn change(db: &mut Db, row: &BatchRow, events: &[BatchEvent], now: Timestamp, shard_count: u16) -> Done<BatchChange> {
    let changes = row.step(events, now);
    if changes.is_refused {
        return Ok(changes.into_answer(Vec::new()));
    }
    let inputs = inputs(&db.conn, &changes)?;
    let mut gone = Vec::new();
    for (task, _) in &row.tasks {
        if !changes.compensations.is_empty() && tasks::known(&db.conn, *task)?.is_none() {
            gone.push(*task);
        }
    }
    let changes = changes.into_change(&inputs, &gone, now);
    let jobs = changes.jobs(&inputs);
    write(&db.conn, &changes)?;
    store_jobs(db, &jobs, shard_count)?;
    Ok(changes.into_answer(jobs))
}

/// Of the members that are to be undone. Those whose jobs are gone are missing.
fn inputs(conn: &Connection, changes: &BatchChanges) -> Done<BTreeMap<JobId, Option<Bytes>>> {
    let mut inputs = BTreeMap::new();
    let mut statement = conn.prepare_cached(sql!("input_of_finished"))?;
    for compensation in &changes.compensations {
        let job = compensation.of;
        let finished = statement.query_row([job.to_bytes()], |row| codec::bytes(row, 0)).optional()?;
        match finished {
            Some(input) => _ = inputs.insert(job, input),
            // Somebody runs it again.
            None => {
                if let FoundRow::Hot(row) = crate::transitions::find(conn, job)? {
                    let (shard, due_at) = (row.key.shard().0, row.key.due_at.as_micros());
                    let mut statement = conn.prepare_cached(sql!("job_input"))?;
                    let place = params![shard, due_at, job.to_bytes()];
                    inputs.insert(job, statement.query_row(place, |row| codec::bytes(row, 0)).optional()?.flatten());
                }
            }
        }
    }
    Ok(inputs)
}

fn write(conn: &Connection, changes: &BatchChanges) -> Done<()> {
    let BatchChanges { row, wake_at, .. } = changes;
    conn.prepare_cached(sql!("write_batch"))?.execute(params![
        row.id.to_bytes(),
        row.status.number(),
        state_text(&row.state),
        wake_at.map(Timestamp::as_micros),
        row.state.ended_at.map(Timestamp::as_micros)
    ])?;
    Ok(())
}

fn state_text(state: &BatchState) -> String {
    serde_json::to_string(state).expect("states are JSON")
}

fn one(conn: &Connection, id: BatchId) -> Done<Option<BatchRow>> {
    Ok(conn.prepare_cached(sql!("batch"))?.query_row([id.to_bytes()], read).optional()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<BatchRow> {
    let made: By = codec::by(row, 3)?;
    let tasks = tasks_from_bytes(row.get_ref(7)?.as_blob()?).and_then(|tasks| tasks.into_iter().collect());
    let members = BatchMember::from_bytes(row.get_ref(8)?.as_blob()?);
    let status = BatchStatus::from_number(row.get(9)?);
    let state = row.get_ref(10)?.as_str()?;
    Ok(BatchRow {
        id: codec::batch_id(row, 0)?,
        namespace: codec::namespace(row, 1)?,
        name: row.get(2)?,
        made,
        requester: row.get::<_, Option<u32>>(5)?.map(RequesterId),
        due_at: codec::time(row, 6)?,
        tasks: tasks.ok_or_else(|| codec::unreadable(7, Type::Blob, "not the tasks of a batch"))?,
        members: members.ok_or_else(|| codec::unreadable(8, Type::Blob, "not the members of a batch"))?,
        status: status.ok_or_else(|| codec::unreadable(9, Type::Integer, "not the status of a batch"))?,
        state: serde_json::from_str(state).map_err(|error| codec::unreadable_text(10, error))?,
    })
}
