//! Lists of jobs, in pages. A page ends when it is full or when so many rows were
//! examined that a filter which matches little would hold a connection too long.

use std::cmp::Ordering;

use punctual_core::{JobId, JobKey, JobState, Timestamp};
use punctual_store::{Filter, FinishedJob, HotJob, Order, Page, Position};
use rusqlite::{CachedStatement, Connection, Row, params};

use super::record::{read_finished, read_hot};
use crate::writer::Failure;
use crate::{codec, sql, tasks};

/// About 20 ms of reading.
const EXAMINED_MAX: usize = 10_000;

/// The job, if even that can be read, and what is wrong with it.
pub(super) type Unreadable = (Option<JobId>, rusqlite::Error);

/// Also what cannot be read, and is left out.
pub(super) fn hot(
    conn: &Connection,
    shard_count: u16,
    filter: &Filter,
    position: Position,
) -> Result<(Page<HotJob>, Vec<Unreadable>), Failure> {
    // Bounds are exclusive keys; an id of zeros sorts before every id.
    let mut low = filter.due_from.map_or((-1, [0; 16]), |from| (from.as_micros(), [0; 16]));
    let mut high = filter.due_before.map_or((i64::MAX, [0; 16]), |before| (before.as_micros(), [0; 16]));
    if let Some(after) = position.after {
        let after = (after.due_at.as_micros(), after.id.to_bytes());
        match position.order {
            Order::Ascending => low = low.max(after),
            Order::Descending => high = high.min(after),
        }
    }
    let text = match position.order {
        Order::Ascending => concat_order(sql!("list_hot"), "ORDER BY job.due_at, job.id"),
        Order::Descending => concat_order(sql!("list_hot"), "ORDER BY job.due_at DESC, job.id DESC"),
    };
    let mut statements = prepare(conn, &text, usize::from(shard_count))?;
    let cursors = statements
        .iter_mut()
        .zip(0..shard_count)
        .map(|(statement, shard)| statement.query(params![shard, low.0, low.1, high.0, high.1]))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut unreadable = Vec::new();
    let read = |row: &Row<'_>| {
        let key = codec::job_id(row, 0).and_then(|id| Ok(JobKey { id, due_at: codec::time(row, 1)? }));
        let key = match key {
            Ok(key) => key,
            Err(error) => {
                unreadable.push((None, error));
                return Ok(None);
            }
        };
        let job = examine_hot(row, filter).unwrap_or_else(|error| {
            unreadable.push((Some(key.id), error));
            None
        });
        Ok(Some((key, job)))
    };
    let page = Merge { cursors, order: position.order, read }.page(position.limit)?;
    Ok((page, unreadable))
}

fn examine_hot(row: &Row<'_>, filter: &Filter) -> rusqlite::Result<Option<HotJob>> {
    if fits_task(row, filter, 2, 12)? { read_hot(row).map(Some) } else { Ok(None) }
}

/// Also what cannot be read, and is left out.
pub(super) fn given_back(
    conn: &Connection,
    after: Option<JobKey>,
    until: Timestamp,
    limit: usize,
) -> Result<(Page<HotJob>, Vec<Unreadable>), Failure> {
    let low = after.map_or((-1, [0; 16]), |after| (after.due_at.as_micros(), after.id.to_bytes()));
    let mut statement = conn.prepare_cached(sql!("given_back"))?;
    let mut found = statement.query(params![low.0, low.1, until.as_micros(), limit as i64])?;
    let mut page = Page { rows: Vec::new(), next: None };
    let mut unreadable = Vec::new();
    let mut examined = 0;
    while let Some(row) = found.next()? {
        examined += 1;
        let place = codec::job_id(row, 0).and_then(|id| Ok(JobKey { id, due_at: codec::time(row, 12)? }));
        let job = place.and_then(|place| {
            page.next = Some(place);
            read_hot(row)
        });
        match job {
            Ok(job) => page.rows.push(job),
            Err(error) => unreadable.push((codec::job_id(row, 0).ok(), error)),
        }
    }
    if examined < limit {
        page.next = None;
    }
    Ok((page, unreadable))
}

pub(super) fn finished(conn: &Connection, filter: &Filter, position: Position) -> Result<Page<FinishedJob>, Failure> {
    let (low, high) = id_range(filter, position);
    let order = match position.order {
        Order::Ascending => "ORDER BY history.id",
        Order::Descending => "ORDER BY history.id DESC",
    };
    // The states to merge, when they are few and rare; then the task; then everything.
    let unsuccessful = !filter.states.is_empty() && !filter.states.contains(&JobState::Succeeded);
    let (text, selectors): (_, Vec<i64>) = if unsuccessful {
        let mut codes: Vec<_> = filter.states.iter().filter_map(|&state| codec::state_code(state)).collect();
        codes.sort_unstable();
        codes.dedup();
        (sql!("list_finished_in_state"), codes.into_iter().map(i64::from).collect())
    } else if let Some(task) = filter.task {
        (sql!("list_finished_of_task"), tasks::known(conn, task)?.iter().map(|known| known.number).collect())
    } else {
        (sql!("list_finished"), vec![0])
    };
    let all = text == sql!("list_finished");
    let mut statements = prepare(conn, &concat_order(text, order), selectors.len())?;
    let cursors = statements
        .iter_mut()
        .zip(selectors)
        .map(
            |(statement, selector)| {
                if all { statement.query(params![low, high]) } else { statement.query(params![low, high, selector]) }
            },
        )
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let read = |row: &Row<'_>| {
        let key = JobKey::original(codec::job_id(row, 0)?);
        let state_fits = filter.states.is_empty() || filter.states.contains(&codec::state(row, 8)?);
        let fits = state_fits && fits_task(row, filter, 1, 13)?;
        Ok(Some((key, if fits { Some(read_finished(row)?) } else { None })))
    };
    Merge { cursors, order: position.order, read }.page(position.limit)
}

