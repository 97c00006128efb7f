//! Uploaded files. Whoever needs both an artifact and a task locks the artifact first.

use async_trait::async_trait;
use punctual_core::task::Task;
use punctual_core::{ArtifactId, NamespaceId, TaskId, Timestamp};
use punctual_store::{
    Arrival, Artifact, ArtifactChange, ArtifactKind, ArtifactState, Artifacts, CreatedArtifact, NewArtifact, Result,
    StoreError, Unfit, Waits,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codec::{self, Read, Uuid, namespace_number, rows_max};
use crate::connection::Conn;
use crate::tasks::read_task;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

const PENDING: i16 = 1;
const READY: i16 = 2;
const REFUSED: i16 = 3;

/// Two servers may store the same content at the same time, or one may remove what another
/// has just found; the next try sees it.
const CREATE_TRIES: usize = 5;

#[async_trait]
impl Artifacts for PostgresStore {
    async fn create_artifact(&self, artifact: NewArtifact) -> Result<CreatedArtifact> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let created = match artifact.bytes_max {
            None => create(&conn, &artifact).await?,
            Some(bytes_max) => {
                let created = create_within(&conn, &artifact, bytes_max).await;
                end(&conn, matches!(created, Ok(CreatedArtifact::New(_) | CreatedArtifact::Known(_)))).await?;
                created?
            }
        };
        conn.done();
        Ok(created)
    }

    async fn artifact(&self, id: ArtifactId) -> Result<Option<Artifact>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let found = find(&conn, sql!("artifact"), id).await?;
        conn.done();
        Ok(found)
    }

    async fn list_artifacts(
        &self,
        namespace: NamespaceId,
        after: Option<ArtifactId>,
        limit: usize,
    ) -> Result<Vec<Artifact>> {
        let before = after.map_or(Uuid([0xff; 16]), Uuid::from);
        self.page(sql!("list_artifacts"), &[&before, &rows_max(limit), &namespace_number(namespace)]).await
    }

    async fn pending_artifacts(&self, after: Option<ArtifactId>, limit: usize) -> Result<Vec<Artifact>> {
        let after = after.map_or(Uuid([0; 16]), Uuid::from);
        self.page(sql!("pending_artifacts"), &[&after, &rows_max(limit)]).await
    }

    async fn artifact_arrived(&self, id: ArtifactId, at: Timestamp, machine: Option<String>) -> Result<Arrival> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        conn.run("BEGIN").await?;
        let arrival = arrive(&conn, id, at, machine.as_deref()).await;
        end(&conn, arrival.is_ok()).await?;
        conn.done();
        Ok(arrival?)
    }

    async fn refuse_artifact(&self, id: ArtifactId, at: Timestamp, reason: String) -> Result<ArtifactChange> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let change = if settle(&conn, id, REFUSED, at, Some(&reason)).await? {
            ArtifactChange::Done
        } else {
            let found = find(&conn, sql!("artifact"), id).await?;
            found.map_or(ArtifactChange::Absent, |_| ArtifactChange::NotPending)
        };
        conn.done();
        Ok(change)
    }

    async fn delete_artifact(&self, id: ArtifactId, unneeded_by: Vec<TaskId>) -> Result<ArtifactChange> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        conn.run("BEGIN").await?;
        let change = delete(&conn, id, &unneeded_by).await;
        end(&conn, change.is_ok()).await?;
        conn.done();
        Ok(change?)
    }

    async fn prune_artifacts(&self, before: Timestamp, now: Timestamp, limit: usize) -> Result<Vec<ArtifactId>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let gone = prune(&conn, before, now, limit).await?;
        conn.done();
        Ok(gone)
    }
}

impl PostgresStore {
    async fn page(&self, text: &str, wanted: &[&(dyn ToSql + Sync)]) -> Result<Vec<Artifact>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(text, wanted).await?;
        conn.done();
        Ok(rows.iter().map(read_artifact).collect::<Read<_>>()?)
    }
}

