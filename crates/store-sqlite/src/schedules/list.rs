//! What people read of schedules. A page ends when it is full or when so many rows were examined that a
//! filter which matches little would hold a connection too long.

use std::ops::ControlFlow;

use punctual_core::schedule::{OccurrenceRow, ScheduleChange, ScheduleRow};
use punctual_core::{NamespaceId, ScheduleId, TaskId, Timestamp};
use punctual_store::{OccurrenceFilter, Order, ScheduleFilter};
use rusqlite::{Connection, OptionalExtension, params};

use super::row::{read_change, read_occurrence, read_schedule};
use crate::writer::Failure;
use crate::{codec, sql, tasks};

/// About 20 ms of reading.
const EXAMINED_MAX: usize = 10_000;
const MORE_THAN_FEW: i64 = EXAMINED_MAX as i64 + 1;

pub(super) fn one(conn: &Connection, id: ScheduleId) -> Result<Option<ScheduleRow>, Failure> {
    let mut statement = conn.prepare_cached(sql!("schedule"))?;
    let row = statement.query_row(params![id.shard().0, id.to_bytes()], |row| {
        let mut schedule = read_schedule(row)?;
        schedule.edit.input = codec::bytes(row, 21)?;
        Ok(schedule)
    });
    Ok(row.optional()?)
}

pub(super) fn ids(
    conn: &Connection,
    namespace: NamespaceId,
    mut names: Vec<String>,
) -> Result<Vec<(String, ScheduleId)>, Failure> {
    names.sort_unstable();
    names.dedup();
    let mut statement = conn.prepare_cached(sql!("schedule_id"))?;
    let mut found = Vec::new();
    for name in names {
        let id = statement.query_row(params![name, namespace.0], |row| codec::schedule_id(row, 0)).optional()?;
        found.extend(id.map(|id| (name, id)));
    }
    Ok(found)
}

pub(super) fn schedules(
    conn: &Connection,
    filter: &ScheduleFilter,
    after: Option<&str>,
    limit: usize,
) -> Result<(Vec<ScheduleRow>, Option<String>), Failure> {
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    let fits = |row: &ScheduleRow| {
        filter.namespace == row.namespace
            && filter.task.is_none_or(|task| task == row.edit.task)
            && filter.is_paused.is_none_or(|is_paused| is_paused == row.state.pause.is_some())
    };
    let mut page = Page::new(limit);
    if let Some(task) = filter.task
        && let Some(few) = few_of_task(conn, task)?
    {
        let is_wanted =
            |row: &&ScheduleRow| row.name.starts_with(prefix) && after.is_none_or(|after| *row.name > *after);
        for row in few.iter().filter(is_wanted) {
            if page.examine(row.name.clone(), Some(row.clone()).filter(fits)).is_break() {
                break;
            }
        }
        return Ok((page.rows, page.next));
    }
    // From here on; the row at `after` itself, if it is still there, is passed over.
    let from = after.map_or(prefix, |after| after.max(prefix));
    // What is paused is little.
    let text = match filter.is_paused {
        Some(true) => sql!("list_paused_schedules"),
        Some(false) | None => sql!("list_schedules"),
    };
    let mut statement = conn.prepare_cached(text)?;
    let mut rows = statement.query(params![from, filter.namespace.0])?;
    while let Some(row) = rows.next()? {
        let name = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
        if !name.starts_with(prefix) {
            break;
        }
        if after == Some(name) {
            continue;
        }
        let schedule = read_schedule(row)?;
        let key = schedule.name.clone();
        if page.examine(key, Some(schedule).filter(fits)).is_break() {
            break;
        }
    }
    Ok((page.rows, page.next))
}

/// The schedules of a task in order of name. `None` if there are so many that finding some of them in
/// the order of all names is quicker.
fn few_of_task(conn: &Connection, task: TaskId) -> Result<Option<Vec<ScheduleRow>>, Failure> {
    let Some(known) = tasks::known(conn, task)? else { return Ok(Some(Vec::new())) };
    let mut statement = conn.prepare_cached(sql!("list_schedules_of_task"))?;
    let rows = statement.query_map(params![known.number, MORE_THAN_FEW], read_schedule)?;
    let mut rows: Vec<ScheduleRow> = rows.collect::<rusqlite::Result<_>>()?;
    if rows.len() > EXAMINED_MAX {
        return Ok(None);
    }
    rows.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Ok(Some(rows))
}

