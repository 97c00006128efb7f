//! How a backfill and its runs look in a row.

use punctual_store::{BackfillProgress, BackfillRow, BackfillRun, BackfillState, Backfilled};
use rusqlite::Row;
use rusqlite::types::Type;

use crate::codec;

/// The columns of `backfill` and of the lists.
pub(super) fn read_backfill(row: &Row<'_>) -> rusqlite::Result<BackfillRow> {
    Ok(BackfillRow {
        id: codec::backfill_id(row, 0)?,
        namespace: codec::namespace(row, 18)?,
        schedule: codec::schedule_id(row, 1)?,
        schedule_name: row.get(2)?,
        spec: row.get(3)?,
        created: codec::by(row, 4)?,
        version: codec::version(row, 6)?,
        progress: read_progress(row, 7)?,
    })
}

/// Eleven columns from `column` on, beginning with the state.
fn read_progress(row: &Row<'_>, column: usize) -> rusqlite::Result<BackfillProgress> {
    let state = BackfillState::from_number(row.get(column)?);
    Ok(BackfillProgress {
        state: state.ok_or_else(|| codec::unreadable(column, Type::Integer, "not a state of a backfill"))?,
        reached: codec::or_none(row, column + 1, codec::time)?,
        total: row.get(column + 2)?,
        made: row.get(column + 3)?,
        passed_over: row.get(column + 4)?,
        succeeded: row.get(column + 5)?,
        failed: row.get(column + 6)?,
        cancelled: row.get(column + 7)?,
        ended: codec::or_none(row, column + 8, codec::by)?,
        note: row.get(column + 10)?,
    })
}

/// The first three columns of every query of runs.
pub(super) fn read_run(row: &Row<'_>) -> rusqlite::Result<BackfillRun> {
    Ok(BackfillRun {
        at: codec::time(row, 0)?,
        job: codec::job_id(row, 1)?,
        state: codec::or_none(row, 2, codec::state)?,
    })
}

/// The columns of `backfilled`.
pub(super) fn read_backfilled(row: &Row<'_>) -> rusqlite::Result<Backfilled> {
    let BackfillRun { at, job, state } = read_run(row)?;
    Ok(Backfilled { at, backfill: codec::backfill_id(row, 3)?, job, state })
}
