//! Uploaded files.

use async_trait::async_trait;
use punctual_core::namespace::NamespaceId;
use punctual_core::task::Task;
use punctual_core::{ArtifactId, TaskId, Timestamp};
use punctual_store::{
    Arrival, Artifact, ArtifactChange, ArtifactKind, ArtifactState, Artifacts, CreatedArtifact, NewArtifact, Result,
    Unfit, Waits,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::tasks::read_task;
use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

type Done<T> = std::result::Result<T, Failure>;

const PENDING: u8 = 1;
const READY: u8 = 2;
const REFUSED: u8 = 3;

/// Sorts after every id.
const LAST: [u8; 16] = [0xff; 16];

#[async_trait]
impl Artifacts for SqliteStore {
    async fn create_artifact(&self, artifact: NewArtifact) -> Result<CreatedArtifact> {
        self.write(1, move |db| create(&db.conn, &artifact)).await
    }

    async fn artifact(&self, id: ArtifactId) -> Result<Option<Artifact>> {
        self.shared.people_reads.read(move |conn| Ok(find(conn, id)?)).await
    }

    async fn list_artifacts(
        &self,
        namespace: NamespaceId,
        after: Option<ArtifactId>,
        limit: usize,
    ) -> Result<Vec<Artifact>> {
        let before = after.map_or(LAST, ArtifactId::to_bytes);
        let read =
            move |conn: &Connection| page(conn, sql!("list_artifacts"), params![before, limit as i64, namespace.0]);
        self.shared.people_reads.read(read).await
    }

    async fn pending_artifacts(&self, after: Option<ArtifactId>, limit: usize) -> Result<Vec<Artifact>> {
        let after = after.map_or([0; 16], ArtifactId::to_bytes);
        let read = move |conn: &Connection| page(conn, sql!("pending_artifacts"), params![after, limit as i64]);
        self.shared.people_reads.read(read).await
    }

    async fn artifact_arrived(&self, id: ArtifactId, at: Timestamp, machine: Option<String>) -> Result<Arrival> {
        self.write(1, move |db| db.all_or_nothing(|db| arrive(&db.conn, id, at, machine.as_deref()))).await
    }

    async fn refuse_artifact(&self, id: ArtifactId, at: Timestamp, reason: String) -> Result<ArtifactChange> {
        self.write(1, move |db| {
            if settle(&db.conn, id, REFUSED, at, Some(&reason))? {
                return Ok(ArtifactChange::Done);
            }
            Ok(if find(&db.conn, id)?.is_some() { ArtifactChange::NotPending } else { ArtifactChange::Absent })
        })
        .await
    }

    async fn delete_artifact(&self, id: ArtifactId, unneeded_by: Vec<TaskId>) -> Result<ArtifactChange> {
        self.write(1, move |db| delete(&db.conn, id, &unneeded_by)).await
    }

    async fn prune_artifacts(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<Vec<ArtifactId>> {
        self.write(limit, move |db| {
            db.conn.prepare_cached(sql!("prune_task_files"))?.execute([])?;
            db.conn.prepare_cached(sql!("prune_secret_uses"))?.execute([])?;
            let mut gone = prune(&db.conn, sql!("unused_artifacts"), before, limit)?;
            gone.extend(prune(&db.conn, sql!("expired_artifacts"), now, limit - gone.len())?);
            Ok(gone)
        })
        .await
    }
}

/// Whether a task can refer to its artifact.
pub(crate) enum Fit {
    /// It has none, or it is ready.
    Ready,
    Waits,
    Unfit(ArtifactId, Unfit),
}

impl Fit {
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Waits)
    }
}

pub(crate) fn fit(conn: &Connection, task: &Task) -> Done<Fit> {
    for file in task.spec.run.files() {
        if let Err(unfit) = Unfit::of_file(task, find(conn, file.artifact)?.as_ref()) {
            return Ok(Fit::Unfit(file.artifact, unfit));
        }
    }
    let Some(id) = task.spec.run.artifact() else { return Ok(Fit::Ready) };
    Ok(match Unfit::of_program(task, find(conn, id)?.as_ref()) {
        Ok(Waits::No) => Fit::Ready,
        Ok(Waits::Yes) => Fit::Waits,
        Err(unfit) => Fit::Unfit(id, unfit),
    })
}