async fn end(conn: &Conn, is_good: bool) -> Done<()> {
    conn.run(if is_good { "COMMIT" } else { "ROLLBACK" }).await
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

    /// Of a task, with what was found of the artifacts that it refers to.
    fn of(task: &Task, found: &[Artifact]) -> Self {
        let find = |id: ArtifactId| found.iter().find(|artifact| artifact.id == id);
        for file in task.spec.run.files() {
            if let Err(unfit) = Unfit::of_file(task, find(file.artifact)) {
                return Self::Unfit(file.artifact, unfit);
            }
        }
        let Some(id) = task.spec.run.artifact() else { return Self::Ready };
        match Unfit::of_program(task, find(id)) {
            Ok(Waits::No) => Self::Ready,
            Ok(Waits::Yes) => Self::Waits,
            Err(unfit) => Self::Unfit(id, unfit),
        }
    }
}

/// In a transaction: the answer stays true until it has ended.
pub(crate) async fn fit(conn: &Conn, task: &Task) -> Done<Fit> {
    // In order, so that whoever locks several does not wait for us while we wait for them.
    let mut ids: Vec<ArtifactId> = task.spec.run.artifacts().collect();
    ids.sort_unstable();
    let mut found = Vec::new();
    for id in ids {
        found.extend(find(conn, sql!("share_artifact"), id).await?);
    }
    Ok(Fit::of(task, &found))
}

/// The files that a stored task reads from now on. In the transaction that stores it.
pub(crate) async fn keep_files(conn: &Conn, task: &Task) -> Done<()> {
    let files: Vec<Uuid> = task.spec.run.files().iter().map(|file| Uuid::from(file.artifact)).collect();
    if !files.is_empty() {
        conn.execute(sql!("insert_task_files"), &[&Uuid::from(task.id), &files]).await?;
    }
    Ok(())
}

/// Uses the artifacts of a task that is about to be changed: its former artifacts were used until now.
pub(crate) async fn exchange(conn: &Conn, former: Option<ArtifactId>, task: &Task) -> Done<Fit> {
    let rows = conn.query(sql!("files_of_task"), &[&Uuid::from(task.id)]).await?;
    let files = rows.iter().map(|row| codec::artifact_id(row, 0)).collect::<Read<Vec<_>>>()?;
    let had_files = !files.is_empty();
    let former: Vec<ArtifactId> = former.into_iter().chain(files).collect();
    let mut ids: Vec<ArtifactId> = former.iter().copied().chain(task.spec.run.artifacts()).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut found = Vec::new();
    for id in ids {
        found.extend(find(conn, sql!("lock_artifact"), id).await?);
        if former.contains(&id) {
            conn.execute(sql!("use_artifact"), &[&Uuid::from(id), &task.updated_at.as_micros()]).await?;
        }
    }
    let fit = Fit::of(task, &found);
    if !matches!(fit, Fit::Unfit(..)) {
        if had_files {
            conn.execute(sql!("drop_task_files"), &[&Uuid::from(task.id)]).await?;
        }
        keep_files(conn, task).await?;
    }
    Ok(fit)
}

/// The first of tasks that are stored already that could not be stored now. Without a lock: what
/// they refer to stays, and one that is refused a moment later makes no difference to them.
pub(crate) async fn first_unfit(conn: &Conn, tasks: impl Iterator<Item = &Task>) -> Done<Option<(ArtifactId, Unfit)>> {
    let tasks: Vec<&Task> = tasks.filter(|task| task.spec.run.artifacts().next().is_some()).collect();
    if tasks.is_empty() {
        return Ok(None);
    }
    let asked: Vec<Uuid> = tasks.iter().flat_map(|task| task.spec.run.artifacts()).map(Uuid::from).collect();
    let rows = conn.query(sql!("artifacts_by_id"), &[&asked]).await?;
    let found = rows.iter().map(read_artifact).collect::<Read<Vec<_>>>()?;
    for task in tasks {
        if let Fit::Unfit(id, unfit) = Fit::of(task, &found) {
            return Ok(Some((id, unfit)));
        }
    }
    Ok(None)
}

