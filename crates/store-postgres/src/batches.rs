//! Batches. The core works out a step between the lock of the batch's row and the write of what follows.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use punctual_core::batch::{BatchEvent, BatchMember, BatchState, BatchStatus, MemberRef};
use punctual_core::shard::write::{Batch, Void};
use punctual_core::{BatchId, JobId, NamespaceId, TaskId, Timestamp};
use punctual_store::{
    BatchChange, BatchChanges, BatchFilter, BatchRow, Batches, DueBatch, FoundRow, Maker, Result, TASK_USE_STEP,
    Transitions, batch_ends, tasks_from_bytes, tasks_to_bytes,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codec::{self, Read, Uuid, namespace_number, rows_max};
use crate::connection::Conn;
use crate::jobs::store_within;
use crate::retention::SMALL_ROWS_MAX;
use crate::trouble::Trouble;
use crate::workflows::DEADLOCK_TRIES;
use crate::{PostgresStore, requesters, sql, tasks};

type Done<T> = std::result::Result<T, Trouble>;

/// Sorts before every id.
const FIRST_ID: Uuid = Uuid([0; 16]);
/// Sorts after every id.
const LAST_ID: Uuid = Uuid([0xff; 16]);

#[async_trait]
impl Batches for PostgresStore {
    async fn change_batch(&self, id: BatchId, event: BatchEvent, now: Timestamp) -> Result<Option<BatchChange>> {
        self.open()?;
        let conn = self.shared.runs.take().await?;
        let events = [event];
        let mut tries = DEADLOCK_TRIES;
        let changed = loop {
            let changed = change(conn.shared(), id, &events, now, self.shared.shard_count).await;
            if !matches!(&changed, Ok(Some(change)) if !change.is_refused) {
                conn.run("ROLLBACK").await?;
            }
            tries -= 1;
            if tries == 0 || !changed.as_ref().is_err_and(Trouble::is_transient) {
                break changed;
            }
        };
        conn.done();
        Ok(changed?)
    }

    async fn batch(&self, id: BatchId) -> Result<Option<BatchRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("batch"), &[&Uuid::from(id)]).await?;
        conn.done();
        Ok(row.as_ref().map(read).transpose()?)
    }

    async fn batch_in(&self, namespace: NamespaceId, id: BatchId) -> Result<Option<BatchRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let wanted: [&(dyn ToSql + Sync); 2] = [&Uuid::from(id), &namespace_number(namespace)];
        let row = conn.query_opt(sql!("batch_of_namespace"), &wanted).await?;
        conn.done();
        Ok(row.as_ref().map(read).transpose()?)
    }

    async fn list_batches(&self, filter: BatchFilter) -> Result<Vec<BatchRow>> {
        self.open()?;
        let BatchFilter { namespace, status, before, limit } = filter;
        let (namespace, before, limit) =
            (namespace_number(namespace), before.map_or(LAST_ID, Uuid::from), rows_max(limit));
        let conn = self.shared.people_reads.take().await?;
        let rows = match status {
            Some(status) => {
                let wanted: [&(dyn ToSql + Sync); 4] = [&namespace, &before, &limit, &i16::from(status.number())];
                conn.query(sql!("list_batches_of_status"), &wanted).await?
            }
            None => conn.query(sql!("list_batches"), &[&namespace, &before, &limit]).await?,
        };
        conn.done();
        Ok(rows.iter().map(read).collect::<Read<_>>()?)
    }

    async fn due_batches(&self, now: Timestamp, after: Option<DueBatch>, limit: usize) -> Result<Vec<DueBatch>> {
        self.open()?;
        let (at, id) = after.map_or((i64::MIN, FIRST_ID), |after| (after.at.as_micros(), after.id.into()));
        let conn = self.shared.owner_reads.take().await?;
        let rows = conn.query(sql!("due_batches"), &[&now.as_micros(), &at, &id, &rows_max(limit)]).await?;
        conn.done();
        let read = |row: &Row| Ok(DueBatch { at: codec::time(row, 0)?, id: codec::batch_id(row, 1)? });
        Ok(rows.iter().map(read).collect::<Read<_>>()?)
    }

    async fn member_of_job(&self, job: JobId) -> Result<Option<MemberRef>> {
        match self.find(job).await? {
            FoundRow::Hot(row) => return Ok(row.member.as_deref().copied()),
            FoundRow::Absent => return Ok(None),
            FoundRow::Finished { .. } => {}
        }
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("maker_of_finished"), &[&Uuid::from(job)]).await?;
        conn.done();
        Ok(match row.map(|row| codec::maker(&row, 0, job)).transpose()?.flatten() {
            Some(Maker::Batch(member)) => Some(member),
            Some(Maker::Schedule(_) | Maker::Run(_)) | None => None,
        })
    }
}

