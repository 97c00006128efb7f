//! Applies one batch: the fence first, then what concerns schedules, then the writes about jobs in their order,
//! then what people may want to be told of all that; all or none.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::shard::write::{Batch, JobWrite, Start, Void};
use punctual_core::{BatchId, JobKey, ShardId};
use punctual_store::Applied;
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use super::settle::Settling;
use super::{late, notices, requeue, schedules, starts};
use crate::workflows::{self, Steps};
use crate::writer::{Db, Failure};
use crate::{batches, codec, sql};

pub(super) fn run(db: &mut Db, batch: &Batch) -> Result<Applied, Failure> {
    let fenced = fenced_shards(&db.conn, batch)?;
    if !fenced.is_empty() {
        return Ok(Applied::Fenced(fenced));
    }
    if let Some(write) = batch.writes.iter().find(|write| batch.epoch_of(write.shard()).is_none()) {
        return Err(Failure::inconsistent(format!("the batch touches shard {} without its fence", write.shard())));
    }
    let ends_jobs_of_runs =
        || batch.job_writes().any(|(_, write)| matches!(write, JobWrite::Settle(settle) if settle.node.is_some()));
    match apply(db, batch, Steps::Trusted) {
        // It may be the step of one run that cannot be stored.
        Err(Failure::Refused(_)) if ends_jobs_of_runs() => apply(db, batch, Steps::Guarded),
        applied => applied,
    }
}

fn apply(db: &mut Db, batch: &Batch, guard: Steps) -> Result<Applied, Failure> {
    db.all_or_nothing(|db| {
        let mut void = Void::default();
        schedules::write_all(db, batch, &mut void)?;
        write_all(&db.conn, batch, &mut void)?;
        let mut steps = workflows::step_all(db, batch, &void, guard)?;
        steps.batches = batches::step_all(db, batch, &void)?;
        notices::keep(&db.conn, batch, &void)?;
        Ok(Applied::Done { void, steps })
    })
}

fn fenced_shards(conn: &Connection, batch: &Batch) -> Result<Vec<ShardId>, Failure> {
    let mut statement = conn.prepare_cached(sql!("shard_epoch"))?;
    let mut fenced = Vec::new();
    for &(shard, epoch) in &batch.fences {
        let current = statement.query_row([shard.0], |row| codec::epoch(row, 0)).optional()?;
        if current != Some(epoch) {
            fenced.push(shard);
        }
    }
    Ok(fenced)
}

fn write_all(conn: &Connection, batch: &Batch, void: &mut Void) -> Result<(), Failure> {
    let mut number = conn.prepare_cached(sql!("job_attempt"))?;
    let mut settling = Settling::new(conn)?;
    let mut records: BTreeMap<ShardId, Vec<u8>> = BTreeMap::new();
    let void_gangs = void_gangs(conn, batch)?;
    for (_, write) in batch.job_writes() {
        if let JobWrite::Start(Start { key, gang: Some(gang), .. }) = write
            && void_gangs.contains(gang)
        {
            void.jobs.push(key.id);
            continue;
        }
        if let Some((key, attempt)) = write.expects_waiting()
            && next_attempt(&mut number, key)? != Some(attempt.0)
        {
            void.jobs.push(key.id);
            continue;
        }
        match write {
            // The job's row stays as it is: that its number is in a record makes it a running one.
            JobWrite::Start(start) => starts::encode(start, records.entry(start.key.shard()).or_default()),
            JobWrite::Settle(settle) => settling.settle(settle)?,
            JobWrite::Requeue(requeue) => requeue::requeue(conn, requeue)?,
            JobWrite::Rerun(rerun) => match requeue::rerun(conn, rerun)? {
                Hit::Row => {}
                Hit::Nothing => void.jobs.push(rerun.id),
            },
            JobWrite::RequestCancel { key } => late::request_cancel(conn, *key)?,
            JobWrite::ResolveLost(resolve) => match late::resolve_lost(conn, resolve)? {
                Hit::Row => {}
                Hit::Nothing => void.jobs.push(resolve.id),
            },
            JobWrite::Stale(stale) => late::keep_stale(conn, stale)?,
            JobWrite::CloseStarts(starts) => late::close_starts(conn, *starts)?,
        }
    }
    record_starts(conn, batch, records)
}

/// Gangs of which a member is not as its start expects.
fn void_gangs(conn: &Connection, batch: &Batch) -> Result<BTreeSet<BatchId>, Failure> {
    let mut gangs = BTreeSet::new();
    let mut number = conn.prepare_cached(sql!("job_attempt"))?;
    for (_, write) in batch.job_writes() {
        if let JobWrite::Start(Start { key, attempt, gang: Some(gang), .. }) = write
            && next_attempt(&mut number, *key)? != Some(attempt.0)
        {
            gangs.insert(*gang);
        }
    }
    Ok(gangs)
}

/// What each shard started, in one row.
fn record_starts(conn: &Connection, batch: &Batch, records: BTreeMap<ShardId, Vec<u8>>) -> Result<(), Failure> {
    for (shard, record) in records {
        let name = batch.starts_id(shard);
        conn.prepare_cached(sql!("insert_starts"))?.execute(params![
            shard.0,
            name.epoch.0 as i64,
            name.seq.0 as i64,
            batch.server.to_bytes(),
            record
        ])?;
    }
    Ok(())
}

/// `None` when the job is not at `key`. The statement is `job_attempt`.
pub(super) fn next_attempt(statement: &mut CachedStatement<'_>, key: JobKey) -> rusqlite::Result<Option<u32>> {
    statement.query_row(params![key.shard().0, key.due_at.as_micros(), key.id.to_bytes()], |row| row.get(0)).optional()
}

/// What a write about a finished job found. Retention may have been there first.
pub(super) enum Hit {
    Row,
    Nothing,
}

/// A write must have hit exactly the row it was meant for.
pub(super) fn one_row(changed: usize, what: impl FnOnce() -> String) -> Result<(), Failure> {
    if changed == 1 { Ok(()) } else { Err(Failure::inconsistent(what())) }
}
