//! Steps of runs. The core works one out between the lock of the run's row and the write of what follows.

use std::collections::HashMap;
use std::sync::Arc;

use punctual_core::shard::write::{Batch, Void};
use punctual_core::workflow::{Graph, NodeRef, RunEvent};
use punctual_core::{RunId, ShardId, TaskId, Timestamp};
use punctual_store::{
    Graphs, OpenRun, RunChange, RunRow, RunStep, RunSteps, StoreError, TASK_USE_STEP, run_ends, tasks_to_bytes,
};
use tokio_postgres::types::ToSql;

use super::known_runs::stamp;
use super::{Done, definition, read_run, together};
use crate::codec::{self, Read, Uuid, namespace_number};
use crate::connection::Conn;
use crate::jobs::store_within;
use crate::pipeline::{Blob, Param, Pipeline, Step, column};
use crate::sql;
use crate::tasks::{self, KnownTask};
use crate::trouble::Trouble;

/// Whether a step of a run that cannot be stored may be taken back by itself. That costs two round trips for each run, so
/// a batch is guarded only after it was refused as a whole.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Steps {
    Trusted,
    Guarded,
}

/// In a transaction, to be rolled back after an error.
pub(super) async fn start(conn: &Arc<Conn>, graphs: &Graphs, row: RunRow, shard_count: u16) -> Done<RunChange> {
    conn.run("BEGIN").await?;
    use_tasks(conn, &row, &[]).await?;
    let now = row.made.at;
    let step = step(conn, graphs, row, &[], &[RunEvent::Tick], now).await?;
    insert(conn, &step).await?;
    keep_outputs(conn, &[&step]).await?;
    store_within(conn, shard_count, &step.jobs).await?;
    conn.run("COMMIT").await?;
    Ok(step.into_change())
}

/// A run that is new, with what its first step made of it.
async fn insert(conn: &Arc<Conn>, step: &RunStep) -> Done<()> {
    let RunStep { row, wake_at, ended_at, .. } = step;
    let RunRow { id, namespace, workflow, version, made, input, tasks, state: _, status } = row;
    let (workflow, who) = (codec::text(workflow), codec::text(&made.who));
    let (tasks, state) = (tasks_to_bytes(tasks), row.state_bytes());
    let wanted: [&(dyn ToSql + Sync); 13] = [
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
        &stamp(&state),
        &wake_at.map(Timestamp::as_micros),
        &ended_at.map(Timestamp::as_micros),
    ];
    conn.execute(sql!("insert_run"), &wanted).await?;
    Ok(())
}

