//! Workflows and their runs. A step of a run is worked out by the core, in the transaction of the writer that applies it.

use async_trait::async_trait;
use punctual_core::schedule::By;
use punctual_core::shard::write::{Batch, Void};
use punctual_core::workflow::{NodeRef, RunEvent, RunState, RunStatus};
use punctual_core::{JobId, NamespaceId, RunId, TaskId, Timestamp};
use punctual_store::{
    DueRun, FoundRow, Maker, OpenRun, Result, RunChange, RunFilter, RunRow, RunStep, RunSteps, VERSIONS_MAX,
    WORKFLOWS_MAX, WorkflowRow, WorkflowStored, Workflows, run_ends, tasks_from_bytes, tasks_to_bytes,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use crate::jobs::store_jobs;
use crate::writer::{Db, Failure};
use crate::{SqliteStore, codec, sql, tasks};

type Done<T> = std::result::Result<T, Failure>;

/// Sorts after every id.
const AFTER_ALL_IDS: [u8; 16] = [0xff; 16];

#[async_trait]
impl Workflows for SqliteStore {
    async fn put_workflow(&self, row: WorkflowRow) -> Result<WorkflowStored> {
        self.write(1, move |db| put(&db.conn, row)).await
    }

    async fn workflow(&self, namespace: NamespaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        let name = name.to_owned();
        self.shared.people_reads.read(move |conn| definition(conn, namespace, &name, version)).await
    }

    async fn list_workflows(
        &self,
        namespace: NamespaceId,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<WorkflowRow>> {
        let list = move |conn: &Connection| {
            let wanted = params![namespace.0, after.unwrap_or_default(), limit as i64];
            rows(conn, sql!("list_workflows"), wanted, read_workflow)
        };
        self.shared.people_reads.read(list).await
    }

    async fn start_run(&self, row: RunRow) -> Result<RunChange> {
        let shard_count = self.shared.shard_count;
        self.write(row.tasks.len(), move |db| db.all_or_nothing(|db| start(db, row, shard_count))).await
    }

    async fn change_run(&self, id: RunId, event: RunEvent, now: Timestamp) -> Result<Option<RunChange>> {
        let shard_count = self.shared.shard_count;
        let change = move |db: &mut Db| {
            db.all_or_nothing(|db| {
                let Some(row) = one(&db.conn, id)? else { return Ok(None) };
                let step = advance(db, &row, &[event], now, shard_count)?;
                Ok(Some(step.into_change()))
            })
        };
        self.write(1, change).await
    }

    async fn run(&self, id: RunId) -> Result<Option<RunRow>> {
        self.shared.people_reads.read(move |conn| one(conn, id)).await
    }

    async fn run_in(&self, namespace: NamespaceId, id: RunId) -> Result<Option<RunRow>> {
        let find = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("run_of_namespace"))?;
            Ok(statement.query_row(params![id.to_bytes(), namespace.0], read_run).optional()?)
        };
        self.shared.people_reads.read(find).await
    }

    async fn list_runs(&self, filter: RunFilter) -> Result<Vec<RunRow>> {
        let RunFilter { namespace, workflow, before, limit } = filter;
        let before = before.map_or(AFTER_ALL_IDS, RunId::to_bytes);
        let list = move |conn: &Connection| match workflow {
            Some(workflow) => {
                let wanted = params![namespace.0, before, limit as i64, workflow];
                rows(conn, sql!("list_runs_of_workflow"), wanted, read_run)
            }
            None => rows(conn, sql!("list_runs"), params![namespace.0, before, limit as i64], read_run),
        };
        self.shared.people_reads.read(list).await
    }

    async fn due_runs(&self, now: Timestamp, after: Option<DueRun>, limit: usize) -> Result<Vec<DueRun>> {
        let due = move |conn: &Connection| {
            let (at, id) = after.map_or((i64::MIN, [0; 16]), |after| (after.at.as_micros(), after.id.to_bytes()));
            rows(conn, sql!("due_runs"), params![now.as_micros(), at, id, limit as i64], |row| {
                Ok(DueRun { at: codec::time(row, 0)?, id: codec::run_id(row, 1)?, has_ended: row.get(2)? })
            })
        };
        self.shared.owner_reads.read(due).await
    }

    async fn node_of_job(&self, job: JobId) -> Result<Option<NodeRef>> {
        let find = move |conn: &Connection| match crate::transitions::find(conn, job)? {
            FoundRow::Hot(row) => Ok(row.node.as_deref().copied()),
            FoundRow::Finished { .. } => {
                let mut statement = conn.prepare_cached(sql!("maker_of_finished"))?;
                let maker = statement.query_row([job.to_bytes()], |row| codec::maker(row, 0, job)).optional()?;
                Ok(match maker.flatten() {
                    Some(Maker::Run(node)) => Some(node),
                    Some(Maker::Schedule(_) | Maker::Batch(_)) | None => None,
                })
            }
            FoundRow::Absent => Ok(None),
        };
        self.shared.people_reads.read(find).await
    }
}

