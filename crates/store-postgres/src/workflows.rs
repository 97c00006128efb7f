//! Workflows and their runs. A step of a run is worked out by the core, between the lock of its row and the write of what
//! follows.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::shard::write::{Batch, Void};
use punctual_core::workflow::{NodeRef, RunEvent, RunState, RunStatus};
use punctual_core::{JobId, NamespaceId, RunId, ShardId, TaskId, Timestamp};
use punctual_store::{
    FoundRow, Maker, OpenRun, Result, RunChange, RunFilter, RunRow, RunStep, StoreError, TASK_USE_STEP, Transitions,
    VERSIONS_MAX, WORKFLOWS_MAX, WorkflowRow, WorkflowStored, Workflows, run_ends, tasks_from_bytes, tasks_to_bytes,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codec::{self, Read, Uuid, namespace_number, rows_max};
use crate::connection::Conn;
use crate::jobs::store_within;
use crate::retention::SMALL_ROWS_MAX;
use crate::tasks::{self, KnownTask};
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

/// How often a transaction is tried that PostgreSQL ended because others were in its way.
pub(crate) const DEADLOCK_TRIES: usize = 4;

/// Whether a step of a run that cannot be stored may be taken back by itself. That costs two round trips for each run, so
/// a batch is guarded only after it was refused as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    Trusted,
    Guarded,
}

/// Sorts after every id.
const LAST_ID: Uuid = Uuid([0xff; 16]);

#[async_trait]
impl Workflows for PostgresStore {
    async fn put_workflow(&self, row: WorkflowRow) -> Result<WorkflowStored> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let stored = put(conn.shared(), &row).await;
        if !matches!(stored, Ok(WorkflowStored::New(_))) {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(stored?)
    }

    async fn workflow(&self, namespace: NamespaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = definition(conn.shared(), namespace, name, version).await?;
        conn.done();
        Ok(row)
    }

    async fn list_workflows(
        &self,
        namespace: NamespaceId,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<WorkflowRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let after = codec::text(&after.unwrap_or_default());
        let wanted: [&(dyn ToSql + Sync); 3] = [&namespace_number(namespace), &after, &rows_max(limit)];
        let rows = conn.query(sql!("list_workflows"), &wanted).await?;
        conn.done();
        Ok(rows.iter().map(read_workflow).collect::<Read<_>>()?)
    }

    async fn start_run(&self, row: RunRow) -> Result<RunChange> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let mut tries = DEADLOCK_TRIES;
        let started = loop {
            let started = start(conn.shared(), row.clone(), self.shared.shard_count).await;
            if started.is_err() {
                conn.run("ROLLBACK").await?;
            }
            tries -= 1;
            if tries == 0 || !started.as_ref().is_err_and(Trouble::is_transient) {
                break started;
            }
        };
        conn.done();
        Ok(started?)
    }

    async fn change_run(&self, id: RunId, event: RunEvent, now: Timestamp) -> Result<Option<RunChange>> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let events = [event];
        let mut tries = DEADLOCK_TRIES;
        let changed = loop {
            let changed = change(conn.shared(), id, &events, now, self.shared.shard_count).await;
            if !matches!(&changed, Ok(Some(change)) if change.refused.is_none()) {
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

    async fn run(&self, id: RunId) -> Result<Option<RunRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("run"), &[&Uuid::from(id)]).await?;
        conn.done();
        Ok(row.as_ref().map(read_run).transpose()?)
    }

    async fn run_in(&self, namespace: NamespaceId, id: RunId) -> Result<Option<RunRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("run_of_namespace"), &[&Uuid::from(id), &namespace_number(namespace)]).await?;
        conn.done();
        Ok(row.as_ref().map(read_run).transpose()?)
    }

    async fn list_runs(&self, filter: RunFilter) -> Result<Vec<RunRow>> {
        self.open()?;
        let RunFilter { namespace, workflow, before, limit } = filter;
        let (namespace, before, limit) =
            (namespace_number(namespace), before.map_or(LAST_ID, Uuid::from), rows_max(limit));
        let conn = self.shared.people_reads.take().await?;
        let rows = match workflow.as_deref().map(codec::text) {
            Some(workflow) => {
                let wanted: [&(dyn ToSql + Sync); 4] = [&namespace, &before, &limit, &workflow];
                conn.query(sql!("list_runs_of_workflow"), &wanted).await?
            }
            None => conn.query(sql!("list_runs"), &[&namespace, &before, &limit]).await?,
        };
        conn.done();
        Ok(rows.iter().map(read_run).collect::<Read<_>>()?)
    }

    async fn due_runs(&self, now: Timestamp, limit: usize) -> Result<Vec<RunId>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let rows = conn.query(sql!("due_runs"), &[&now.as_micros(), &rows_max(limit)]).await?;
        conn.done();
        Ok(rows.iter().map(|row| codec::run_id(row, 0)).collect::<Read<_>>()?)
    }

    async fn node_of_job(&self, job: JobId) -> Result<Option<NodeRef>> {
        match self.find(job).await? {
            FoundRow::Hot(row) => return Ok(row.node.as_deref().copied()),
            FoundRow::Absent => return Ok(None),
            FoundRow::Finished { .. } => {}
        }
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("maker_of_finished"), &[&Uuid::from(job)]).await?;
        conn.done();
        Ok(match row.map(|row| codec::maker(&row, 0, job)).transpose()?.flatten() {
            Some(Maker::Run(node)) => Some(node),
            Some(Maker::Schedule(_)) | None => None,
        })
    }
}

