//! Backfills: planned times of the past that are run now.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::schedule::By;
use punctual_core::{BackfillId, JobState, NamespaceId, ScheduleId, Timestamp};
use punctual_store::{
    BACKFILLS_MAX, BACKFILLS_OF_ALL_MAX, BackfillProgress, BackfillRow, BackfillRun, BackfillState, BackfillStep,
    Backfilled, Backfills, NewJob, Result, Stepped, codes,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codec::{self, Read, Uuid, rows_max};
use crate::connection::Conn;
use crate::jobs::store_within;
use crate::pipeline::Param;
use crate::retention::SMALL_ROWS_MAX;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

/// Sorts after every id.
const LAST_ID: Uuid = Uuid([0xff; 16]);

#[async_trait]
impl Backfills for PostgresStore {
    async fn add_backfill(&self, row: BackfillRow) -> Result<bool> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let added = add(&conn, &row).await;
        if !matches!(added, Ok(true)) {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(added?)
    }

    async fn backfill(&self, id: BackfillId) -> Result<Option<BackfillRow>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("backfill"), &[&Uuid::from(id)]).await?;
        conn.done();
        Ok(row.as_ref().map(read_backfill).transpose()?)
    }

    async fn list_backfills(
        &self,
        namespace: NamespaceId,
        schedule: Option<ScheduleId>,
        before: Option<BackfillId>,
        limit: usize,
    ) -> Result<Vec<BackfillRow>> {
        self.open()?;
        let before = before.map_or(LAST_ID, Uuid::from);
        let conn = self.shared.people_reads.take().await?;
        let (limit, namespace) = (rows_max(limit), codec::namespace_number(namespace));
        let rows = match schedule.map(Uuid::from) {
            Some(schedule) => {
                let wanted: [&(dyn ToSql + Sync); 4] = [&before, &limit, &schedule, &namespace];
                conn.query(sql!("list_backfills_of_schedule"), &wanted).await?
            }
            None => conn.query(sql!("list_backfills"), &[&before, &limit, &namespace]).await?,
        };
        conn.done();
        Ok(rows.iter().map(read_backfill).collect::<Read<_>>()?)
    }

    async fn running_backfills(&self) -> Result<Vec<BackfillRow>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let rows = conn.query(sql!("running_backfills"), &[]).await?;
        conn.done();
        Ok(rows.iter().map(read_backfill).collect::<Read<_>>()?)
    }

    async fn step_backfill(&self, step: BackfillStep) -> Result<Stepped> {
        self.open()?;
        let conn = self.shared.steps.take().await?;
        let stepped = run_step(conn.shared(), self.shared.shard_count, step).await;
        if !matches!(stepped, Ok(Stepped::Done)) {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(stepped?)
    }

    async fn open_runs(&self, id: BackfillId, limit: usize) -> Result<Vec<BackfillRun>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let rows = conn.query(sql!("open_runs"), &[&Uuid::from(id), &rows_max(limit)]).await?;
        conn.done();
        Ok(rows.iter().map(read_run).collect::<Read<_>>()?)
    }

    async fn backfill_runs(&self, id: BackfillId, after: Option<Timestamp>, limit: usize) -> Result<Vec<BackfillRun>> {
        self.open()?;
        let after = after.map_or(i64::MIN, Timestamp::as_micros);
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("backfill_runs"), &[&Uuid::from(id), &after, &rows_max(limit)]).await?;
        conn.done();
        Ok(rows.iter().map(read_run).collect::<Read<_>>()?)
    }

    async fn backfilled(
        &self,
        schedule: ScheduleId,
        from: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Backfilled>> {
        self.open()?;
        let (from, until) = (from.as_micros(), until.as_micros());
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("backfilled"), &[&Uuid::from(schedule), &from, &until, &rows_max(limit)]).await?;
        conn.done();
        Ok(rows.iter().map(read_backfilled).collect::<Read<_>>()?)
    }
}

/// In a transaction, to be rolled back unless it is done.
async fn add(conn: &Conn, row: &BackfillRow) -> Done<bool> {
    let BackfillRow { id, namespace, schedule, schedule_name, spec, created, version, progress } = row;
    let mut params: Vec<Param> = vec![
        Box::new(Uuid::from(*id)),
        Box::new(Uuid::from(*schedule)),
        Box::new(codec::text(schedule_name)),
        Box::new(codec::text(spec)),
        Box::new(created.at.as_micros()),
        Box::new(codec::text(&created.who)),
        Box::new(*version as i64),
    ];
    params.extend(progress_columns(progress));
    params.push(Box::new(rows_max(BACKFILLS_MAX)));
    params.push(Box::new(codec::namespace_number(*namespace)));
    params.push(Box::new(rows_max(BACKFILLS_OF_ALL_MAX)));
    conn.run("BEGIN").await?;
    conn.query(sql!("lock_count"), &[&"backfills"]).await?;
    let added = conn.execute(sql!("add_backfill"), &borrowed(&params)).await? == 1;
    if added {
        conn.run("COMMIT").await?;
    }
    Ok(added)
}