async fn create(conn: &Conn, new: &NewArtifact) -> Done<CreatedArtifact> {
    let size = i64::try_from(new.size).map_err(|_| Trouble::inconsistent("no file is so large"))?;
    let (digest, kind) = (&new.sha256[..], i16::from(new.kind as u8));
    let namespace = namespace_number(new.namespace);
    let name = new.name.as_deref().map(codec::text);
    let (created_at, until) = (new.created_at.as_micros(), new.until.as_micros());
    for _ in 0..CREATE_TRIES {
        let params: [&(dyn ToSql + Sync); 6] = [&digest, &size, &created_at, &until, &kind, &namespace];
        let known = conn.query_opt(sql!("use_artifact_by_content"), &params).await?;
        if let Some(row) = known {
            return Ok(CreatedArtifact::Known(read_artifact(&row)?));
        }
        let inserted = conn
            .execute(
                sql!("insert_artifact"),
                &[&Uuid::from(new.id), &name, &size, &digest, &until, &created_at, &kind, &namespace],
            )
            .await?;
        if inserted == 1 {
            return Ok(CreatedArtifact::New(Artifact {
                id: new.id,
                namespace: new.namespace,
                name,
                size: new.size,
                sha256: new.sha256,
                kind: new.kind,
                state: ArtifactState::Pending { until: new.until },
                created_at: new.created_at,
            }));
        }
    }
    Err(StoreError::Unavailable("others make and remove the same artifact all the time".to_owned()).into())
}

/// To be rolled back if there is no room. The namespace is locked, so that nobody else adds to what was counted.
async fn create_within(conn: &Conn, new: &NewArtifact, bytes_max: u64) -> Done<CreatedArtifact> {
    conn.run("BEGIN").await?;
    let namespace = namespace_number(new.namespace);
    conn.query(sql!("lock_namespace"), &[&namespace]).await?;
    let row = conn.query_opt(sql!("artifact_bytes"), &[&namespace]).await?;
    let bytes = row.map(|row| codec::value::<i64>(&row, 0)).transpose()?.unwrap_or(0).unsigned_abs();
    match create(conn, new).await? {
        CreatedArtifact::New(_) if bytes.saturating_add(new.size) > bytes_max => Ok(CreatedArtifact::Full { bytes }),
        created => Ok(created),
    }
}

async fn arrive(conn: &Conn, id: ArtifactId, at: Timestamp, machine: Option<&str>) -> Done<Arrival> {
    if !settle(conn, id, READY, at, machine).await? {
        return Ok(match find(conn, sql!("artifact"), id).await?.map(|artifact| artifact.state) {
            Some(ArtifactState::Refused { reason, .. }) => Arrival::Refused { reason },
            Some(ArtifactState::Pending { .. } | ArtifactState::Ready { .. }) => Arrival::Done(Vec::new()),
            None => Arrival::Absent,
        });
    }
    let rows = conn.query(sql!("release_tasks"), &[&Uuid::from(id), &at.as_micros()]).await?;
    // One that a newer program wrote is left out. Whoever can read it finds that it does not wait.
    let mut tasks: Vec<Task> = rows.iter().filter_map(|row| read_task(row).ok()).collect();
    tasks.sort_by_key(|task| task.id);
    Ok(Arrival::Done(tasks))
}

/// False when it is not pending, or not there.
async fn settle(conn: &Conn, id: ArtifactId, state: i16, at: Timestamp, detail: Option<&str>) -> Done<bool> {
    let detail = detail.map(codec::text);
    let changed = conn.execute(sql!("settle_artifact"), &[&Uuid::from(id), &state, &at.as_micros(), &detail]).await?;
    Ok(changed == 1)
}