/// In a transaction, to be rolled back unless the version is new.
async fn put(conn: &Arc<Conn>, row: &WorkflowRow) -> Done<WorkflowStored> {
    conn.run("BEGIN").await?;
    conn.query(sql!("lock_count"), &[&"workflows"]).await?;
    let WorkflowRow { namespace, name, version: _, spec, made } = row;
    let version = match definition(conn, *namespace, name, None).await? {
        Some(newest) if newest.spec == *spec => return Ok(WorkflowStored::Unchanged(newest.version)),
        Some(newest) if newest.version as usize >= VERSIONS_MAX => return Ok(WorkflowStored::Full),
        Some(newest) => newest.version + 1,
        None => {
            let rows = conn.query(sql!("count_workflows"), &[&namespace_number(*namespace)]).await?;
            let count: i64 = rows.first().map(|row| codec::value(row, 0)).transpose()?.unwrap_or_default();
            if count >= rows_max(WORKFLOWS_MAX) {
                return Ok(WorkflowStored::Full);
            }
            1
        }
    };
    let (name, spec, who) = (codec::text(name), codec::text(spec), codec::text(&made.who));
    let wanted: [&(dyn ToSql + Sync); 6] =
        [&namespace_number(*namespace), &name, &(version as i32), &spec, &made.at.as_micros(), &who];
    conn.execute(sql!("insert_workflow"), &wanted).await?;
    conn.run("COMMIT").await?;
    Ok(WorkflowStored::New(version))
}

async fn definition(
    conn: &Arc<Conn>,
    namespace: NamespaceId,
    name: &str,
    version: Option<u32>,
) -> Done<Option<WorkflowRow>> {
    let (namespace, name) = (namespace_number(namespace), codec::text(name));
    let row = match version {
        Some(version) => {
            let wanted: [&(dyn ToSql + Sync); 3] = [&namespace, &name, &(version as i32)];
            conn.query_opt(sql!("workflow_version"), &wanted).await?
        }
        None => conn.query_opt(sql!("newest_workflow"), &[&namespace, &name]).await?,
    };
    row.as_ref().map(read_workflow).transpose()
}

/// In a transaction, to be rolled back after an error.
async fn start(conn: &Arc<Conn>, row: RunRow, shard_count: u16) -> Done<RunChange> {
    conn.run("BEGIN").await?;
    use_tasks(conn, &row, &[]).await?;
    let RunRow { id, namespace, workflow, version, made, input, tasks, state, status } = &row;
    let (workflow, who, state) = (codec::text(workflow), codec::text(&made.who), state_text(state));
    let (tasks, none) = (tasks_to_bytes(tasks), None::<i64>);
    let wanted: [&(dyn ToSql + Sync); 12] = [
        &Uuid::from(*id),
        &namespace_number(*namespace),
        &workflow,
        &(*version as i32),
        &made.at.as_micros(),
        &who,
        &input.as_deref(),
        &tasks,
        &i16::from(status.number()),
        &state,
        &none,
        &none,
    ];
    conn.execute(sql!("insert_run"), &wanted).await?;
    let now = row.made.at;
    let step = step(conn, row, &[], &[RunEvent::Tick], now).await?;
    write(conn, &step, shard_count).await?;
    conn.run("COMMIT").await?;
    Ok(step.into_change())
}

/// In a transaction, to be rolled back unless something is changed.
async fn change(
    conn: &Arc<Conn>,
    id: RunId,
    events: &[RunEvent],
    now: Timestamp,
    shard_count: u16,
) -> Done<Option<RunChange>> {
    conn.run("BEGIN").await?;
    let Some(row) = lock(conn, id).await? else { return Ok(None) };
    let step = advance_guarded(conn, &row, events, now, shard_count).await?;
    if step.refused.is_none() {
        conn.run("COMMIT").await?;
    }
    Ok(Some(step.into_change()))
}

