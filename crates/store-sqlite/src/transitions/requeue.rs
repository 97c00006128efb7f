//! A job waits again: after an attempt, at another time, or although it had finished.

use punctual_core::attempt::AttemptRecord;
use punctual_core::shard::write::{CancelMark, Requeue, Rerun};
use punctual_core::{JobId, Timestamp};
use rusqlite::{Connection, params};

use super::apply::one_row;
use super::late::forget_cancel;
use crate::writer::Failure;
use crate::{codec, sql};

pub(super) fn requeue(conn: &Connection, requeue: &Requeue) -> Result<(), Failure> {
    let Requeue { key, due_at, counters, attempt, cancel } = requeue;
    let moved = conn.prepare_cached(sql!("requeue"))?.execute(params![
        key.shard().0,
        key.due_at.as_micros(),
        key.id.to_bytes(),
        due_at.as_micros(),
        is_moved(key.id, *due_at),
        counters.next_attempt.0,
        counters.failures,
        counters.node_failures,
        attempt.as_ref().map(|ran| ran.attempt.0)
    ])?;
    one_row(moved, || format!("{} is not there to wait again", key.id))?;
    if let Some(ran) = attempt {
        keep_attempt(conn, key.id, ran)?;
    }
    match cancel {
        CancelMark::None => Ok(()),
        CancelMark::Recorded => forget_cancel(conn, key.id),
    }
}

fn keep_attempt(conn: &Connection, job: JobId, ran: &AttemptRecord) -> Result<(), Failure> {
    conn.prepare_cached(sql!("insert_attempt"))?.execute(params![
        job.to_bytes(),
        ran.attempt.0,
        ran.worker.to_bytes(),
        ran.server.to_bytes(),
        ran.picked_up_at.as_micros(),
        ran.started_at.as_micros(),
        ran.finished_at.as_micros(),
        codec::ending_code(ran.ending),
        ran.reason
    ])?;
    Ok(())
}

pub(super) fn rerun(conn: &Connection, rerun: &Rerun) -> Result<(), Failure> {
    let Rerun { id, due_at, counters } = rerun;
    let copied = conn.prepare_cached(sql!("rerun"))?.execute(params![
        id.to_bytes(),
        id.shard().0,
        due_at.as_micros(),
        is_moved(*id, *due_at),
        counters.next_attempt.0,
        counters.failures,
        counters.node_failures
    ])?;
    one_row(copied, || format!("{id} is not in history to run again"))?;
    conn.prepare_cached(sql!("keep_last_attempt"))?.execute([id.to_bytes()])?;
    let removed = conn.prepare_cached(sql!("prune_history"))?.execute([id.to_bytes()])?;
    one_row(removed, || format!("{id} was copied and is not there to be removed"))
}

/// Such a row is not where the job's id says, and is found through `job_moved`.
fn is_moved(id: JobId, due_at: Timestamp) -> bool {
    due_at != id.due_at()
}