/// In a transaction.
async fn delete(conn: &Conn, id: ArtifactId, unneeded_by: &[TaskId]) -> Done<ArtifactChange> {
    let unneeded_by: Vec<Uuid> = unneeded_by.iter().map(|task| Uuid::from(*task)).collect();
    if find(conn, sql!("lock_artifact"), id).await?.is_none() {
        return Ok(ArtifactChange::Absent);
    }
    if let Some(row) = conn.query_opt(sql!("task_of_artifact"), &[&Uuid::from(id), &unneeded_by]).await? {
        return Ok(ArtifactChange::InUse { task: codec::task_id(&row, 0)?, name: codec::value(&row, 1)? });
    }
    let gone = conn.execute(sql!("delete_artifact"), &[&Uuid::from(id), &unneeded_by]).await?;
    Ok(if gone == 1 { ArtifactChange::Done } else { ArtifactChange::Absent })
}

async fn prune(conn: &Conn, before: Timestamp, now: Timestamp, limit: usize) -> Done<Vec<ArtifactId>> {
    conn.execute(sql!("prune_task_files"), &[]).await?;
    conn.execute(sql!("prune_secret_uses"), &[]).await?;
    let mut gone = Vec::new();
    for (text, time) in [(sql!("unused_artifacts"), before), (sql!("expired_artifacts"), now)] {
        let rest = i64::try_from(limit - gone.len()).unwrap_or(i64::MAX);
        let rows = conn.query(text, &[&time.as_micros(), &rest]).await?;
        for id in rows.iter().map(|row| codec::artifact_id(row, 0)).collect::<Read<Vec<_>>>()? {
            conn.run("BEGIN").await?;
            let pruned = prune_one(conn, id, before, now).await;
            end(conn, pruned.is_ok()).await?;
            if pruned? {
                gone.push(id);
            }
        }
    }
    Ok(gone)
}

async fn prune_one(conn: &Conn, id: ArtifactId, before: Timestamp, now: Timestamp) -> Done<bool> {
    find(conn, sql!("lock_artifact"), id).await?;
    let params: [&(dyn ToSql + Sync); 3] = [&Uuid::from(id), &before.as_micros(), &now.as_micros()];
    Ok(conn.execute(sql!("prune_artifact"), &params).await? == 1)
}

async fn find(conn: &Conn, text: &str, id: ArtifactId) -> Done<Option<Artifact>> {
    let row = conn.query_opt(text, &[&Uuid::from(id)]).await?;
    row.map(|row| read_artifact(&row)).transpose()
}

fn read_artifact(row: &Row) -> Read<Artifact> {
    let at = codec::time(row, 5)?;
    let state = match codec::value(row, 4)? {
        PENDING => ArtifactState::Pending { until: at },
        READY => ArtifactState::Ready { at, machine: codec::value(row, 6)? },
        REFUSED => {
            let reason = codec::value::<Option<String>>(row, 6)?.unwrap_or_default();
            ArtifactState::Refused { at, reason }
        }
        _ => return Err(codec::unreadable(row, 4, "not a state of an artifact")),
    };
    let sha256: &[u8] = codec::value(row, 3)?;
    Ok(Artifact {
        id: codec::artifact_id(row, 0)?,
        namespace: codec::namespace(row, 9)?,
        name: codec::value(row, 1)?,
        size: codec::value::<i64>(row, 2)?.unsigned_abs(),
        sha256: sha256.try_into().map_err(|_| codec::unreadable(row, 3, "not a digest"))?,
        kind: ArtifactKind::from_number(codec::value::<i16>(row, 8)?.into())
            .ok_or_else(|| codec::unreadable(row, 8, "not a kind of artifact"))?,
        state,
        created_at: codec::time(row, 7)?,
    })
}
