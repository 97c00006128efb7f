//! Adds backfills and lets them go on.

use punctual_core::{BackfillId, JobState, ScheduleId, Timestamp};
use punctual_store::{
    BACKFILLS_MAX, BACKFILLS_OF_ALL_MAX, BackfillProgress, BackfillRow, BackfillStep, NewJob, Stepped, codes,
};
use rusqlite::{Connection, OptionalExtension, params};

use crate::jobs::store_jobs;
use crate::writer::{Db, Failure};
use crate::{codec, sql};

/// False if too many are running. It stays so until it is added: there is one writer.
pub(super) fn add(conn: &Connection, row: &BackfillRow) -> Result<bool, Failure> {
    let (running, own): (i64, i64) = conn
        .prepare_cached(sql!("count_running_backfills"))?
        .query_row([row.namespace.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if running >= BACKFILLS_OF_ALL_MAX as i64 || own >= BACKFILLS_MAX as i64 {
        return Ok(false);
    }
    let BackfillRow { id, namespace, schedule, schedule_name, spec, created, version, progress } = row;
    let BackfillProgress { state, reached, total, made, passed_over, succeeded, failed, cancelled, ended, note } =
        progress;
    conn.prepare_cached(sql!("insert_backfill"))?.execute(params![
        id.to_bytes(),
        schedule.to_bytes(),
        schedule_name,
        spec,
        created.at.as_micros(),
        created.who,
        *version as i64,
        *state as u8,
        reached.map(Timestamp::as_micros),
        total,
        made,
        passed_over,
        succeeded,
        failed,
        cancelled,
        ended.as_ref().map(|ended| ended.at.as_micros()),
        ended.as_ref().map(|ended| &ended.who),
        note,
        namespace.0
    ])?;
    Ok(true)
}

pub(super) fn step(db: &mut Db, step: BackfillStep, shard_count: u16) -> Result<Stepped, Failure> {
    let BackfillStep { id, version, progress, made, ended } = step;
    db.all_or_nothing(|db| {
        let Some(schedule) = go_on(&db.conn, id, version, &progress)? else { return Ok(Stepped::Conflict) };
        make_runs(&db.conn, id, schedule, &made)?;
        end_runs(&db.conn, id, &ended)?;
        let jobs: Vec<NewJob> = made.into_iter().map(|(_, job)| job).collect();
        store_jobs(db, &jobs, shard_count)?;
        Ok(Stepped::Done)
    })
}

/// Answers the schedule; `None`, and nothing is changed, if the backfill has another version.
fn go_on(
    conn: &Connection,
    id: BackfillId,
    version: u64,
    progress: &BackfillProgress,
) -> Result<Option<ScheduleId>, Failure> {
    let BackfillProgress { state, reached, total, made, passed_over, succeeded, failed, cancelled, ended, note } =
        progress;
    let mut statement = conn.prepare_cached(sql!("step_backfill"))?;
    let schedule = statement.query_row(
        params![
            id.to_bytes(),
            version as i64,
            *state as u8,
            reached.map(Timestamp::as_micros),
            total,
            made,
            passed_over,
            succeeded,
            failed,
            cancelled,
            ended.as_ref().map(|ended| ended.at.as_micros()),
            ended.as_ref().map(|ended| &ended.who),
            note
        ],
        |row| codec::schedule_id(row, 0),
    );
    Ok(schedule.optional()?)
}

fn make_runs(
    conn: &Connection,
    id: BackfillId,
    schedule: ScheduleId,
    made: &[(Timestamp, NewJob)],
) -> Result<(), Failure> {
    let mut statement = conn.prepare_cached(sql!("insert_backfill_run"))?;
    for (at, job) in made {
        statement.execute(params![id.to_bytes(), at.as_micros(), schedule.to_bytes(), job.id.to_bytes()])?;
    }
    Ok(())
}

fn end_runs(conn: &Connection, id: BackfillId, ended: &[(Timestamp, JobState)]) -> Result<(), Failure> {
    let mut statement = conn.prepare_cached(sql!("end_backfill_run"))?;
    for (at, state) in ended {
        let Some(code) = codes::state_code(*state) else {
            return Err(Failure::inconsistent(format!("no run ends as {state}")));
        };
        let there = statement.execute(params![id.to_bytes(), at.as_micros(), code])?;
        if there == 0 {
            return Err(Failure::inconsistent(format!("{at} of {id} has no run")));
        }
    }
    Ok(())
}