/// Stores a batch in the transaction that stores its jobs.
pub(crate) async fn insert(conn: &Arc<Conn>, row: &BatchRow) -> Done<()> {
    let BatchRow { id, namespace, name, made, requester, due_at, tasks, members, state, status } = row;
    use_tasks(conn, row).await?;
    let columns: Vec<Option<(TaskId, _)>> = tasks.iter().copied().map(Some).collect();
    let (tasks, members) = (tasks_to_bytes(&columns), BatchMember::to_bytes(members));
    let (name, who, state) = (name.as_deref().map(codec::text), codec::text(&made.who), state_text(state));
    let wanted: [&(dyn ToSql + Sync); 12] = [
        &Uuid::from(*id),
        &namespace_number(*namespace),
        &name,
        &made.at.as_micros(),
        &who,
        &requester.map(requesters::number),
        &due_at.as_micros(),
        &tasks,
        &members,
        &i16::from(status.number()),
        &state,
        &row.first_wake().map(Timestamp::as_micros),
    ];
    conn.execute(sql!("insert_batch"), &wanted).await?;
    Ok(())
}

/// Retention leaves the tasks of a batch alone until nothing is to be undone any more.
async fn use_tasks(conn: &Arc<Conn>, row: &BatchRow) -> Done<()> {
    let mut ids: Vec<Uuid> = row.tasks.iter().map(|(task, _)| Uuid::from(*task)).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows = conn.query(sql!("lock_tasks"), &[&ids]).await?;
    if rows.len() < ids.len() {
        return Err(Trouble::inconsistent(format!("a task of {} is not there", row.id)));
    }
    let until = row.tasks_used_until();
    let known = rows.iter().map(tasks::read_known).collect::<Read<Vec<_>>>()?;
    let used = known.into_iter().filter(|(_, known)| until > known.used_until + TASK_USE_STEP);
    let mut used: Vec<(i64, Timestamp)> = used.map(|(_, known)| (known.number, until)).collect();
    if !used.is_empty() {
        used.sort_unstable();
        tasks::use_tasks(conn, &used).await?;
    }
    Ok(())
}

/// What follows from the ends of jobs in a transaction of the owner. The jobs have ended whatever becomes of their batch. Answers
/// the batches that are to be looked at.
pub(crate) async fn step_all(conn: &Arc<Conn>, batch: &Batch, void: &Void) -> Done<Vec<BatchId>> {
    let mut pressing = Vec::new();
    for (id, events) in batch_ends(batch, void) {
        let row = match lock(conn, id).await {
            Ok(None) => continue,
            // The transaction goes on only after what PostgreSQL itself did not refuse.
            Err(Trouble::Refused(error)) => {
                tracing::error!(batch = %id, %error, "a batch cannot be read");
                continue;
            }
            Ok(Some(row)) => row,
            Err(trouble) => return Err(trouble),
        };
        let changes = row.step(&events, batch.at);
        write(conn, &changes).await?;
        if changes.wake_at.is_some() {
            pressing.push(id);
        }
    }
    Ok(pressing)
}

/// In a transaction, to be rolled back unless something is changed.
async fn change(
    conn: &Arc<Conn>,
    id: BatchId,
    events: &[BatchEvent],
    now: Timestamp,
    shard_count: u16,
) -> Done<Option<BatchChange>> {
    conn.run("BEGIN").await?;
    let Some(row) = lock(conn, id).await? else { return Ok(None) };
    let changes = row.step(events, now);
    if changes.is_refused {
        return Ok(Some(changes.into_answer(Vec::new())));
    }
    let (inputs, gone) = match changes.compensations[..] {
        [] => (BTreeMap::new(), Vec::new()),
        _ => (inputs(conn, &changes).await?, gone_tasks(conn, &row).await?),
    };
    let changes = changes.into_change(&inputs, &gone, now);
    let jobs = changes.jobs(&inputs);
    write(conn, &changes).await?;
    store_within(conn, shard_count, &jobs).await?;
    conn.run("COMMIT").await?;
    Ok(Some(changes.into_answer(jobs)))
}