fn put(conn: &Connection, row: WorkflowRow) -> Done<WorkflowStored> {
    let version = match definition(conn, row.namespace, &row.name, None)? {
        Some(newest) if newest.spec == row.spec => return Ok(WorkflowStored::Unchanged(newest.version)),
        Some(newest) if newest.version as usize >= VERSIONS_MAX => return Ok(WorkflowStored::Full),
        Some(newest) => newest.version + 1,
        None => {
            let mut statement = conn.prepare_cached(sql!("count_workflows"))?;
            let count: i64 = statement.query_row([row.namespace.0], |row| row.get(0))?;
            if count >= WORKFLOWS_MAX as i64 {
                return Ok(WorkflowStored::Full);
            }
            1
        }
    };
    let WorkflowRow { namespace, name, version: _, spec, made } = row;
    conn.prepare_cached(sql!("insert_workflow"))?.execute(params![
        namespace.0,
        name,
        version,
        spec,
        made.at.as_micros(),
        made.who
    ])?;
    Ok(WorkflowStored::New(version))
}

fn definition(
    conn: &Connection,
    namespace: NamespaceId,
    name: &str,
    version: Option<u32>,
) -> Done<Option<WorkflowRow>> {
    Ok(match version {
        Some(version) => {
            let mut statement = conn.prepare_cached(sql!("workflow_version"))?;
            statement.query_row(params![namespace.0, name, version], read_workflow).optional()?
        }
        None => {
            let mut statement = conn.prepare_cached(sql!("newest_workflow"))?;
            statement.query_row(params![namespace.0, name], read_workflow).optional()?
        }
    })
}

fn start(db: &mut Db, row: RunRow, shard_count: u16) -> Done<RunChange> {
    let RunRow { id, namespace, workflow, version, made, input, tasks, state: _, status } = &row;
    db.conn.prepare_cached(sql!("insert_run"))?.execute(params![
        id.to_bytes(),
        namespace.0,
        workflow,
        version,
        made.at.as_micros(),
        made.who,
        input.as_deref(),
        tasks_to_bytes(tasks),
        status.number(),
        row.state_bytes(),
        None::<i64>,
        None::<i64>
    ])?;
    use_tasks(db, &row, &[])?;
    let now = row.made.at;
    let step = step(db, row, &[], &[RunEvent::Tick], now)?;
    write(db, &step, shard_count)?;
    Ok(step.into_change())
}

/// Retention leaves the tasks of a run alone until it can release nothing any more.
fn use_tasks(db: &mut Db, row: &RunRow, gone: &[TaskId]) -> Done<()> {
    for (task, _) in row.tasks.iter().flatten().filter(|(task, _)| !gone.contains(task)) {
        db.use_task(*task, row.tasks_used_until())?;
    }
    Ok(())
}

/// Whether a step of a run that cannot be stored may be taken back by itself. SQLite keeps each page that a savepoint changes,
/// which costs more than the step, so a batch is guarded only after it was refused as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    Trusted,
    Guarded,
}

/// What follows from the ends of jobs in a batch. The jobs have ended whatever becomes of their run, and the others of its
/// shard must not wait for it.
pub(crate) fn step_all(db: &mut Db, batch: &Batch, void: &Void, guard: Steps) -> Done<RunSteps> {
    let mut steps = RunSteps::default();
    for (run, events) in run_ends(batch, void) {
        if guard == Steps::Trusted {
            if let Some(row) = one(&db.conn, run)? {
                let step = step(db, row, &[], &events, batch.at)?;
                write(db, &step, punctual_core::ShardId::COUNT_MAX)?;
                steps.add(&step.row, &step.jobs);
            }
            continue;
        }
        let advanced = match one(&db.conn, run) {
            Ok(None) => continue,
            Ok(Some(row)) => advance(db, &row, &events, batch.at, punctual_core::ShardId::COUNT_MAX),
            Err(failure) => Err(failure),
        };
        match advanced {
            Err(Failure::Refused(error)) => tracing::error!(%run, %error, "a run cannot be read or written"),
            advanced => {
                let step = advanced?;
                steps.add(&step.row, &step.jobs);
            }
        }
    }
    Ok(steps)
}

