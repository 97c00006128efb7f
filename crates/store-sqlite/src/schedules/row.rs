//! How a schedule and what hangs on it look in a row.

use std::sync::Arc;

use punctual_core::schedule::{
    ChangeKind, Marks, OccurrenceRow, Pause, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState, Verdict,
};
use punctual_store::LoadedRow;
use rusqlite::Row;
use rusqlite::types::{Type, ValueRef};

use crate::codec;

/// The first sixteen columns of every query of schedules.
pub(super) fn read_loaded(row: &Row<'_>) -> rusqlite::Result<LoadedRow> {
    Ok(LoadedRow {
        id: codec::schedule_id(row, 0)?,
        namespace: codec::namespace(row, 15)?,
        name: row.get(1)?,
        task: codec::task_id(row, 2)?,
        spec: row.get_ref(3)?.as_str()?.into(),
        priority: if is_null(row, 4)? { None } else { Some(codec::priority(row, 4)?) },
        has_input: row.get(5)?,
        state: read_state(row, 6)?,
    })
}

/// The first twenty-one columns of `schedule` and of the lists; without the input.
pub(super) fn read_schedule(row: &Row<'_>) -> rusqlite::Result<ScheduleRow> {
    let LoadedRow { id, namespace, name, task, spec, priority, has_input: _, state } = read_loaded(row)?;
    let calendars = match row.get_ref(16)?.as_str_or_null()? {
        None => Vec::new(),
        Some(text) => serde_json::from_str(text).map_err(|error| codec::unreadable_text(16, error))?,
    };
    Ok(ScheduleRow {
        id,
        namespace,
        name,
        edit: ScheduleEdit { task, spec, calendars, priority, input: None },
        state,
        created: codec::by(row, 17)?,
        changed: codec::by(row, 19)?,
    })
}

/// Nine columns from `column` on: revision, since, paused_at, paused_by, pause_note, skip_until, runs, failures,
/// last_success.
fn read_state(row: &Row<'_>, column: usize) -> rusqlite::Result<ScheduleState> {
    let pause = match is_null(row, column + 2)? {
        true => None,
        false => Some(Pause { by: codec::by(row, column + 2)?, note: row.get(column + 4)? }),
    };
    let (skips, succeeded) = (!is_null(row, column + 5)?, !is_null(row, column + 8)?);
    Ok(ScheduleState {
        revision: row.get(column)?,
        since: codec::time(row, column + 1)?,
        pause,
        skip_until: if skips { Some(codec::time(row, column + 5)?) } else { None },
        runs: row.get(column + 6)?,
        failures: row.get(column + 7)?,
        last_success: if succeeded { Some(codec::time(row, column + 8)?) } else { None },
    })
}

/// The columns of `occurrences` and `queued_occurrences`.
pub(super) fn read_occurrence(row: &Row<'_>) -> rusqlite::Result<OccurrenceRow> {
    let verdict = Verdict::from_number(row.get(3)?);
    Ok(OccurrenceRow {
        schedule: codec::schedule_id(row, 0)?,
        at: codec::time(row, 1)?,
        slot: codec::time(row, 2)?,
        verdict: verdict.ok_or_else(|| codec::unreadable(3, Type::Integer, "not a verdict"))?,
        decided_at: codec::time(row, 4)?,
        marks: Marks(row.get(5)?),
        count: row.get(6)?,
        job: if is_null(row, 7)? { None } else { Some(codec::job_id(row, 7)?) },
        reason: row.get(8)?,
        started_at: if is_null(row, 9)? { None } else { Some(codec::time(row, 9)?) },
        requested_by: row.get(10)?,
    })
}

/// The columns of `schedule_changes`.
pub(super) fn read_change(row: &Row<'_>) -> rusqlite::Result<ScheduleChange> {
    let kind = ChangeKind::from_number(row.get(2)?);
    Ok(ScheduleChange {
        by: codec::by(row, 0)?,
        kind: kind.ok_or_else(|| codec::unreadable(2, Type::Integer, "not a kind of change"))?,
        note: row.get(3)?,
        former_spec: row.get_ref(4)?.as_str_or_null()?.map(Arc::from),
    })
}

fn is_null(row: &Row<'_>, column: usize) -> rusqlite::Result<bool> {
    Ok(row.get_ref(column)? == ValueRef::Null)
}