async fn gone_tasks(conn: &Arc<Conn>, row: &BatchRow) -> Done<Vec<TaskId>> {
    let ids: Vec<Uuid> = row.tasks.iter().map(|(task, _)| Uuid::from(*task)).collect();
    let rows = conn.query(sql!("lock_tasks"), &[&ids]).await?;
    let known = rows.iter().map(tasks::read_known).collect::<Read<BTreeMap<_, _>>>()?;
    Ok(row.tasks.iter().map(|(task, _)| *task).filter(|task| !known.contains_key(task)).collect())
}

/// Of the members that are to be undone. Those whose jobs are gone are missing.
async fn inputs(conn: &Arc<Conn>, changes: &BatchChanges) -> Done<BTreeMap<JobId, Option<Bytes>>> {
    let wanted: Vec<Uuid> = changes.compensations.iter().map(|one| Uuid::from(one.of)).collect();
    let mut inputs = BTreeMap::new();
    for row in conn.query(sql!("inputs_of_finished"), &[&wanted]).await? {
        inputs.insert(codec::job_id(&row, 0)?, codec::bytes(&row, 1)?);
    }
    if inputs.len() < wanted.len() {
        // Somebody runs them again.
        for row in conn.query(sql!("inputs_of_moved"), &[&wanted]).await? {
            inputs.insert(codec::job_id(&row, 0)?, codec::bytes(&row, 1)?);
        }
    }
    Ok(inputs)
}

async fn lock(conn: &Arc<Conn>, id: BatchId) -> Done<Option<BatchRow>> {
    let row = conn.query_opt(sql!("lock_batch"), &[&Uuid::from(id)]).await?;
    row.as_ref().map(read).transpose()
}

async fn write(conn: &Arc<Conn>, changes: &BatchChanges) -> Done<()> {
    let BatchChanges { row, wake_at, .. } = changes;
    let wanted: [&(dyn ToSql + Sync); 5] = [
        &Uuid::from(row.id),
        &i16::from(row.status.number()),
        &state_text(&row.state),
        &wake_at.map(Timestamp::as_micros),
        &row.state.ended_at.map(Timestamp::as_micros),
    ];
    conn.execute(sql!("write_batch"), &wanted).await?;
    Ok(())
}

/// Answers whether there is more.
pub(crate) async fn prune(conn: &Conn, before: Timestamp) -> Done<bool> {
    let gone = conn.execute(sql!("prune_batches"), &[&before.as_micros(), &SMALL_ROWS_MAX]).await?;
    Ok(gone == SMALL_ROWS_MAX.unsigned_abs())
}

fn state_text(state: &BatchState) -> String {
    serde_json::to_string(state).expect("states are JSON")
}

fn read(row: &Row) -> Read<BatchRow> {
    let tasks = tasks_from_bytes(codec::value(row, 7)?).and_then(|tasks| tasks.into_iter().collect());
    let members = BatchMember::from_bytes(codec::value(row, 8)?);
    let status = u8::try_from(codec::value::<i16>(row, 9)?).ok().and_then(BatchStatus::from_number);
    let state = serde_json::from_str(codec::value::<&str>(row, 10)?);
    Ok(BatchRow {
        id: codec::batch_id(row, 0)?,
        namespace: codec::namespace(row, 1)?,
        name: codec::value(row, 2)?,
        made: codec::by(row, 3)?,
        requester: requesters::id_or_none(row, 5)?,
        due_at: codec::time(row, 6)?,
        tasks: tasks.ok_or_else(|| codec::unreadable(row, 7, "not the tasks of a batch"))?,
        members: members.ok_or_else(|| codec::unreadable(row, 8, "not the members of a batch"))?,
        status: status.ok_or_else(|| codec::unreadable(row, 9, "not the status of a batch"))?,
        state: state.map_err(|error| codec::unreadable(row, 10, &error.to_string()))?,
    })
}
