//! Definitions of tasks.

use async_trait::async_trait;
use punctual_core::TaskId;
use punctual_core::task::Task;
use punctual_store::{Result, TaskChange, Tasks};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::writer::{Db, Failure};
use crate::{SqliteStore, codec, sql};

/// A lookup costs less than the memory of a longer list.
const NUMBERS_KEPT_MAX: usize = 10_000;

#[async_trait]
impl Tasks for SqliteStore {
    async fn create_task(&self, task: Task) -> Result<TaskChange> {
        self.write(1, move |db| create(&db.conn, &task)).await
    }

    async fn update_task(&self, task: Task) -> Result<TaskChange> {
        self.write(1, move |db| update(&db.conn, &task)).await
    }

    async fn delete_task(&self, id: TaskId) -> Result<TaskChange> {
        self.write(1, move |db| {
            let changed = db.conn.prepare_cached(sql!("delete_task"))?.execute([id.to_bytes()])?;
            Ok(if changed == 1 { TaskChange::Done } else { TaskChange::Absent })
        })
        .await
    }

    async fn intern_tasks(&self, tasks: Vec<(Task, [u8; 32])>) -> Result<Vec<TaskId>> {
        self.write(tasks.len(), move |db| {
            db.all_or_nothing(|db| tasks.iter().map(|(task, digest)| intern(&db.conn, task, digest)).collect())
        })
        .await
    }

    async fn task_by_name(&self, name: &str) -> Result<Option<Task>> {
        let name = name.to_owned();
        self.shared
            .people_reads
            .read(move |conn| Ok(conn.prepare_cached(sql!("task_by_name"))?.query_row([name], read_task).optional()?))
            .await
    }

    async fn tasks_by_id(&self, ids: Vec<TaskId>) -> Result<Vec<Task>> {
        self.shared
            .owner_reads
            .read(move |conn| {
                let mut statement = conn.prepare_cached(sql!("task_by_id"))?;
                let mut tasks = Vec::with_capacity(ids.len());
                for id in ids {
                    tasks.extend(statement.query_row([id.to_bytes()], read_task).optional()?);
                }
                Ok(tasks)
            })
            .await
    }

    async fn list_tasks(&self, after: Option<String>, limit: usize) -> Result<Vec<Task>> {
        self.shared
            .people_reads
            .read(move |conn| {
                let mut statement = conn.prepare_cached(sql!("list_tasks"))?;
                let after = after.unwrap_or_default();
                let rows = statement.query_map(params![after, limit as i64], read_task)?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }
}

fn create(conn: &Connection, task: &Task) -> std::result::Result<TaskChange, Failure> {
    let Some(name) = &task.name else {
        return Err(Failure::inconsistent(format!("{} has no name and no digest", task.id)));
    };
    if conn.prepare_cached(sql!("task_name_taken"))?.exists([name])? {
        return Ok(TaskChange::NameTaken);
    }
    insert(conn, task, None)?;
    Ok(TaskChange::Done)
}

fn update(conn: &Connection, task: &Task) -> std::result::Result<TaskChange, Failure> {
    let id = task.id.to_bytes();
    let revision: Option<u32> =
        conn.prepare_cached(sql!("task_revision"))?.query_row([id], |row| row.get(0)).optional()?;
    let Some(revision) = revision else { return Ok(TaskChange::Absent) };
    if revision.checked_add(1) != Some(task.revision) {
        return Ok(TaskChange::Conflict { revision });
    }
    let spec = &task.spec;
    conn.prepare_cached(sql!("update_task"))?.execute(params![
        id,
        task.revision,
        spec.run.kind(),
        spec.queue,
        spec_text(task)?,
        task.updated_at.as_micros()
    ])?;
    Ok(TaskChange::Done)
}

fn intern(conn: &Connection, task: &Task, digest: &[u8; 32]) -> std::result::Result<TaskId, Failure> {
    if task.name.is_some() {
        return Err(Failure::inconsistent(format!("{} has a name and cannot be interned", task.id)));
    }
    let known =
        conn.prepare_cached(sql!("task_by_digest"))?.query_row([digest], |row| codec::task_id(row, 0)).optional()?;
    match known {
        Some(id) => Ok(id),
        None => insert(conn, task, Some(digest)),
    }
}

fn insert(conn: &Connection, task: &Task, digest: Option<&[u8; 32]>) -> std::result::Result<TaskId, Failure> {
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
        task.updated_at.as_micros()
    ])?;
    Ok(task.id)
}

fn spec_text(task: &Task) -> std::result::Result<String, Failure> {
    serde_json::to_string(&task.spec)
        .map_err(|error| Failure::inconsistent(format!("{} cannot be written: {error}", task.id)))
}

fn read_task(row: &Row<'_>) -> rusqlite::Result<Task> {
    let spec = serde_json::from_str(row.get_ref(5)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(5, rusqlite::types::Type::Text, Box::new(error)))?;
    Ok(Task {
        id: codec::task_id(row, 0)?,
        name: row.get(1)?,
        revision: row.get(2)?,
        created_at: codec::time(row, 3)?,
        updated_at: codec::time(row, 4)?,
        spec,
    })
}

impl Db {
    pub(crate) fn task_number(&mut self, id: TaskId) -> std::result::Result<i64, Failure> {
        if let Some(&number) = self.task_numbers.get(&id) {
            return Ok(number);
        }
        let number = number(&self.conn, id)?.ok_or_else(|| Failure::inconsistent(format!("there is no {id}")))?;
        if self.task_numbers.len() >= NUMBERS_KEPT_MAX {
            self.task_numbers.clear();
        }
        self.task_numbers.insert(id, number);
        Ok(number)
    }
}

pub(crate) fn number(conn: &Connection, id: TaskId) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached(sql!("task_number"))?.query_row([id.to_bytes()], |row| row.get(0)).optional()
}
