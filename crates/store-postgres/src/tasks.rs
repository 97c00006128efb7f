//! Definitions of tasks.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use punctual_core::task::Task;
use punctual_core::{NamespaceId, TaskId, Timestamp};
use punctual_store::{Interned, Result, StoreError, TASK_USE_STEP, TaskChange, Tasks};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::artifacts::{self, Fit};
use crate::codec::{self, Read, Uuid, namespace_number};
use crate::connection::Conn;
use crate::trouble::Trouble;
use crate::{PostgresStore, secrets, sql};

/// A lookup costs less than the memory of a longer list.
const KNOWN_MAX: usize = 10_000;
/// Two servers may store the same content at the same time; the second try finds it.
const INTERN_TRIES: usize = 5;

type Done<T> = std::result::Result<T, Trouble>;

/// What storing a job needs to know of its task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownTask {
    /// By which rows refer to it.
    pub(crate) number: i64,
    pub(crate) namespace: NamespaceId,
    /// At least until then its row says that it is used.
    pub(crate) used_until: Timestamp,
}

/// Tasks that were looked up.
#[derive(Default)]
pub(crate) struct KnownTasks(Mutex<HashMap<TaskId, KnownTask>>);

impl KnownTasks {
    fn map(&self) -> MutexGuard<'_, HashMap<TaskId, KnownTask>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: TaskId) -> Option<KnownTask> {
        self.map().get(&id).copied()
    }

    pub(crate) fn put(&self, id: TaskId, known: KnownTask) {
        let mut map = self.map();
        if map.len() >= KNOWN_MAX {
            map.clear();
        }
        map.insert(id, known);
    }

    pub(crate) fn forget(&self, id: TaskId) {
        self.map().remove(&id);
    }

    pub(crate) fn clear(&self) {
        self.map().clear();
    }
}

pub(crate) fn read_known(row: &Row) -> Read<(TaskId, KnownTask)> {
    let known = KnownTask {
        number: codec::value(row, 1)?,
        namespace: codec::namespace(row, 3)?,
        used_until: codec::time(row, 2)?,
    };
    Ok((codec::task_id(row, 0)?, known))
}

#[async_trait]
impl Tasks for PostgresStore {
    async fn create_task(&self, task: Task) -> Result<TaskChange> {
        self.open()?;
        let Some(name) = &task.name else {
            return Err(StoreError::Inconsistent(format!("{} has no name and no digest", task.id)));
        };
        let conn = self.shared.people_reads.take().await?;
        let taken = conn
            .query_opt(sql!("task_by_name"), &[&codec::text(name), &namespace_number(task.namespace)])
            .await?
            .is_some();
        let change = match taken {
            true => Ok(TaskChange::NameTaken),
            false => create(&conn, &task).await,
        };
        if change.is_err() && needs_transaction(&task) {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        match change {
            // Another took it meanwhile.
            Err(trouble) if violates(&trouble, "task_live_name") => Ok(TaskChange::NameTaken),
            change => Ok(change?),
        }
    }

    async fn update_task(&self, task: Task) -> Result<TaskChange> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        conn.run("BEGIN").await?;
        let change = update(&conn, &task).await;
        conn.run(if matches!(change, Ok(TaskChange::Done)) { "COMMIT" } else { "ROLLBACK" }).await?;
        conn.done();
        Ok(change?)
    }

