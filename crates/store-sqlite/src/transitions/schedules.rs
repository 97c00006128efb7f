//! What a batch does to schedules. In an order of its own, whatever that of the writes: edits and drops,
//! additions, states, and then what `ledger` does: verdicts, releases, late starts, watermarks.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use punctual_core::schedule::{Pause, ScheduleChange, ScheduleEdit, ScheduleRow, ScheduleState};
use punctual_core::shard::write::{Batch, Decision, LateStart, ScheduleWrite, Void};
use punctual_core::{NamespaceId, ScheduleId, ShardId, TaskId, Timestamp};
use rusqlite::{Connection, params};

use super::ledger;
use crate::writer::{Db, Failure, KnownTask};
use crate::{codec, sql};

/// The tasks that a batch names.
pub(super) type Numbers = HashMap<TaskId, KnownTask>;

pub(super) fn write_all(db: &mut Db, batch: &Batch, void: &mut Void) -> Result<(), Failure> {
    let Some(writes) = Writes::of(batch) else { return Ok(()) };
    let numbers = writes.numbers(db)?;
    for change in &writes.changed {
        match change {
            Change::Edit(id, edit, state, change) => edit_one(&db.conn, *id, edit, state, change, &numbers)?,
            Change::Drop(id, change) => drop_one(&db.conn, *id, change)?,
        }
    }
    add(&db.conn, &writes.added, &numbers, void)?;
    set(&db.conn, &writes.set)?;
    let mut made = ledger::decide(&db.conn, &writes.decided, &numbers, void)?;
    made.extend(ledger::release(&db.conn, &writes.released, &numbers, void)?);
    ledger::started_late(&db.conn, &writes.started_late)?;
    ledger::raise_watermarks(&db.conn, &writes.watermarks)?;
    for job in made {
        db.use_task(job.task, job.id.due_at())?;
    }
    Ok(())
}

/// What concerns schedules in a batch, by kind.
#[derive(Default)]
struct Writes<'b> {
    changed: Vec<Change<'b>>,
    added: Vec<&'b ScheduleRow>,
    set: Vec<(ScheduleId, &'b ScheduleState, Option<&'b ScheduleChange>)>,
    decided: Vec<&'b Decision>,
    released: Vec<&'b Decision>,
    started_late: Vec<&'b LateStart>,
    watermarks: Vec<(ShardId, Timestamp)>,
}