/// Retention leaves the tasks of a run alone until it can release nothing any more.
async fn use_tasks(conn: &Arc<Conn>, row: &RunRow, gone: &[TaskId]) -> Done<()> {
    let known = lock_tasks(conn, row).await?;
    let is_missing = |task: &TaskId| !known.contains_key(task) && !gone.contains(task);
    if row.tasks.iter().flatten().any(|(task, _)| is_missing(task)) {
        return Err(Trouble::inconsistent(format!("a task of {} is not there", row.id)));
    }
    let until = row.tasks_used_until();
    let mut used: Vec<(i64, Timestamp)> = known
        .values()
        .filter(|known| until > known.used_until + TASK_USE_STEP)
        .map(|known| (known.number, until))
        .collect();
    if !used.is_empty() {
        used.sort_unstable();
        tasks::use_tasks(conn, &used).await?;
    }
    Ok(())
}

/// The tasks of a run that are in the store.
async fn lock_tasks(conn: &Arc<Conn>, row: &RunRow) -> Done<HashMap<TaskId, KnownTask>> {
    let mut ids: Vec<Uuid> = row.tasks.iter().flatten().map(|(task, _)| Uuid::from(*task)).collect();
    ids.sort_unstable();
    ids.dedup();
    let rows = conn.query(sql!("lock_tasks"), &[&ids]).await?;
    rows.iter().map(tasks::read_known).collect::<Read<_>>()
}

/// What follows from the ends of jobs in a batch, in its transaction. The jobs have ended whatever becomes of their run, and
/// the others of its shard must not wait for it. Runs are locked in order of id, which is the order of `run_ends`.
pub(crate) async fn step_all(conn: &Arc<Conn>, batch: &Batch, void: &Void, steps: Steps) -> Done<()> {
    for (run, events) in run_ends(batch, void) {
        let advanced = match lock(conn, run).await {
            Ok(None) => continue,
            Ok(Some(row)) if steps == Steps::Trusted => {
                advance(conn, &row, &[], &events, batch.at, ShardId::COUNT_MAX).await.map(drop)
            }
            Ok(Some(row)) => advance_guarded(conn, &row, &events, batch.at, ShardId::COUNT_MAX).await.map(drop),
            Err(trouble) => Err(trouble),
        };
        match advanced {
            // The transaction goes on only after what PostgreSQL itself did not refuse.
            Err(Trouble::Refused(error)) if steps == Steps::Guarded => {
                tracing::error!(%run, %error, "a run cannot be read or written");
            }
            advanced => advanced?,
        }
    }
    Ok(())
}

/// Applies events to a run, in a transaction that is lost if what follows cannot be stored.
async fn advance(
    conn: &Arc<Conn>,
    row: &RunRow,
    gone: &[TaskId],
    events: &[RunEvent],
    now: Timestamp,
    shard_count: u16,
) -> Done<RunStep> {
    let step = step(conn, row.clone(), gone, events, now).await?;
    if step.refused.is_none() {
        if events.iter().any(|event| matches!(event, RunEvent::Resume { .. })) {
            use_tasks(conn, &step.row, gone).await?;
        }
        write(conn, &step, shard_count).await?;
    }
    Ok(step)
}

/// Applies events to a run. If what follows cannot be stored, the run fails instead, and the transaction goes on.
async fn advance_guarded(
    conn: &Arc<Conn>,
    row: &RunRow,
    events: &[RunEvent],
    now: Timestamp,
    shard_count: u16,
) -> Done<RunStep> {
    let mut advanced = guarded(conn, advance(conn, row, &[], events, now, shard_count)).await?;
    if advanced.is_err() {
        let known = lock_tasks(conn, row).await?;
        let all = row.tasks.iter().flatten().map(|(task, _)| *task);
        let gone: Vec<TaskId> = all.filter(|task| !known.contains_key(task)).collect();
        if !gone.is_empty() {
            advanced = guarded(conn, advance(conn, row, &gone, events, now, shard_count)).await?;
        }
    }
    let error = match advanced {
        Ok(step) => return Ok(step),
        Err(error) => error,
    };
    tracing::error!(run = %row.id, %error, "a run could not go on, and fails");
    let step = RunStep::broken(row.clone(), &error, now);
    guarded(conn, write(conn, &step, shard_count)).await??;
    Ok(step)
}

/// Does something in a savepoint. An inner error says that it was refused, and that nothing of it is left.
async fn guarded<T>(conn: &Arc<Conn>, work: impl Future<Output = Done<T>>) -> Done<std::result::Result<T, StoreError>> {
    conn.run("SAVEPOINT step").await?;
    match work.await {
        Ok(done) => {
            conn.run("RELEASE SAVEPOINT step").await?;
            Ok(Ok(done))
        }
        Err(trouble) if trouble.is_about_rows() => {
            conn.run("ROLLBACK TO SAVEPOINT step").await?;
            Ok(Err(trouble.into()))
        }
        Err(trouble) => Err(trouble),
    }
}