    async fn delete_task(&self, id: TaskId, expected: Option<u32>) -> Result<TaskChange> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let expected = expected.map(i64::from);
        let is_deleted = conn.execute(sql!("delete_task"), &[&Uuid::from(id), &self.test_now(), &expected]).await? == 1;
        let known = match is_deleted {
            true => None,
            false => conn.query_opt(sql!("task_revision"), &[&Uuid::from(id)]).await?,
        };
        conn.done();
        match known {
            Some(row) => Ok(TaskChange::Conflict { revision: codec::value::<i64>(&row, 0)? as u32 }),
            None if is_deleted => Ok(TaskChange::Done),
            None => Ok(TaskChange::Absent),
        }
    }

    async fn intern_tasks(&self, tasks: Vec<(Task, [u8; 32])>) -> Result<Interned> {
        self.open()?;
        if let Some((task, _)) = tasks.iter().find(|(task, _)| task.name.is_some()) {
            return Err(StoreError::Inconsistent(format!("{} has a name and cannot be interned", task.id)));
        }
        let conn = self.shared.people_reads.take().await?;
        let interned = match interned(&conn, &tasks).await? {
            Some(interned) => interned,
            None => intern_again(&conn, &tasks).await?,
        };
        conn.done();
        Ok(interned)
    }

    async fn task_by_name(&self, namespace: NamespaceId, name: &str) -> Result<Option<Task>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("task_by_name"), &[&codec::text(name), &namespace_number(namespace)]).await?;
        conn.done();
        Ok(row.map(|row| read_task(&row)).transpose()?)
    }

    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>> {
        self.open()?;
        let ids: Vec<Uuid> = ids.into_iter().map(Uuid::from).collect();
        let conn = self.shared.owner_reads.take().await?;
        let rows = conn.query(sql!("tasks_by_id"), &[&ids]).await?;
        conn.done();
        self.readable(&rows)
    }

    async fn list_tasks(&self, namespace: NamespaceId, after: Option<String>, limit: usize) -> Result<Vec<Task>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let mut after = codec::text(&after.unwrap_or_default());
        let mut tasks = Vec::new();
        while tasks.len() < limit {
            let wanted = i64::try_from(limit - tasks.len()).unwrap_or(i64::MAX);
            let rows = conn.query(sql!("list_tasks"), &[&after, &wanted, &namespace_number(namespace)]).await?;
            let Some(last) = rows.last() else { break };
            after = codec::value(last, 1)?;
            // Those that cannot be read take nothing from the page.
            tasks.extend(self.readable(&rows)?);
        }
        conn.done();
        Ok(tasks)
    }
}

impl PostgresStore {
    /// A newer program may have written a definition that this one does not understand. Jobs of
    /// other tasks must not wait for it. Said once for each: whoever needs it asks again and again.
    fn readable(&self, rows: &[Row]) -> Result<Vec<Task>> {
        let mut tasks = Vec::with_capacity(rows.len());
        for row in rows {
            match read_task(row) {
                Ok(task) => tasks.push(task),
                Err(trouble) => {
                    let (id, error) = (codec::task_id(row, 0)?, StoreError::from(trouble));
                    if self.shared.unreadable_tasks.lock().unwrap_or_else(PoisonError::into_inner).insert(id) {
                        tracing::error!(task = %id, %error, "a task cannot be read, and its jobs cannot run");
                    }
                }
            }
        }
        Ok(tasks)
    }
}

/// The answer when every content is there already and was used not long ago, as it mostly is.
async fn interned(conn: &Conn, tasks: &[(Task, [u8; 32])]) -> Done<Option<Interned>> {
    let known = by_digest(conn, tasks.iter()).await?;
    let ids: Option<Vec<TaskId>> = tasks
        .iter()
        .map(|(task, digest)| {
            let (id, known) = known.get(&(task.namespace, *digest))?;
            (task.created_at <= known.used_until + TASK_USE_STEP).then_some(*id)
        })
        .collect();
    let Some(ids) = ids else { return Ok(None) };
    let unfit = artifacts::first_unfit(conn, tasks.iter().map(|(task, _)| task)).await?;
    Ok(Some(unfit.map_or(Interned::Done(ids), |(artifact, unfit)| Interned::Unfit(artifact, unfit))))
}

async fn by_digest(
    conn: &Conn,
    tasks: impl Iterator<Item = &(Task, [u8; 32])>,
) -> Done<HashMap<(NamespaceId, [u8; 32]), (TaskId, KnownTask)>> {
    let wanted = tasks.map(|(task, digest)| (&digest[..], namespace_number(task.namespace)));
    let (digests, namespaces): (Vec<&[u8]>, Vec<i32>) = wanted.unzip();
    let rows = conn.query(sql!("tasks_by_digest"), &[&digests, &namespaces]).await?;
    rows.iter()
        .map(|row| {
            let digest: &[u8] = codec::value(row, 0)?;
            let digest = digest.try_into().map_err(|_| codec::unreadable(row, 0, "not a digest"))?;
            let namespace = codec::namespace(row, 4)?;
            let known = KnownTask { number: codec::value(row, 2)?, namespace, used_until: codec::time(row, 3)? };
            Ok(((namespace, digest), (codec::task_id(row, 1)?, known)))
        })
        .collect()
}

