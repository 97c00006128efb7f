//! A job waits again: after an attempt, at another time, or although it had finished.

use punctual_core::attempt::AttemptRecord;
use punctual_core::shard::write::{CancelMark, Requeue, Rerun};
use punctual_core::{JobId, JobKey, Timestamp};
use punctual_store::{TASK_USE_STEP, codes};
use rusqlite::{Connection, params};

use super::apply::{Hit, one_row};
use super::late::forget_cancel;
use crate::writer::Failure;
use crate::{codec, sql};

pub(super) fn requeue(conn: &Connection, requeue: &Requeue) -> Result<(), Failure> {
    let Requeue { key, due_at, counters, give_backs, attempt, cancel } = requeue;
    let moved = conn.prepare_cached(sql!("requeue"))?.execute(params![
        key.shard().0,
        key.due_at.as_micros(),
        key.id.to_bytes(),
        due_at.as_micros(),
        is_moved(key.id, *due_at),
        counters.next_attempt.0,
        counters.failures,
        counters.node_failures,
        attempt.as_ref().map(|ran| ran.attempt.0),
        codec::give_backs_text(give_backs.as_deref()),
        codec::late_from(give_backs.as_deref())
    ])?;
    one_row(moved, || format!("{} is not there to wait again", key.id))?;
    use_task(conn, key.id, *due_at)?;
    if let Some(ran) = attempt {
        keep_attempt(conn, *key, ran)?;
    }
    match cancel {
        CancelMark::None => Ok(()),
        CancelMark::Recorded => forget_cancel(conn, key.id),
    }
}

fn keep_attempt(conn: &Connection, key: JobKey, ran: &AttemptRecord) -> Result<(), Failure> {
    conn.prepare_cached(sql!("insert_attempt"))?.execute(params![
        key.id.to_bytes(),
        ran.attempt.0,
        ran.worker.to_bytes(),
        ran.server.to_bytes(),
        ran.picked_up_at.as_micros(),
        ran.started_at.as_micros(),
        ran.finished_at.as_micros(),
        codes::ending_code(ran.ending),
        ran.reason,
        codec::details_text(ran.details.as_deref()),
        is_moved(key.id, key.due_at).then(|| key.due_at.as_micros())
    ])?;
    Ok(())
}

pub(super) fn rerun(conn: &Connection, rerun: &Rerun) -> Result<Hit, Failure> {
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
    if copied == 0 {
        return Ok(Hit::Nothing);
    }
    use_task(conn, *id, *due_at)?;
    let noted = params![id.to_bytes(), due_at.as_micros(), counters.next_attempt.0];
    conn.prepare_cached(sql!("note_rerun"))?.execute(noted)?;
    conn.prepare_cached(sql!("keep_last_attempt"))?.execute([id.to_bytes()])?;
    let removed = conn.prepare_cached(sql!("prune_history"))?.execute([id.to_bytes()])?;
    one_row(removed, || format!("{id} was copied and is not there to be removed"))?;
    Ok(Hit::Row)
}

/// Retention looks for jobs that need a task up to a step after what the task remembers.
fn use_task(conn: &Connection, id: JobId, due_at: Timestamp) -> Result<(), Failure> {
    if due_at > id.due_at() + TASK_USE_STEP {
        let remembered_below = (due_at - TASK_USE_STEP).as_micros();
        conn.prepare_cached(sql!("use_task_of_job"))?.execute(params![
            id.shard().0,
            id.to_bytes(),
            remembered_below,
            due_at.as_micros()
        ])?;
    }
    Ok(())
}

/// Such a row is not where the job's id says, and is found through `job_moved`.
fn is_moved(id: JobId, due_at: Timestamp) -> bool {
    due_at != id.due_at()
}