/// In a transaction, to be rolled back unless it is done.
async fn run_step(conn: &Arc<Conn>, shard_count: u16, step: BackfillStep) -> Done<Stepped> {
    let BackfillStep { id, version, progress, made, ended } = step;
    let id = Uuid::from(id);
    let mut params: Vec<Param> = vec![Box::new(id), Box::new(version as i64)];
    params.extend(progress_columns(&progress));
    conn.run("BEGIN").await?;
    let Some(row) = conn.query_opt(sql!("step_backfill"), &borrowed(&params)).await? else {
        return Ok(Stepped::Conflict);
    };
    add_runs(conn, id, codec::value(&row, 0)?, &made).await?;
    end_runs(conn, id, ended).await?;
    let jobs: Vec<NewJob> = made.into_iter().map(|(_, job)| job).collect();
    store_within(conn, shard_count, &jobs).await?;
    conn.run("COMMIT").await?;
    Ok(Stepped::Done)
}

async fn add_runs(conn: &Conn, id: Uuid, schedule: Uuid, made: &[(Timestamp, NewJob)]) -> Done<()> {
    if made.is_empty() {
        return Ok(());
    }
    let times: Vec<i64> = made.iter().map(|(at, _)| at.as_micros()).collect();
    let jobs: Vec<Uuid> = made.iter().map(|(_, job)| Uuid::from(job.id)).collect();
    conn.execute(sql!("add_backfill_runs"), &[&id, &schedule, &times, &jobs]).await?;
    Ok(())
}

async fn end_runs(conn: &Conn, id: Uuid, ended: Vec<(Timestamp, JobState)>) -> Done<()> {
    if ended.is_empty() {
        return Ok(());
    }
    // Each time once: the last counts.
    let ended: BTreeMap<Timestamp, JobState> = ended.into_iter().collect();
    let times: Vec<i64> = ended.keys().map(|at| at.as_micros()).collect();
    let states: Option<Vec<i16>> = ended.values().map(|state| codes::state_code(*state)).collect();
    let states = states.ok_or_else(|| Trouble::inconsistent("a job that waits or runs has not ended"))?;
    match conn.execute(sql!("end_backfill_runs"), &[&id, &times, &states]).await? == times.len() as u64 {
        true => Ok(()),
        false => Err(Trouble::inconsistent("a time of a backfill that has no run cannot end")),
    }
}

/// Answers whether there is more.
pub(crate) async fn prune(conn: &Conn, before: Timestamp) -> Done<bool> {
    let mut rest = false;
    // The runs first: a backfill goes when it has none left.
    for text in [sql!("prune_backfill_runs"), sql!("prune_backfills")] {
        rest |= conn.execute(text, &[&before.as_micros(), &SMALL_ROWS_MAX]).await? == SMALL_ROWS_MAX.unsigned_abs();
    }
    Ok(rest)
}

fn borrowed(params: &[Param]) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|param| &**param as _).collect()
}

fn progress_columns(progress: &BackfillProgress) -> [Param; 11] {
    let BackfillProgress { state, reached, total, made, passed_over, succeeded, failed, cancelled, ended, note } =
        progress;
    let count = |count: &u32| -> Param { Box::new(*count as i32) };
    [
        Box::new(*state as i16),
        Box::new(reached.map(Timestamp::as_micros)),
        count(total),
        count(made),
        count(passed_over),
        count(succeeded),
        count(failed),
        count(cancelled),
        Box::new(ended.as_ref().map(|by| by.at.as_micros())),
        Box::new(ended.as_ref().map(|by| codec::text(&by.who))),
        Box::new(note.as_deref().map(codec::text)),
    ]
}

fn read_backfill(row: &Row) -> Read<BackfillRow> {
    Ok(BackfillRow {
        id: codec::backfill_id(row, 0)?,
        namespace: codec::namespace(row, 18)?,
        schedule: codec::schedule_id(row, 1)?,
        schedule_name: codec::value(row, 2)?,
        spec: codec::value(row, 3)?,
        created: codec::by(row, 4)?,
        version: codec::value::<i64>(row, 6)? as u64,
        progress: read_progress(row)?,
    })
}

fn read_progress(row: &Row) -> Read<BackfillProgress> {
    let count = |column| Ok::<_, Trouble>(codec::value::<i32>(row, column)? as u32);
    let state = BackfillState::from_number(codec::value::<i16>(row, 7)?.into());
    let ended = match codec::time_or_none(row, 15)? {
        Some(at) => Some(By { at, who: codec::value(row, 16)? }),
        None => None,
    };
    Ok(BackfillProgress {
        state: state.ok_or_else(|| codec::unreadable(row, 7, "not a state of a backfill"))?,
        reached: codec::time_or_none(row, 8)?,
        total: count(9)?,
        made: count(10)?,
        passed_over: count(11)?,
        succeeded: count(12)?,
        failed: count(13)?,
        cancelled: count(14)?,
        ended,
        note: codec::value(row, 17)?,
    })
}

/// The first three columns of everything that answers runs.
fn read_run(row: &Row) -> Read<BackfillRun> {
    Ok(BackfillRun { at: codec::time(row, 0)?, job: codec::job_id(row, 1)?, state: codec::state_or_none(row, 2)? })
}

fn read_backfilled(row: &Row) -> Read<Backfilled> {
    let BackfillRun { at, job, state } = read_run(row)?;
    Ok(Backfilled { at, backfill: codec::backfill_id(row, 3)?, job, state })
}