async fn intern_again(conn: &Conn, tasks: &[(Task, [u8; 32])]) -> Done<Interned> {
    let mut tries = 1;
    loop {
        let stored = intern_all(conn, tasks).await;
        if !matches!(stored, Ok(Interned::Done(_))) {
            conn.run("ROLLBACK").await?;
        }
        match stored {
            Err(trouble)
                if tries < INTERN_TRIES
                    && (violates(&trouble, "task_digest_key")
                        || trouble.code() == Some(&SqlState::T_R_DEADLOCK_DETECTED)) =>
            {
                tries += 1;
            }
            stored => return stored,
        }
    }
}

/// All or none, one after the other: the second of two equal ones finds the first. In order of
/// content, so that two servers do not wait for each other.
async fn intern_all(conn: &Conn, tasks: &[(Task, [u8; 32])]) -> Done<Interned> {
    conn.run("BEGIN").await?;
    // Shared locks, which nobody holds who waits for a task: their order does not matter.
    let mut fits = Vec::with_capacity(tasks.len());
    for (task, _) in tasks {
        match artifacts::fit(conn, task).await? {
            Fit::Unfit(artifact, unfit) => return Ok(Interned::Unfit(artifact, unfit)),
            fit => fits.push(fit),
        }
    }
    let mut sorted: Vec<(usize, &(Task, [u8; 32]))> = tasks.iter().enumerate().collect();
    sorted.sort_by_key(|(_, (_, digest))| *digest);
    let mut ids = vec![None; tasks.len()];
    for (place, wanted) in sorted {
        let (task, digest) = wanted;
        let known = by_digest(conn, std::iter::once(wanted)).await?.remove(&(task.namespace, *digest));
        let used = match known {
            // Retention may be about to remove it; then there is nothing to use.
            Some((id, known)) => use_task(conn, known.number, task.created_at).await?.map(|_| id),
            None => None,
        };
        ids[place] = Some(match used {
            Some(id) => id,
            None => insert(conn, task, Some(digest), &fits[place]).await?,
        });
    }
    conn.run("COMMIT").await?;
    Ok(Interned::Done(ids.into_iter().flatten().collect()))
}

/// Whether more than one row is written with it.
fn needs_transaction(task: &Task) -> bool {
    task.spec.run.artifacts().next().is_some() || !task.spec.run.secrets().is_empty()
}

async fn create(conn: &Conn, task: &Task) -> Done<TaskChange> {
    if !needs_transaction(task) {
        return insert(conn, task, None, &Fit::Ready).await.map(|_| TaskChange::Done);
    }
    conn.run("BEGIN").await?;
    let change = match artifacts::fit(conn, task).await? {
        Fit::Unfit(artifact, unfit) => TaskChange::Unfit(artifact, unfit),
        fit => insert(conn, task, None, &fit).await.map(|_| TaskChange::Done)?,
    };
    conn.run("COMMIT").await?;
    Ok(change)
}