/// The files that a stored task reads from now on.
pub(crate) fn keep_files(conn: &Connection, task: &Task) -> Done<()> {
    let mut statement = conn.prepare_cached(sql!("insert_task_file"))?;
    for file in task.spec.run.files() {
        statement.execute(params![file.artifact.to_bytes(), task.id.to_bytes()])?;
    }
    Ok(())
}

/// The task is about to be changed: what it refers to was used until now.
pub(crate) fn let_go(conn: &Connection, task: &Task) -> Done<()> {
    let referred = conn
        .prepare_cached(sql!("artifact_of_task"))?
        .query_row([task.id.to_bytes()], |row| codec::artifact_id(row, 0))
        .optional()?;
    let mut statement = conn.prepare_cached(sql!("files_of_task"))?;
    let files = statement.query_map([task.id.to_bytes()], |row| codec::artifact_id(row, 0))?;
    let files = files.collect::<rusqlite::Result<Vec<ArtifactId>>>()?;
    for &id in referred.iter().chain(&files) {
        touch(conn, id, task.updated_at, Timestamp::EPOCH)?;
    }
    if !files.is_empty() {
        conn.prepare_cached(sql!("drop_task_files"))?.execute([task.id.to_bytes()])?;
    }
    Ok(())
}

fn touch(conn: &Connection, id: ArtifactId, used_at: Timestamp, until: Timestamp) -> Done<()> {
    let mut statement = conn.prepare_cached(sql!("use_artifact"))?;
    statement.execute(params![id.to_bytes(), used_at.as_micros(), until.as_micros()])?;
    Ok(())
}

fn create(conn: &Connection, new: &NewArtifact) -> Done<CreatedArtifact> {
    let size = i64::try_from(new.size).map_err(|_| Failure::inconsistent("no file is so large"))?;
    let known = conn
        .prepare_cached(sql!("artifact_by_content"))?
        .query_row(params![new.sha256, size, new.kind as u8, new.namespace.0], |row| codec::artifact_id(row, 0))
        .optional()?;
    if let Some(id) = known {
        touch(conn, id, new.created_at, new.until)?;
        let known = find(conn, id)?.ok_or_else(|| Failure::inconsistent("a row is gone in its own transaction"))?;
        return Ok(CreatedArtifact::Known(known));
    }
    if let Some(bytes_max) = new.bytes_max {
        // Before the quota is: whoever made an id twice must hear of that.
        if find(conn, new.id)?.is_some() {
            return Err(Failure::inconsistent(format!("{} is there already", new.id)));
        }
        let bytes = bytes_of(conn, new.namespace)?;
        if bytes.saturating_add(new.size) > bytes_max {
            return Ok(CreatedArtifact::Full { bytes });
        }
    }
    conn.prepare_cached(sql!("insert_artifact"))?.execute(params![
        new.id.to_bytes(),
        new.name,
        size,
        new.sha256,
        new.until.as_micros(),
        new.created_at.as_micros(),
        new.kind as u8,
        new.namespace.0
    ])?;
    Ok(CreatedArtifact::New(Artifact {
        id: new.id,
        namespace: new.namespace,
        name: new.name.clone(),
        size: new.size,
        sha256: new.sha256,
        kind: new.kind,
        state: ArtifactState::Pending { until: new.until },
        created_at: new.created_at,
    }))
}

pub(crate) fn bytes_of(conn: &Connection, namespace: NamespaceId) -> Done<u64> {
    let bytes: i64 = conn.prepare_cached(sql!("artifact_bytes"))?.query_row([namespace.0], |row| row.get(0))?;
    Ok(bytes.unsigned_abs())
}