/// In a transaction, to be rolled back unless something is changed.
pub(super) async fn change(
    conn: &Arc<Conn>,
    graphs: &Graphs,
    id: RunId,
    events: &[RunEvent],
    now: Timestamp,
    shard_count: u16,
) -> Done<Option<RunChange>> {
    conn.run("BEGIN").await?;
    let Some(row) = lock(conn, id).await? else { return Ok(None) };
    let step = advance_guarded(conn, graphs, &row, events, now, shard_count).await?;
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
pub(crate) async fn step_all(
    conn: &Arc<Conn>,
    graphs: &Graphs,
    batch: &Batch,
    void: &Void,
    steps: Steps,
) -> Done<RunSteps> {
    let ends = run_ends(batch, void);
    match steps {
        Steps::Trusted => together::step(conn, graphs, ends, batch.at).await,
        Steps::Guarded => {
            let mut stepped = RunSteps::default();
            for (run, events) in ends {
                step_guarded(conn, graphs, run, &events, batch.at, &mut stepped).await?;
            }
            Ok(stepped)
        }
    }
}

async fn step_guarded(
    conn: &Arc<Conn>,
    graphs: &Graphs,
    run: RunId,
    events: &[RunEvent],
    now: Timestamp,
    stepped: &mut RunSteps,
) -> Done<()> {
    let advanced = match lock(conn, run).await {
        Ok(None) => return Ok(()),
        Ok(Some(row)) => advance_guarded(conn, graphs, &row, events, now, ShardId::COUNT_MAX).await,
        Err(trouble) => Err(trouble),
    };
    match advanced {
        // The transaction goes on only after what PostgreSQL itself did not refuse.
        Err(Trouble::Refused(error)) => tracing::error!(%run, %error, "a run cannot be read or written"),
        advanced => {
            let step = advanced?;
            stepped.add(&step.row, &step.jobs);
        }
    }
    Ok(())
}

/// Applies events to a run, in a transaction that is lost if what follows cannot be stored.
async fn advance(
    conn: &Arc<Conn>,
    graphs: &Graphs,
    row: &RunRow,
    gone: &[TaskId],
    events: &[RunEvent],
    now: Timestamp,
    shard_count: u16,
) -> Done<RunStep> {
    let step = step(conn, graphs, row.clone(), gone, events, now).await?;
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
    graphs: &Graphs,
    row: &RunRow,
    events: &[RunEvent],
    now: Timestamp,
    shard_count: u16,
) -> Done<RunStep> {
    let mut advanced = guarded(conn, advance(conn, graphs, row, &[], events, now, shard_count)).await?;
    if advanced.is_err() {
        let known = lock_tasks(conn, row).await?;
        let all = row.tasks.iter().flatten().map(|(task, _)| *task);
        let gone: Vec<TaskId> = all.filter(|task| !known.contains_key(task)).collect();
        if !gone.is_empty() {
            advanced = guarded(conn, advance(conn, graphs, row, &gone, events, now, shard_count)).await?;
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

/// The definition of the run's version, from memory or the store.
pub(super) async fn graph(conn: &Arc<Conn>, graphs: &Graphs, row: &RunRow) -> Done<Arc<Graph>> {
    if let Some(graph) = graphs.get(row) {
        return Ok(graph);
    }
    let spec = definition(conn, row.namespace, &row.workflow, Some(row.version))
        .await?
        .ok_or_else(|| Trouble::inconsistent(format!("the definition of {} is gone", row.id)))?
        .spec;
    graphs.read(row, &spec).map_err(Trouble::Refused)
}

/// Works out what follows, and writes nothing.
async fn step(
    conn: &Arc<Conn>,
    graphs: &Graphs,
    row: RunRow,
    gone: &[TaskId],
    events: &[RunEvent],
    now: Timestamp,
) -> Done<RunStep> {
    let graph = graph(conn, graphs, &row).await?;
    let mut open = OpenRun::new(row, graph).map_err(Trouble::Refused)?.without_tasks(gone);
    loop {
        let missing = match open.step(events, now) {
            Ok(step) => return Ok(step),
            Err(missing) => missing,
        };
        together::read_outputs(conn, &mut [(&mut open, &missing)]).await?;
    }
}

async fn write(conn: &Arc<Conn>, step: &RunStep, shard_count: u16) -> Done<()> {
    write_runs(conn, &[step]).await?;
    store_within(conn, shard_count, &step.jobs).await
}

/// The states of runs, and outputs that are to be kept. Not the jobs.
pub(super) async fn write_runs(conn: &Arc<Conn>, steps: &[&RunStep]) -> Done<()> {
    let states: Vec<Vec<u8>> = steps.iter().map(|step| step.row.state_bytes()).collect();
    let stamps = column(states.iter().map(|state| stamp(state)));
    let params: Vec<Param> = vec![
        column(steps.iter().map(|step| Uuid::from(step.row.id))),
        column(steps.iter().map(|step| i16::from(step.row.status.number()))),
        Box::new(states),
        stamps,
        column(steps.iter().map(|step| step.wake_at.map(Timestamp::as_micros))),
        column(steps.iter().map(|step| step.ended_at.map(Timestamp::as_micros))),
    ];
    let mut wanted = vec![Step::Prepared(conn.prepare(sql!("write_runs")).await?, params)];
    wanted.extend(outputs(conn, steps).await?);
    run_all(conn, wanted).await
}

async fn keep_outputs(conn: &Arc<Conn>, steps: &[&RunStep]) -> Done<()> {
    match outputs(conn, steps).await? {
        Some(step) => run_all(conn, vec![step]).await,
        None => Ok(()),
    }
}

pub(super) async fn outputs(conn: &Conn, steps: &[&RunStep]) -> Done<Option<Step>> {
    // A statement must not touch a row twice; the last output counts.
    let kept: HashMap<NodeRef, &bytes::Bytes> =
        steps.iter().flat_map(|step| &step.kept).map(|(node, output)| (*node, output)).collect();
    if kept.is_empty() {
        return Ok(None);
    }
    let params: Vec<Param> = vec![
        column(kept.keys().map(|node| Uuid::from(node.run))),
        column(kept.keys().map(|node| i32::from(node.node))),
        column(kept.keys().map(|node| node.item as i32)),
        column(kept.values().map(|output| Blob((*output).clone()))),
    ];
    Ok(Some(Step::Prepared(conn.prepare(sql!("keep_run_output")).await?, params)))
}

async fn run_all(conn: &Arc<Conn>, steps: Vec<Step>) -> Done<()> {
    let pipeline = Pipeline::new(conn, steps);
    for answer in conn.within_limit(async { Ok::<_, Trouble>(pipeline.await) }).await? {
        answer?;
    }
    Ok(())
}