enum Change<'b> {
    Edit(ScheduleId, &'b ScheduleEdit, &'b ScheduleState, &'b ScheduleChange),
    Drop(ScheduleId, &'b ScheduleChange),
}

impl<'b> Writes<'b> {
    /// `None` if there is nothing, as in most batches.
    fn of(batch: &'b Batch) -> Option<Self> {
        let mut writes = Self::default();
        let mut is_empty = true;
        for (_, write) in batch.schedule_writes() {
            is_empty = false;
            match write {
                ScheduleWrite::Edit { id, edit, state, change } => {
                    writes.changed.push(Change::Edit(*id, edit, state, change));
                }
                ScheduleWrite::Drop { id, change } => writes.changed.push(Change::Drop(*id, change)),
                ScheduleWrite::Add(row) => writes.added.push(row),
                ScheduleWrite::Set { id, state, change } => writes.set.push((*id, state, change.as_ref())),
                ScheduleWrite::Decide(decision) => writes.decided.push(decision),
                ScheduleWrite::Release(decision) => writes.released.push(decision),
                ScheduleWrite::StartedLate(late) => writes.started_late.push(late),
                ScheduleWrite::Watermark { shard, at } => writes.watermarks.push((*shard, *at)),
            }
        }
        (!is_empty).then_some(writes)
    }

    /// A task that is not there refuses the batch.
    fn numbers(&self, db: &mut Db) -> Result<Numbers, Failure> {
        let edited = self.changed.iter().filter_map(|change| match change {
            Change::Edit(_, edit, ..) => Some(edit.task),
            Change::Drop(..) => None,
        });
        let added = self.added.iter().map(|row| row.edit.task);
        let fired = self.decided.iter().chain(&self.released).filter_map(|decision| Some(decision.job.as_ref()?.task));
        let mut numbers = Numbers::new();
        for task in edited.chain(added).chain(fired) {
            if let Entry::Vacant(unknown) = numbers.entry(task) {
                unknown.insert(db.known_task(task)?);
            }
        }
        Ok(numbers)
    }
}

fn edit_one(
    conn: &Connection,
    id: ScheduleId,
    edit: &ScheduleEdit,
    state: &ScheduleState,
    change: &ScheduleChange,
    numbers: &Numbers,
) -> Result<(), Failure> {
    let ScheduleChange { by, kind, note, former_spec: _ } = change;
    let (shard, bytes) = place(id);
    let kept = conn.prepare_cached(sql!("keep_edit"))?.execute(params![
        shard,
        bytes,
        by.at.as_micros(),
        by.who,
        *kind as u8,
        note
    ])?;
    if kept == 0 {
        return Ok(());
    }
    let (paused_at, paused_by, pause_note) = pause_columns(state.pause.as_ref());
    let (name, namespace) = conn.prepare_cached(sql!("edit_schedule"))?.query_row(
        params![
            shard,
            bytes,
            numbers[&edit.task].number,
            edit.spec,
            calendars_text(edit),
            edit.priority.map(|priority| priority.get()),
            state.revision,
            state.since.as_micros(),
            paused_at,
            paused_by,
            pause_note,
            state.skip_until.map(Timestamp::as_micros),
            state.failures,
            by.at.as_micros(),
            by.who,
            edit.input.as_deref()
        ],
        |row| Ok((row.get::<_, String>(0)?, codec::namespace(row, 1)?)),
    )?;
    conn.prepare_cached(sql!("forget_calendar_uses"))?.execute([bytes])?;
    use_calendars(conn, id, (namespace, &name), edit)
}

fn drop_one(conn: &Connection, id: ScheduleId, change: &ScheduleChange) -> Result<(), Failure> {
    let (shard, bytes) = place(id);
    let dropped = conn.prepare_cached(sql!("drop_schedule"))?.execute(params![shard, bytes])?;
    if dropped == 0 {
        return Ok(());
    }
    conn.prepare_cached(sql!("forget_calendar_uses"))?.execute([bytes])?;
    keep_change(conn, id, change)
}

fn add(conn: &Connection, rows: &[&ScheduleRow], numbers: &Numbers, void: &mut Void) -> Result<(), Failure> {
    let mut statement = conn.prepare_cached(sql!("insert_schedule"))?;
    for ScheduleRow { id, namespace, name, edit, state, created, changed } in rows {
        let (shard, bytes) = place(*id);
        let (paused_at, paused_by, pause_note) = pause_columns(state.pause.as_ref());
        let added = statement.execute(params![
            shard,
            bytes,
            name,
            numbers[&edit.task].number,
            edit.spec,
            calendars_text(edit),
            edit.priority.map(|priority| priority.get()),
            state.revision,
            state.since.as_micros(),
            paused_at,
            paused_by,
            pause_note,
            state.skip_until.map(Timestamp::as_micros),
            state.runs,
            state.failures,
            created.at.as_micros(),
            created.who,
            changed.at.as_micros(),
            changed.who,
            edit.input.as_deref(),
            namespace.0
        ])?;
        match added {
            0 => void.schedules.push(*id),
            _ => use_calendars(conn, *id, (*namespace, name), edit)?,
        }
    }
    Ok(())
}

fn set(conn: &Connection, states: &[(ScheduleId, &ScheduleState, Option<&ScheduleChange>)]) -> Result<(), Failure> {
    for (id, state, change) in states {
        let (shard, bytes) = place(*id);
        let (paused_at, paused_by, pause_note) = pause_columns(state.pause.as_ref());
        let set = conn.prepare_cached(sql!("set_schedule"))?.execute(params![
            shard,
            bytes,
            state.revision,
            state.since.as_micros(),
            paused_at,
            paused_by,
            pause_note,
            state.skip_until.map(Timestamp::as_micros),
            state.failures,
            change.map(|change| change.by.at.as_micros()),
            change.map(|change| &change.by.who)
        ])?;
        if let Some(change) = change.filter(|_| set == 1) {
            keep_change(conn, *id, change)?;
        }
    }
    Ok(())
}

fn keep_change(conn: &Connection, id: ScheduleId, change: &ScheduleChange) -> Result<(), Failure> {
    let ScheduleChange { by, kind, note, former_spec } = change;
    conn.prepare_cached(sql!("keep_change"))?.execute(params![
        id.to_bytes(),
        by.at.as_micros(),
        by.who,
        *kind as u8,
        note,
        former_spec
    ])?;
    Ok(())
}

fn use_calendars(
    conn: &Connection,
    id: ScheduleId,
    (namespace, name): (NamespaceId, &str),
    edit: &ScheduleEdit,
) -> Result<(), Failure> {
    if edit.calendars.is_empty() {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(sql!("use_calendar"))?;
    for calendar in &edit.calendars {
        statement.execute(params![calendar, id.to_bytes(), id.shard().0, name, namespace.0])?;
    }
    Ok(())
}

fn place(id: ScheduleId) -> (u16, [u8; 16]) {
    (id.shard().0, id.to_bytes())
}

fn pause_columns(pause: Option<&Pause>) -> (Option<i64>, Option<&str>, Option<&str>) {
    match pause {
        None => (None, None, None),
        Some(Pause { by, note }) => (Some(by.at.as_micros()), Some(&by.who), note.as_deref()),
    }
}

/// Most schedules have none.
fn calendars_text(edit: &ScheduleEdit) -> Option<String> {
    (!edit.calendars.is_empty()).then(|| serde_json::to_string(&edit.calendars).expect("names are JSON"))
}