fn arrive(conn: &Connection, id: ArtifactId, at: Timestamp, machine: Option<&str>) -> Done<Arrival> {
    if !settle(conn, id, READY, at, machine)? {
        return Ok(match find(conn, id)?.map(|artifact| artifact.state) {
            Some(ArtifactState::Refused { reason, .. }) => Arrival::Refused { reason },
            Some(ArtifactState::Pending { .. } | ArtifactState::Ready { .. }) => Arrival::Done(Vec::new()),
            None => Arrival::Absent,
        });
    }
    let mut statement = conn.prepare_cached(sql!("release_tasks"))?;
    let released = statement.query_map(params![id.to_bytes(), at.as_micros()], read_task)?;
    let mut tasks = Vec::new();
    for task in released {
        match task {
            Ok(task) => tasks.push(task),
            // One that a newer program wrote. Whoever can read it finds that it does not wait.
            Err(rusqlite::Error::FromSqlConversionFailure(..)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    tasks.sort_by_key(|task| task.id);
    Ok(Arrival::Done(tasks))
}

/// False when it is not pending, or not there.
fn settle(conn: &Connection, id: ArtifactId, state: u8, at: Timestamp, detail: Option<&str>) -> Done<bool> {
    let mut statement = conn.prepare_cached(sql!("settle_artifact"))?;
    Ok(statement.execute(params![id.to_bytes(), state, at.as_micros(), detail])? == 1)
}

fn delete(conn: &Connection, id: ArtifactId, unneeded_by: &[TaskId]) -> Done<ArtifactChange> {
    let mut users = conn.prepare_cached(sql!("tasks_of_artifact"))?;
    let mut users = users.query([id.to_bytes()])?;
    while let Some(row) = users.next()? {
        let task = codec::task_id(row, 0)?;
        if !unneeded_by.contains(&task) {
            return Ok(ArtifactChange::InUse { task, name: row.get(1)? });
        }
    }
    let gone = conn.prepare_cached(sql!("delete_artifact"))?.execute([id.to_bytes()])?;
    Ok(if gone == 1 { ArtifactChange::Done } else { ArtifactChange::Absent })
}

fn prune(conn: &Connection, text: &str, before: Timestamp, limit: usize) -> Done<Vec<ArtifactId>> {
    let ids: Vec<ArtifactId> = conn
        .prepare_cached(text)?
        .query_map(params![before.as_micros(), limit as i64], |row| codec::artifact_id(row, 0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut statement = conn.prepare_cached(sql!("delete_artifact"))?;
    for id in &ids {
        statement.execute([id.to_bytes()])?;
    }
    Ok(ids)
}

fn find(conn: &Connection, id: ArtifactId) -> rusqlite::Result<Option<Artifact>> {
    conn.prepare_cached(sql!("artifact"))?.query_row([id.to_bytes()], read_artifact).optional()
}

fn page(conn: &Connection, text: &str, wanted: impl Params) -> Done<Vec<Artifact>> {
    let mut statement = conn.prepare_cached(text)?;
    Ok(statement.query_map(wanted, read_artifact)?.collect::<rusqlite::Result<_>>()?)
}

fn read_artifact(row: &Row<'_>) -> rusqlite::Result<Artifact> {
    let at = codec::time(row, 5)?;
    let state = match row.get(4)? {
        PENDING => ArtifactState::Pending { until: at },
        READY => ArtifactState::Ready { at, machine: row.get(6)? },
        REFUSED => ArtifactState::Refused { at, reason: row.get::<_, Option<String>>(6)?.unwrap_or_default() },
        _ => return Err(codec::unreadable(4, Type::Integer, "not a state of an artifact")),
    };
    Ok(Artifact {
        id: codec::artifact_id(row, 0)?,
        namespace: codec::namespace(row, 9)?,
        name: row.get(1)?,
        size: row.get::<_, i64>(2)?.unsigned_abs(),
        sha256: row.get(3)?,
        kind: ArtifactKind::from_number(row.get(8)?)
            .ok_or_else(|| codec::unreadable(8, Type::Integer, "not a kind of artifact"))?,
        state,
        created_at: codec::time(row, 7)?,
    })
}