async fn lock(conn: &Arc<Conn>, id: RunId) -> Done<Option<RunRow>> {
    let row = conn.query_opt(sql!("lock_run"), &[&Uuid::from(id)]).await?;
    row.as_ref().map(read_run).transpose()
}

/// Works out what follows, and writes nothing.
async fn step(conn: &Arc<Conn>, row: RunRow, gone: &[TaskId], events: &[RunEvent], now: Timestamp) -> Done<RunStep> {
    let spec = definition(conn, row.namespace, &row.workflow, Some(row.version))
        .await?
        .ok_or_else(|| Trouble::inconsistent(format!("the definition of {} is gone", row.id)))?
        .spec;
    let mut open = OpenRun::new(row, &spec).map_err(Trouble::Refused)?.without_tasks(gone);
    loop {
        let missing = match open.step(events, now) {
            Ok(step) => return Ok(step),
            Err(missing) => missing,
        };
        let run = Uuid::from(open.id());
        for node in missing.0 {
            open.known.read(node);
            for row in conn.query(sql!("run_outputs"), &[&run, &i32::from(node)]).await? {
                open.known.put(node, codec::value::<i32>(&row, 0)? as u32, codec::value::<&[u8]>(&row, 1)?);
            }
        }
    }
}

async fn write(conn: &Arc<Conn>, step: &RunStep, shard_count: u16) -> Done<()> {
    let RunStep { row, wake_at, ended_at, kept, jobs, cancels: _, refused: _ } = step;
    let state = state_text(&row.state);
    let (wake_at, ended_at) = (wake_at.map(Timestamp::as_micros), ended_at.map(Timestamp::as_micros));
    let wanted: [&(dyn ToSql + Sync); 5] =
        [&Uuid::from(row.id), &i16::from(row.status.number()), &state, &wake_at, &ended_at];
    conn.execute(sql!("write_run"), &wanted).await?;
    if !kept.is_empty() {
        // A statement must not touch a row twice; the last output counts.
        let kept: HashMap<NodeRef, &[u8]> = kept.iter().map(|(node, output)| (*node, &output[..])).collect();
        let runs: Vec<Uuid> = kept.keys().map(|node| node.run.into()).collect();
        let nodes: Vec<i32> = kept.keys().map(|node| node.node.into()).collect();
        let items: Vec<i32> = kept.keys().map(|node| node.item as i32).collect();
        let outputs: Vec<&[u8]> = kept.values().copied().collect();
        conn.execute(sql!("keep_run_output"), &[&runs, &nodes, &items, &outputs]).await?;
    }
    store_within(conn, shard_count, jobs).await
}

/// Answers whether there is more.
pub(crate) async fn prune(conn: &Conn, before: Timestamp) -> Done<bool> {
    // Outputs first: they are found by their runs.
    conn.execute(sql!("prune_run_outputs"), &[&before.as_micros(), &SMALL_ROWS_MAX]).await?;
    let gone = conn.execute(sql!("prune_runs"), &[&before.as_micros(), &SMALL_ROWS_MAX]).await?;
    Ok(gone == SMALL_ROWS_MAX.unsigned_abs())
}

fn state_text(state: &RunState) -> String {
    serde_json::to_string(state).expect("states are JSON")
}

fn read_workflow(row: &Row) -> Read<WorkflowRow> {
    Ok(WorkflowRow {
        namespace: codec::namespace(row, 0)?,
        name: codec::value(row, 1)?,
        version: codec::value::<i32>(row, 2)? as u32,
        spec: codec::value(row, 3)?,
        made: codec::by(row, 4)?,
    })
}

fn read_run(row: &Row) -> Read<RunRow> {
    let status = u8::try_from(codec::value::<i16>(row, 8)?).ok().and_then(RunStatus::from_number);
    let state = serde_json::from_str(codec::value::<&str>(row, 9)?);
    Ok(RunRow {
        id: codec::run_id(row, 0)?,
        namespace: codec::namespace(row, 1)?,
        workflow: codec::value(row, 2)?,
        version: codec::value::<i32>(row, 3)? as u32,
        made: codec::by(row, 4)?,
        input: codec::bytes(row, 6)?,
        tasks: tasks_from_bytes(codec::value(row, 7)?)
            .ok_or_else(|| codec::unreadable(row, 7, "not the tasks of a run"))?,
        state: state.map_err(|error| codec::unreadable(row, 9, &error.to_string()))?,
        status: status.ok_or_else(|| codec::unreadable(row, 8, "not the status of a run"))?,
    })
}
