//! Definitions of tasks.

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::task::Task;
use punctual_core::{ArtifactId, TaskId, Timestamp};
use punctual_store::{Interned, Result, TASK_USE_STEP, TaskChange, Tasks};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::artifacts::{self, Fit};
use crate::writer::{Db, Failure, KnownTask};
use crate::{SqliteStore, codec, secrets, sql};

/// A lookup costs less than the memory of a longer list.
const KNOWN_MAX: usize = 10_000;

#[async_trait]
impl Tasks for SqliteStore {
    async fn create_task(&self, task: Task) -> Result<TaskChange> {
        self.write(1, move |db| create(&db.conn, &task)).await
    }

    async fn update_task(&self, task: Task) -> Result<TaskChange> {
        self.write(1, move |db| update(&db.conn, &task)).await
    }

    async fn delete_task(&self, id: TaskId, expected: Option<u32>) -> Result<TaskChange> {
        let clock = self.shared.clock.clone();
        self.write(1, move |db| {
            if let Some(expected) = expected
                && let Some(revision) = revision_of(&db.conn, id)?.filter(|revision| *revision != expected)
            {
                return Ok(TaskChange::Conflict { revision });
            }
            let mut statement = db.conn.prepare_cached(sql!("delete_task"))?;
            let changed = statement.execute(params![id.to_bytes(), clock().as_micros()])?;
            Ok(if changed == 1 { TaskChange::Done } else { TaskChange::Absent })
        })
        .await
    }

    async fn intern_tasks(&self, tasks: Vec<(Task, [u8; 32])>) -> Result<Interned> {
        self.write(tasks.len(), move |db| db.all_or_nothing(|db| intern_all(&db.conn, &tasks))).await
    }

    async fn task_by_name(&self, namespace: NamespaceId, name: &str) -> Result<Option<Task>> {
        let name = name.to_owned();
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("task_by_name"))?;
            Ok(statement.query_row(params![name, namespace.0], read_task).optional()?)
        };
        self.shared.people_reads.read(read).await
    }

    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>> {
        let (tasks, unreadable) = self.shared.owner_reads.read(move |conn| read_readable(conn, &ids)).await?;
        self.report(unreadable);
        Ok(tasks)
    }

    async fn list_tasks(&self, namespace: NamespaceId, after: Option<String>, limit: usize) -> Result<Vec<Task>> {
        let after = after.unwrap_or_default();
        let read = move |conn: &Connection| list(conn, namespace, &after, limit);
        let (tasks, unreadable) = self.shared.people_reads.read(read).await?;
        self.report(unreadable);
        Ok(tasks)
    }
}

impl SqliteStore {
    /// Once for each: whoever needs such a task asks again and again.
    fn report(&self, unreadable: Vec<Unreadable>) {
        for (id, error) in unreadable {
            if self.shared.unreadable_tasks.lock().expect("no panic while the lock is held").insert(id) {
                tracing::error!(task = %id, %error, "a task cannot be read, and its jobs cannot run");
            }
        }
    }
}