/// Exclusive bounds of ids. Finished jobs are listed by their first due time.
fn id_range(filter: &Filter, position: Position) -> ([u8; 16], [u8; 16]) {
    let first_at = |at: Timestamp| JobId::first_at(at).as_u128();
    let mut low = filter.due_from.map_or(0, |from| first_at(from) - 1);
    let mut high = filter.due_before.map_or(u128::MAX, first_at);
    if let Some(after) = position.after {
        let (after_it, before_it) = ids_around(after);
        match position.order {
            Order::Ascending => low = low.max(after_it),
            Order::Descending => high = high.min(before_it),
        }
    }
    (low.to_be_bytes(), high.to_be_bytes())
}

/// Exclusive bounds of the ids whose first key comes after `key`, and of those whose first
/// key comes before it. A list may have stopped at a job that was moved: where it stood then
/// is said by its due time, and not by its id.
fn ids_around(key: JobKey) -> (u128, u128) {
    match key.due_at.cmp(&key.id.due_at()) {
        Ordering::Equal => (key.id.as_u128(), key.id.as_u128()),
        Ordering::Greater => {
            let first = JobId::first_at(key.due_at).as_u128();
            (first - 1, first)
        }
        Ordering::Less => {
            let last = JobId::last_at(key.due_at).as_u128();
            (last, last + 1)
        }
    }
}

/// `column` holds the task's id, `kind` and the one after it what the task says.
fn fits_task(row: &Row<'_>, filter: &Filter, column: usize, kind: usize) -> rusqlite::Result<bool> {
    let task_fits = match filter.task {
        Some(wanted) => codec::task_id(row, column)? == wanted,
        None => true,
    };
    Ok(task_fits && says(row, kind, &filter.kind)? && says(row, kind + 1, &filter.queue)?)
}

fn says(row: &Row<'_>, column: usize, wanted: &Option<String>) -> rusqlite::Result<bool> {
    match wanted {
        Some(wanted) => Ok(row.get_ref(column)?.as_str()? == wanted),
        None => Ok(true),
    }
}

fn concat_order(query: &str, order: &str) -> String {
    format!("{query}{order}")
}

fn prepare<'c>(conn: &'c Connection, text: &str, count: usize) -> rusqlite::Result<Vec<CachedStatement<'c>>> {
    (0..count).map(|_| conn.prepare_cached(text)).collect()
}

/// Several cursors, each in order, read as one. `read` gives a row's key, and the row
/// itself if it belongs into the list; nothing of one whose place nobody knows.
struct Merge<'s, R> {
    cursors: Vec<rusqlite::Rows<'s>>,
    order: Order,
    read: R,
}

impl<R> Merge<'_, R> {
    fn page<T>(mut self, limit: usize) -> Result<Page<T>, Failure>
    where
        R: FnMut(&Row<'_>) -> rusqlite::Result<Option<(JobKey, Option<T>)>>,
    {
        let limit = limit.max(1);
        let mut heads = Vec::with_capacity(self.cursors.len());
        for cursor in &mut self.cursors {
            heads.push(advance(cursor, &mut self.read)?);
        }
        let mut rows = Vec::new();
        let mut last_listed = None;
        let mut last_examined = None;
        let mut examined = 0;
        while let Some(place) = first(&heads, self.order) {
            if examined == EXAMINED_MAX {
                return Ok(Page { rows, next: last_examined });
            }
            examined += 1;
            let next = advance(&mut self.cursors[place], &mut self.read)?;
            let (key, found) = std::mem::replace(&mut heads[place], next).expect("the first head is there");
            last_examined = Some(key);
            let Some(found) = found else { continue };
            // Only the row after the last tells that there is a next page.
            if rows.len() == limit {
                return Ok(Page { rows, next: last_listed });
            }
            rows.push(found);
            last_listed = Some(key);
        }
        Ok(Page { rows, next: None })
    }
}

fn advance<T>(
    cursor: &mut rusqlite::Rows<'_>,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<Option<T>>,
) -> rusqlite::Result<Option<T>> {
    while let Some(row) = cursor.next()? {
        if let Some(found) = read(row)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Which cursor has the next row. They are few, so looking at each is quickest.
fn first<T>(heads: &[Option<(JobKey, T)>], order: Order) -> Option<usize> {
    let keys = heads.iter().enumerate().filter_map(|(place, head)| head.as_ref().map(|(key, _)| (*key, place)));
    let first = match order {
        Order::Ascending => keys.min(),
        Order::Descending => keys.max(),
    };
    first.map(|(_, place)| place)
}