/// Applies events to a run. If what follows cannot be stored, the run fails instead.
fn advance(db: &mut Db, row: &RunRow, events: &[RunEvent], now: Timestamp, shard_count: u16) -> Done<RunStep> {
    let resumes = events.iter().any(|event| matches!(event, RunEvent::Resume { .. }));
    let attempt = |db: &mut Db, gone: &[TaskId]| {
        db.all_or_nothing(|db| {
            let step = step(db, row.clone(), gone, events, now)?;
            if step.refused.is_none() {
                write(db, &step, shard_count)?;
                if resumes {
                    use_tasks(db, &step.row, gone)?;
                }
            }
            Ok(step)
        })
    };
    let mut advanced = attempt(db, &[]);
    if let Err(Failure::Refused(_)) = advanced {
        let gone = gone_tasks(&db.conn, row)?;
        if !gone.is_empty() {
            advanced = attempt(db, &gone);
        }
    }
    let Err(Failure::Refused(error)) = advanced else { return advanced };
    tracing::error!(run = %row.id, %error, "a run could not go on, and fails");
    let step = RunStep::broken(row.clone(), &error, now);
    db.all_or_nothing(|db| write(db, &step, shard_count))?;
    Ok(step)
}

fn gone_tasks(conn: &Connection, row: &RunRow) -> Done<Vec<TaskId>> {
    let mut gone = Vec::new();
    for (task, _) in row.tasks.iter().flatten() {
        if tasks::known(conn, *task)?.is_none() {
            gone.push(*task);
        }
    }
    Ok(gone)
}

/// Works out what follows, and writes nothing.
fn step(db: &Db, row: RunRow, gone: &[TaskId], events: &[RunEvent], now: Timestamp) -> Done<RunStep> {
    let graph = match db.graphs.get(&row) {
        Some(graph) => graph,
        None => {
            let spec = definition(&db.conn, row.namespace, &row.workflow, Some(row.version))?
                .ok_or_else(|| Failure::inconsistent(format!("the definition of {} is gone", row.id)))?
                .spec;
            db.graphs.read(&row, &spec).map_err(Failure::Refused)?
        }
    };
    let mut open = OpenRun::new(row, graph).map_err(Failure::Refused)?.without_tasks(gone);
    loop {
        let missing = match open.step(events, now) {
            Ok(step) => return Ok(step),
            Err(missing) => missing,
        };
        let run = open.id().to_bytes();
        let mut statement = db.conn.prepare_cached(sql!("run_outputs"))?;
        for node in missing.0 {
            open.known.read(node);
            let mut outputs = statement.query(params![run, node])?;
            while let Some(row) = outputs.next()? {
                open.known.put(node, row.get(0)?, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?);
            }
        }
    }
}

fn write(db: &mut Db, step: &RunStep, shard_count: u16) -> Done<()> {
    let RunStep { row, wake_at, ended_at, kept, jobs, cancels: _, refused: _ } = step;
    let state = row.state_bytes();
    let written = params![
        row.id.to_bytes(),
        row.status.number(),
        state,
        wake_at.map(Timestamp::as_micros),
        ended_at.map(Timestamp::as_micros)
    ];
    if db.conn.prepare_cached(sql!("write_run_state"))?.execute(written)? == 0 {
        db.conn.prepare_cached(sql!("write_run"))?.execute(written)?;
    }
    {
        let mut statement = db.conn.prepare_cached(sql!("keep_run_output"))?;
        for (node, output) in kept {
            statement.execute(params![node.run.to_bytes(), node.node, node.item, &output[..]])?;
        }
    }
    store_jobs(db, jobs, shard_count)
}

fn one(conn: &Connection, id: RunId) -> Done<Option<RunRow>> {
    Ok(conn.prepare_cached(sql!("run"))?.query_row([id.to_bytes()], read_run).optional()?)
}

fn rows<T>(
    conn: &Connection,
    text: &str,
    wanted: impl Params,
    read: fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Done<Vec<T>> {
    let mut statement = conn.prepare_cached(text)?;
    let rows = statement.query_map(wanted, read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn read_workflow(row: &Row<'_>) -> rusqlite::Result<WorkflowRow> {
    Ok(WorkflowRow {
        namespace: codec::namespace(row, 0)?,
        name: row.get(1)?,
        version: row.get(2)?,
        spec: row.get(3)?,
        made: codec::by(row, 4)?,
    })
}

fn read_run(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let status = RunStatus::from_number(row.get(8)?);
    let id = codec::run_id(row, 0)?;
    let state = RunState::from_bytes(row.get_ref(9)?.as_blob()?, id);
    let made: By = codec::by(row, 4)?;
    Ok(RunRow {
        id,
        namespace: codec::namespace(row, 1)?,
        workflow: row.get(2)?,
        version: row.get(3)?,
        made,
        input: codec::bytes(row, 6)?,
        tasks: tasks_from_bytes(row.get_ref(7)?.as_blob()?)
            .ok_or_else(|| codec::unreadable(7, Type::Blob, "not the tasks of a run"))?,
        state: state.ok_or_else(|| codec::unreadable(9, Type::Blob, "not the state of a run"))?,
        status: status.ok_or_else(|| codec::unreadable(8, Type::Integer, "not the status of a run"))?,
    })
}