pub(super) fn names_of_task(conn: &Connection, task: TaskId, limit: usize) -> Result<Vec<String>, Failure> {
    let Some(known) = tasks::known(conn, task)? else { return Ok(Vec::new()) };
    let mut statement = conn.prepare_cached(sql!("schedules_of_task"))?;
    let names = statement.query_map(params![known.number, MORE_THAN_FEW], |row| row.get(0))?;
    let mut few = names.collect::<rusqlite::Result<Vec<String>>>()?;
    if few.len() > EXAMINED_MAX {
        let mut statement = conn.prepare_cached(sql!("first_schedules_of_task"))?;
        let wanted = params![known.number, limit as i64, known.namespace.0];
        return Ok(statement.query_map(wanted, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?);
    }
    few.sort_unstable();
    few.truncate(limit);
    Ok(few)
}

pub(super) fn changes(conn: &Connection, id: ScheduleId, limit: usize) -> Result<Vec<ScheduleChange>, Failure> {
    let mut statement = conn.prepare_cached(sql!("schedule_changes"))?;
    let changes = statement.query_map(params![id.to_bytes(), limit as i64], read_change)?;
    Ok(changes.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn occurrences(
    conn: &Connection,
    schedule: ScheduleId,
    filter: &OccurrenceFilter,
    after: Option<Timestamp>,
    order: Order,
    limit: usize,
) -> Result<(Vec<OccurrenceRow>, Option<Timestamp>), Failure> {
    let mut from = filter.from.map_or(0, Timestamp::as_micros);
    let mut before = filter.before.map_or(i64::MAX, Timestamp::as_micros);
    let text = match order {
        Order::Ascending => concat!(crate::sql_text!("occurrences"), "ORDER BY at"),
        Order::Descending => concat!(crate::sql_text!("occurrences"), "ORDER BY at DESC"),
    };
    if let Some(after) = after.map(Timestamp::as_micros) {
        match order {
            Order::Ascending => from = from.max(after + 1),
            Order::Descending => before = before.min(after),
        }
    }
    let mut statement = conn.prepare_cached(text)?;
    let mut rows = statement.query(params![schedule.to_bytes(), from, before])?;
    let mut page = Page::new(limit);
    while let Some(row) = rows.next()? {
        let occurrence = read_occurrence(row)?;
        let fits = filter.verdicts.is_empty() || filter.verdicts.contains(&occurrence.verdict);
        if page.examine(occurrence.at, fits.then_some(occurrence)).is_break() {
            break;
        }
    }
    Ok((page.rows, page.next))
}

/// Fills with the rows that fit.
struct Page<K, T> {
    rows: Vec<T>,
    /// After which the next page begins; `None` when there is no more.
    next: Option<K>,
    limit: usize,
    examined: usize,
    last_examined: Option<K>,
    last_listed: Option<K>,
}

impl<K: Clone, T> Page<K, T> {
    fn new(limit: usize) -> Self {
        Self { rows: Vec::new(), next: None, limit: limit.max(1), examined: 0, last_examined: None, last_listed: None }
    }

    /// Takes a row, if it fits. Breaks when the page has ended before it.
    fn examine(&mut self, key: K, row: Option<T>) -> ControlFlow<()> {
        if self.examined == EXAMINED_MAX {
            self.next = self.last_examined.take();
            return ControlFlow::Break(());
        }
        self.examined += 1;
        self.last_examined = Some(key.clone());
        let Some(row) = row else { return ControlFlow::Continue(()) };
        // Only the row after the last tells that there is a next page.
        if self.rows.len() == self.limit {
            self.next = self.last_listed.take();
            return ControlFlow::Break(());
        }
        self.rows.push(row);
        self.last_listed = Some(key);
        ControlFlow::Continue(())
    }
}