fn list(
    conn: &Connection,
    namespace: NamespaceId,
    after: &str,
    limit: usize,
) -> std::result::Result<(Vec<Task>, Vec<Unreadable>), Failure> {
    let mut statement = conn.prepare_cached(sql!("list_tasks"))?;
    let mut rows = statement.query(params![after, namespace.0])?;
    let mut tasks = Vec::new();
    let mut unreadable = Vec::new();
    while tasks.len() < limit
        && let Some(row) = rows.next()?
    {
        match read_task(row) {
            Ok(task) => tasks.push(task),
            Err(error @ rusqlite::Error::FromSqlConversionFailure(..)) => {
                unreadable.push((codec::task_id(row, 0)?, error));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((tasks, unreadable))
}

type Unreadable = (TaskId, rusqlite::Error);

/// A newer program may have written a definition that this one does not understand. Jobs of
/// other tasks must not wait for it.
fn read_readable(conn: &Connection, ids: &[TaskId]) -> std::result::Result<(Vec<Task>, Vec<Unreadable>), Failure> {
    let mut statement = conn.prepare_cached(sql!("task_by_id"))?;
    let mut tasks = Vec::with_capacity(ids.len());
    let mut unreadable = Vec::new();
    for &id in ids {
        match statement.query_row([id.to_bytes()], read_task) {
            Ok(task) => tasks.push(task),
            Err(rusqlite::Error::QueryReturnedNoRows) => {}
            Err(error @ rusqlite::Error::FromSqlConversionFailure(..)) => unreadable.push((id, error)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((tasks, unreadable))
}

fn create(conn: &Connection, task: &Task) -> std::result::Result<TaskChange, Failure> {
    let Some(name) = &task.name else {
        return Err(Failure::inconsistent(format!("{} has no name and no digest", task.id)));
    };
    if conn.prepare_cached(sql!("task_name_taken"))?.exists(params![name, task.namespace.0])? {
        return Ok(TaskChange::NameTaken);
    }
    match artifacts::fit(conn, task)? {
        Fit::Unfit(artifact, unfit) => Ok(TaskChange::Unfit(artifact, unfit)),
        fit => insert(conn, task, None, &fit).map(|_| TaskChange::Done),
    }
}

/// The revision of a task that has a name and was not deleted.
fn revision_of(conn: &Connection, id: TaskId) -> std::result::Result<Option<u32>, Failure> {
    let mut statement = conn.prepare_cached(sql!("task_revision"))?;
    Ok(statement.query_row([id.to_bytes()], |row| row.get(0)).optional()?)
}

fn update(conn: &Connection, task: &Task) -> std::result::Result<TaskChange, Failure> {
    let id = task.id.to_bytes();
    let Some(revision) = revision_of(conn, task.id)? else { return Ok(TaskChange::Absent) };
    if revision.checked_add(1) != Some(task.revision) {
        return Ok(TaskChange::Conflict { revision });
    }
    let fit = artifacts::fit(conn, task)?;
    if let Fit::Unfit(artifact, unfit) = fit {
        return Ok(TaskChange::Unfit(artifact, unfit));
    }
    artifacts::let_go(conn, task)?;
    let spec = &task.spec;
    conn.prepare_cached(sql!("update_task"))?.execute(params![
        id,
        task.revision,
        spec.run.kind(),
        spec.queue,
        spec_text(task)?,
        task.updated_at.as_micros(),
        artifact_of(task),
        fit.waits(),
        task.changed_by
    ])?;
    artifacts::keep_files(conn, task)?;
    secrets::exchange_uses(conn, task)?;
    Ok(TaskChange::Done)
}

/// The answer is found before anything is stored.
fn intern_all(conn: &Connection, tasks: &[(Task, [u8; 32])]) -> std::result::Result<Interned, Failure> {
    if let Some((task, _)) = tasks.iter().find(|(task, _)| task.name.is_some()) {
        return Err(Failure::inconsistent(format!("{} has a name and cannot be interned", task.id)));
    }
    let mut fits = Vec::with_capacity(tasks.len());
    for (task, _) in tasks {
        match artifacts::fit(conn, task)? {
            Fit::Unfit(artifact, unfit) => return Ok(Interned::Unfit(artifact, unfit)),
            fit => fits.push(fit),
        }
    }
    let ids = tasks.iter().zip(&fits).map(|((task, digest), fit)| intern(conn, task, digest, fit));
    Ok(Interned::Done(ids.collect::<std::result::Result<_, _>>()?))
}

fn intern(conn: &Connection, task: &Task, digest: &[u8; 32], fit: &Fit) -> std::result::Result<TaskId, Failure> {
    let known = conn
        .prepare_cached(sql!("task_by_digest"))?
        .query_row(params![digest, task.namespace.0], |row| Ok((codec::task_id(row, 0)?, row.get(1)?)))
        .optional()?;
    match known {
        Some((id, number)) => {
            use_until(conn, number, task.created_at)?;
            Ok(id)
        }
        None => insert(conn, task, Some(digest), fit),
    }
}

fn artifact_of(task: &Task) -> Option<[u8; 16]> {
    task.spec.run.artifact().map(ArtifactId::to_bytes)
}

fn insert(
    conn: &Connection,
    task: &Task,
    digest: Option<&[u8; 32]>,
    fit: &Fit,
) -> std::result::Result<TaskId, Failure> {
    let spec = &task.spec;
    conn.prepare_cached(sql!("insert_task"))?.execute(params![
        task.id.to_bytes(),
        task.name,
        task.revision,
        digest,
        spec.run.kind(),
        spec.queue,
        spec_text(task)?,
        task.created_at.as_micros(),
        task.updated_at.as_micros(),
        artifact_of(task),
        fit.waits(),
        task.namespace.0,
        task.created_by,
        task.changed_by
    ])?;
    artifacts::keep_files(conn, task)?;
    secrets::keep_uses(conn, task)?;
    Ok(task.id)
}

fn spec_text(task: &Task) -> std::result::Result<String, Failure> {
    serde_json::to_string(&task.spec)
        .map_err(|error| Failure::inconsistent(format!("{} cannot be written: {error}", task.id)))
}

pub(crate) fn read_task(row: &Row<'_>) -> rusqlite::Result<Task> {
    let spec = serde_json::from_str(row.get_ref(5)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(5, rusqlite::types::Type::Text, Box::new(error)))?;
    Ok(Task {
        id: codec::task_id(row, 0)?,
        namespace: codec::namespace(row, 7)?,
        name: row.get(1)?,
        revision: row.get(2)?,
        created_at: codec::time(row, 3)?,
        updated_at: codec::time(row, 4)?,
        spec,
        waits_for: codec::artifact_id_or_none(row, 6)?,
        created_by: row.get(8)?,
        changed_by: row.get(9)?,
    })
}

impl Db {
    pub(crate) fn known_task(&mut self, id: TaskId) -> std::result::Result<KnownTask, Failure> {
        if let Some(&known) = self.known_tasks.get(&id) {
            return Ok(known);
        }
        let known = known(&self.conn, id)?.ok_or_else(|| Failure::inconsistent(format!("there is no {id}")))?;
        if self.known_tasks.len() >= KNOWN_MAX {
            self.known_tasks.clear();
        }
        self.known_tasks.insert(id, known);
        Ok(known)
    }

    /// A job of this task is due then. Writes only when that is news.
    pub(crate) fn use_task(&mut self, id: TaskId, due_at: Timestamp) -> std::result::Result<(), Failure> {
        let known = self.known_task(id)?;
        if due_at > known.used_until + TASK_USE_STEP {
            let used_until = use_until(&self.conn, known.number, due_at)?;
            self.known_tasks.insert(id, KnownTask { used_until, ..known });
        }
        Ok(())
    }
}

fn use_until(conn: &Connection, number: i64, until: Timestamp) -> rusqlite::Result<Timestamp> {
    let remembered_below = (until - TASK_USE_STEP).as_micros();
    conn.prepare_cached(sql!("use_task"))?
        .query_row(params![number, until.as_micros(), remembered_below], |row| codec::time(row, 0))
}

pub(crate) fn known(conn: &Connection, id: TaskId) -> rusqlite::Result<Option<KnownTask>> {
    let read = |row: &Row<'_>| {
        Ok(KnownTask { number: row.get(0)?, used_until: codec::time(row, 1)?, namespace: codec::namespace(row, 2)? })
    };
    conn.prepare_cached(sql!("task_number"))?.query_row([id.to_bytes()], read).optional()
}
