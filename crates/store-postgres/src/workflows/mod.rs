//! Workflows and their runs.

mod foreseen;
mod known_runs;
mod step;
mod together;

use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::workflow::{NodeRef, RunEvent, RunState, RunStatus};
use punctual_core::{JobId, NamespaceId, RunId, Timestamp};
use punctual_store::{
    DueRun, FoundRow, Maker, Result, RunChange, RunFilter, RunRow, Transitions, VERSIONS_MAX, WORKFLOWS_MAX,
    WorkflowRow, WorkflowStored, Workflows, tasks_from_bytes,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codec::{self, Read, Uuid, namespace_number, rows_max};
use crate::connection::Conn;
use crate::retention::SMALL_ROWS_MAX;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};
pub(crate) use foreseen::{Foreseen, foresee};
pub(crate) use known_runs::KnownRuns;
pub(crate) use step::{Steps, step_all};

type Done<T> = std::result::Result<T, Trouble>;

/// How often a transaction is tried that PostgreSQL ended because others were in its way.
pub(crate) const DEADLOCK_TRIES: usize = 4;

/// Sorts before every id.
const FIRST_ID: Uuid = Uuid([0; 16]);
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
        let conn = self.shared.runs.take().await?;
        let mut tries = DEADLOCK_TRIES;
        let started = loop {
            let started =
                step::start(conn.shared(), &self.shared.memory.graphs, row.clone(), self.shared.shard_count).await;
            if started.is_err() {
                conn.run("ROLLBACK").await?;
            }
            tries -= 1;
            if tries == 0 || !started.as_ref().is_err_and(Trouble::is_transient) {
                break started;
            }
        };
        conn.done();
        if let Ok(change) = &started {
            self.shared.memory.runs.put(known_runs::KnownRun::started(&change.row));
        }
        Ok(started?)
    }

    async fn change_run(&self, id: RunId, event: RunEvent, now: Timestamp) -> Result<Option<RunChange>> {
        self.open()?;
        let conn = self.shared.runs.take().await?;
        let events = [event];
        let mut tries = DEADLOCK_TRIES;
        let changed = loop {
            let changed =
                step::change(conn.shared(), &self.shared.memory.graphs, id, &events, now, self.shared.shard_count)
                    .await;
            if !matches!(&changed, Ok(Some(change)) if change.refused.is_none()) {
                conn.run("ROLLBACK").await?;
            }
            tries -= 1;
            if tries == 0 || !changed.as_ref().is_err_and(Trouble::is_transient) {
                break changed;
            }
        };
        self.shared.memory.runs.forget(&[id]);
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

    async fn due_runs(&self, now: Timestamp, after: Option<DueRun>, limit: usize) -> Result<Vec<DueRun>> {
        self.open()?;
        let (at, id) = after.map_or((i64::MIN, FIRST_ID), |after| (after.at.as_micros(), after.id.into()));
        let conn = self.shared.owner_reads.take().await?;
        let rows = conn.query(sql!("due_runs"), &[&now.as_micros(), &at, &id, &rows_max(limit)]).await?;
        conn.done();
        let read = |row: &Row| {
            let has_ended = codec::value(row, 2)?;
            Ok(DueRun { at: codec::time(row, 0)?, id: codec::run_id(row, 1)?, has_ended })
        };
        Ok(rows.iter().map(read).collect::<Read<_>>()?)
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
            Some(Maker::Schedule(_) | Maker::Batch(_)) | None => None,
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

/// Answers whether there is more.
pub(crate) async fn prune(conn: &Conn, before: Timestamp) -> Done<bool> {
    // Outputs first: they are found by their runs.
    conn.execute(sql!("prune_run_outputs"), &[&before.as_micros(), &SMALL_ROWS_MAX]).await?;
    let gone = conn.execute(sql!("prune_runs"), &[&before.as_micros(), &SMALL_ROWS_MAX]).await?;
    Ok(gone == SMALL_ROWS_MAX.unsigned_abs())
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
    let id = codec::run_id(row, 0)?;
    let state = RunState::from_bytes(codec::value(row, 9)?, id);
    Ok(RunRow {
        id,
        namespace: codec::namespace(row, 1)?,
        workflow: codec::value(row, 2)?,
        version: codec::value::<i32>(row, 3)? as u32,
        made: codec::by(row, 4)?,
        input: codec::bytes(row, 6)?,
        tasks: tasks_from_bytes(codec::value(row, 7)?)
            .ok_or_else(|| codec::unreadable(row, 7, "not the tasks of a run"))?,
        state: state.ok_or_else(|| codec::unreadable(row, 9, "not the state of a run"))?,
        status: status.ok_or_else(|| codec::unreadable(row, 8, "not the status of a run"))?,
    })
}