/// In a transaction, to be rolled back unless it is done.
async fn update(conn: &Conn, task: &Task) -> Done<TaskChange> {
    let Some(row) = conn.query_opt(sql!("artifact_of_task"), &[&Uuid::from(task.id)]).await? else {
        return Ok(TaskChange::Absent);
    };
    let revision = codec::value::<i64>(&row, 0)? as u32;
    if revision.checked_add(1) != Some(task.revision) {
        return Ok(TaskChange::Conflict { revision });
    }
    let former = codec::artifact_id_or_none(&row, 1)?;
    let fit = artifacts::exchange(conn, former, task).await?;
    if let Fit::Unfit(artifact, unfit) = fit {
        return Ok(TaskChange::Unfit(artifact, unfit));
    }
    let spec = &task.spec;
    let changed = conn
        .execute(
            sql!("update_task"),
            &[
                &Uuid::from(task.id),
                &i64::from(task.revision),
                &spec.run.kind(),
                &codec::text(&spec.queue),
                &spec_text(task)?,
                &task.updated_at.as_micros(),
                &artifact_of(task),
                &fit.waits(),
                &task.changed_by.as_deref().map(codec::text),
            ],
        )
        .await?;
    if changed == 1 {
        secrets::exchange_uses(conn, task).await?;
        return Ok(TaskChange::Done);
    }
    // Somebody else changed or deleted it since it was read.
    Ok(match conn.query_opt(sql!("task_revision"), &[&Uuid::from(task.id)]).await? {
        Some(row) => TaskChange::Conflict { revision: codec::value::<i64>(&row, 0)? as u32 },
        None => TaskChange::Absent,
    })
}

async fn use_task(conn: &Conn, number: i64, until: Timestamp) -> Done<Option<Timestamp>> {
    let rows = use_tasks(conn, &[(number, until)]).await?;
    Ok(rows.first().map(|(_, until)| *until))
}

/// Answers the number and what is remembered now of each that is there.
pub(crate) async fn use_tasks(conn: &Conn, used: &[(i64, Timestamp)]) -> Done<Vec<(i64, Timestamp)>> {
    let (numbers, until): (Vec<i64>, Vec<i64>) =
        used.iter().map(|(number, until)| (*number, until.as_micros())).unzip();
    let rows = conn.query(sql!("use_tasks"), &[&numbers, &until, &TASK_USE_STEP.as_micros()]).await?;
    rows.iter().map(|row| Ok((codec::value(row, 0)?, codec::time(row, 1)?))).collect()
}

fn artifact_of(task: &Task) -> Option<Uuid> {
    task.spec.run.artifact().map(Uuid::from)
}

async fn insert(conn: &Conn, task: &Task, digest: Option<&[u8; 32]>, fit: &Fit) -> Done<TaskId> {
    let spec = &task.spec;
    conn.execute(
        sql!("insert_task"),
        &[
            &Uuid::from(task.id),
            &task.name.as_deref().map(codec::text),
            &i64::from(task.revision),
            &digest.map(|digest| &digest[..]),
            &spec.run.kind(),
            &codec::text(&spec.queue),
            &spec_text(task)?,
            &task.created_at.as_micros(),
            &task.updated_at.as_micros(),
            &artifact_of(task),
            &fit.waits(),
            &namespace_number(task.namespace),
            &task.created_by.as_deref().map(codec::text),
            &task.changed_by.as_deref().map(codec::text),
        ],
    )
    .await?;
    artifacts::keep_files(conn, task).await?;
    secrets::keep_uses(conn, task).await?;
    Ok(task.id)
}

fn violates(trouble: &Trouble, index: &str) -> bool {
    match trouble {
        Trouble::Postgres(error) => error.as_db_error().is_some_and(|error| error.constraint() == Some(index)),
        Trouble::Silent(_) | Trouble::Refused(_) => false,
    }
}

fn spec_text(task: &Task) -> Done<String> {
    serde_json::to_string(&task.spec)
        .map_err(|error| Trouble::inconsistent(format!("{} cannot be written: {error}", task.id)))
}

pub(crate) fn read_task(row: &Row) -> Read<Task> {
    let spec =
        serde_json::from_str(codec::value(row, 5)?).map_err(|error| codec::unreadable(row, 5, &error.to_string()))?;
    Ok(Task {
        id: codec::task_id(row, 0)?,
        namespace: codec::namespace(row, 7)?,
        name: codec::value(row, 1)?,
        revision: codec::value::<i64>(row, 2)? as u32,
        created_at: codec::time(row, 3)?,
        updated_at: codec::time(row, 4)?,
        spec,
        waits_for: codec::artifact_id_or_none(row, 6)?,
        created_by: codec::value::<Option<&str>>(row, 8)?.map(Box::from),
        changed_by: codec::value::<Option<&str>>(row, 9)?.map(Box::from),
    })
}
