//! Lists of jobs, in pages. A page ends when it is full or when so many rows were
//! examined that a filter which matches little would hold a connection too long.

use punctual_core::{JobId, JobKey, JobState, NamespaceId, Timestamp};
use punctual_store::columns::{finished_job, hot_job};
use punctual_store::{DueWindow, Filter, FinishedJob, HotJob, JobPages, Order, Page, Position, codes};
use rusqlite::types::Value;
use rusqlite::{CachedStatement, Connection, Row, params};

use super::record::{read_finished, read_hot};
use crate::writer::Failure;
use crate::{codec, sql, tasks};

/// About 20 ms of reading.
const EXAMINED_MAX: usize = 10_000;

/// The job, if even that can be read, and what is wrong with it.
pub(super) type Unreadable = (Option<JobId>, rusqlite::Error);

/// A page of each table, and what cannot be read and is left out.
pub(super) fn jobs(
    conn: &Connection,
    shard_count: u16,
    filter: &Filter,
    position: Position,
) -> Result<(JobPages, Vec<Unreadable>), Failure> {
    let (hot, unreadable) = match filter.tables.has_hot() {
        true => hot(conn, shard_count, filter, position)?,
        false => (Page::EMPTY, Vec::new()),
    };
    let finished = match filter.tables.has_finished() {
        true => finished(conn, filter, position)?,
        false => Page::EMPTY,
    };
    Ok((JobPages { hot, finished }, unreadable))
}

/// Jobs that are due at their first time are read in the order of the table, which is that of their ids; those that were
/// moved are read by id. The first read meets the moved ones too, and passes them by.
fn hot(
    conn: &Connection,
    shard_count: u16,
    filter: &Filter,
    position: Position,
) -> Result<(Page<HotJob>, Vec<Unreadable>), Failure> {
    let (low, high) = key_range(filter, position);
    let (in_place, by_id) = match position.order {
        Order::Ascending => ("ORDER BY job.due_at, job.id", "ORDER BY job.id"),
        Order::Descending => ("ORDER BY job.due_at DESC, job.id DESC", "ORDER BY job.id DESC"),
    };
    // Tracing ids and namespaces other than the default one have indexes in order of id, moved or not.
    let tenant = filter.namespace.and_then(NamespaceId::or_none);
    let lists = if filter.tracing_id.is_some() || tenant.is_some() { 0 } else { shard_count };
    let mut statements = prepare(conn, &concat_order(sql!("list_hot"), in_place), usize::from(lists))?;
    let mut moved = conn.prepare_cached(&match filter.tracing_id {
        Some(_) => concat_order(sql!("list_hot_traced"), by_id),
        None if tenant.is_some() => concat_order(sql!("list_hot_of_namespace"), by_id),
        None => concat_order(sql!("list_moved"), by_id),
    })?;
    let mut cursors = Vec::with_capacity(usize::from(lists) + 1);
    for (statement, shard) in statements.iter_mut().zip(0..lists) {
        cursors.push(statement.query(params![shard, low.0, low.1, high.0, high.1])?);
    }
    let (low, high) = id_range(filter, position);
    cursors.push(match (&filter.tracing_id, tenant) {
        (Some(tracing_id), _) => moved.query(params![low, high, tracing_id])?,
        (None, Some(namespace)) => moved.query(params![low, high, namespace])?,
        (None, None) => moved.query(params![low, high])?,
    });
    let mut unreadable = Vec::new();
    let read = |row: &Row<'_>| {
        let Some(key) = read_key(row, &mut unreadable) else { return Ok(None) };
        let is_passed_by: bool = row.get(hot_job::COUNT + 2)?;
        if is_passed_by {
            return Ok(Some((position.reached(key), None)));
        }
        let job = examine_hot(row, filter).unwrap_or_else(|error| {
            unreadable.push((Some(key.id), error));
            None
        });
        Ok(Some((key.id, job)))
    };
    let page = Merge { cursors, order: position.order, read }.page(position.limit)?;
    Ok((page, unreadable))
}

/// Also what cannot be read, and is left out.
pub(super) fn due(
    conn: &Connection,
    shard_count: u16,
    window: DueWindow,
    limit: usize,
) -> Result<(Page<HotJob, JobKey>, Vec<Unreadable>), Failure> {
    let after = window.after.map(|key| (key.due_at.as_micros(), key.id.to_bytes()));
    let low = (window.from.as_micros(), NO_ID).max(after.unwrap_or((-1, NO_ID)));
    let high = (window.before.as_micros(), NO_ID);
    let text = concat_order(sql!("list_hot"), "ORDER BY job.due_at, job.id");
    let mut statements = prepare(conn, &text, usize::from(shard_count))?;
    let mut cursors = Vec::with_capacity(usize::from(shard_count));
    for (statement, shard) in statements.iter_mut().zip(0..shard_count) {
        cursors.push(statement.query(params![shard, low.0, low.1, high.0, high.1])?);
    }
    let mut unreadable = Vec::new();
    let read = |row: &Row<'_>| {
        let Some(key) = read_key(row, &mut unreadable) else { return Ok(None) };
        let job = read_hot(row).map_err(|error| unreadable.push((Some(key.id), error)));
        Ok(Some((key, job.ok().filter(|job| is_in(window.namespace, job)))))
    };
    let page = Merge { cursors, order: Order::Ascending, read }.page(limit)?;
    Ok((page, unreadable))
}

fn read_key(row: &Row<'_>, unreadable: &mut Vec<Unreadable>) -> Option<JobKey> {
    let key =
        codec::job_id(row, hot_job::ID).and_then(|id| Ok(JobKey { id, due_at: codec::time(row, hot_job::DUE_AT)? }));
    key.map_err(|error| unreadable.push((None, error))).ok()
}

fn examine_hot(row: &Row<'_>, filter: &Filter) -> rusqlite::Result<Option<HotJob>> {
    let fits = is_of(row, filter, hot_job::NAMESPACE)? && fits_task(row, filter, hot_job::TASK, hot_job::COUNT)?;
    if fits { read_hot(row).map(Some) } else { Ok(None) }
}

/// Also what cannot be read, and is left out.
pub(super) fn given_back(
    conn: &Connection,
    namespace: Option<NamespaceId>,
    after: Option<JobKey>,
    until: Timestamp,
    limit: usize,
) -> Result<(Page<HotJob, JobKey>, Vec<Unreadable>), Failure> {
    let low = after.map_or((-1, [0; 16]), |after| (after.due_at.as_micros(), after.id.to_bytes()));
    let mut statement = conn.prepare_cached(sql!("given_back"))?;
    let mut found = statement.query(params![low.0, low.1, until.as_micros(), limit as i64])?;
    let mut page = Page { rows: Vec::new(), next: None };
    let mut unreadable = Vec::new();
    let mut examined = 0;
    while let Some(row) = found.next()? {
        examined += 1;
        let place =
            codec::job_id(row, hot_job::ID).and_then(|id| Ok(JobKey { id, due_at: codec::time(row, hot_job::COUNT)? }));
        let job = place.and_then(|place| {
            page.next = Some(place);
            read_hot(row)
        });
        match job {
            Ok(job) => page.rows.extend(Some(job).filter(|job| is_in(namespace, job))),
            Err(error) => unreadable.push((codec::job_id(row, hot_job::ID).ok(), error)),
        }
    }
    if examined < limit {
        page.next = None;
    }
    Ok((page, unreadable))
}

fn finished(conn: &Connection, filter: &Filter, position: Position) -> Result<Page<FinishedJob>, Failure> {
    let (low, high) = id_range(filter, position);
    let order = match position.order {
        Order::Ascending => "ORDER BY history.id",
        Order::Descending => "ORDER BY history.id DESC",
    };
    // The tracing id; a task of a tenant, or the tenant, so that others are not looked at; the states to merge, when they are
    // few and rare; then the task; then everything.
    let tenant = filter.namespace.and_then(NamespaceId::or_none);
    let unsuccessful = !filter.states.is_empty() && !filter.states.contains(&JobState::Succeeded);
    let (text, selectors): (_, Vec<Value>) = if let Some(tracing_id) = &filter.tracing_id {
        (sql!("list_finished_traced"), vec![Value::Text(tracing_id.clone())])
    } else if let Some(namespace) = tenant
        && filter.task.is_none()
    {
        (sql!("list_finished_of_namespace"), vec![Value::Integer(namespace.into())])
    } else if unsuccessful && tenant.is_none() {
        let mut codes: Vec<_> = filter.states.iter().filter_map(|&state| codes::state_code(state)).collect();
        codes.sort_unstable();
        codes.dedup();
        (sql!("list_finished_in_state"), codes.into_iter().map(|code| Value::Integer(code.into())).collect())
    } else if let Some(task) = filter.task {
        (
            sql!("list_finished_of_task"),
            tasks::known(conn, task)?.iter().map(|known| Value::Integer(known.number)).collect(),
        )
    } else {
        (sql!("list_finished"), vec![Value::Null])
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
        let id = codec::job_id(row, finished_job::ID)?;
        let state_fits = filter.states.is_empty() || filter.states.contains(&codec::state(row, finished_job::STATE)?);
        let fits = state_fits
            && is_of(row, filter, finished_job::NAMESPACE)?
            && fits_task(row, filter, finished_job::TASK, finished_job::COUNT)?;
        Ok(Some((id, if fits { Some(read_finished(row)?) } else { None })))
    };
    Merge { cursors, order: position.order, read }.page(position.limit)
}

/// Sorts before every id.
const NO_ID: [u8; 16] = [0; 16];

type KeyBound = (i64, [u8; 16]);

/// Exclusive bounds of the keys of jobs that are due at their first time.
fn key_range(filter: &Filter, position: Position) -> (KeyBound, KeyBound) {
    let mut low = filter.scheduled_from.map_or((-1, NO_ID), |from| (from.as_micros(), NO_ID));
    let mut high = filter.scheduled_before.map_or((i64::MAX, NO_ID), |before| (before.as_micros(), NO_ID));
    if let Some(after) = position.after {
        let after = (after.due_at().as_micros(), after.to_bytes());
        match position.order {
            Order::Ascending => low = low.max(after),
            Order::Descending => high = high.min(after),
        }
    }
    (low, high)
}

/// Exclusive bounds of ids.
fn id_range(filter: &Filter, position: Position) -> ([u8; 16], [u8; 16]) {
    let first_at = |at: Timestamp| JobId::first_at(at).as_u128();
    let mut low = filter.scheduled_from.map_or(0, |from| first_at(from) - 1);
    let mut high = filter.scheduled_before.map_or(u128::MAX, first_at);
    if let Some(after) = position.after {
        match position.order {
            Order::Ascending => low = low.max(after.as_u128()),
            Order::Descending => high = high.min(after.as_u128()),
        }
    }
    (low.to_be_bytes(), high.to_be_bytes())
}

/// `column` holds the task's id, `kind` and the one after it what the task says.
fn fits_task(row: &Row<'_>, filter: &Filter, column: usize, kind: usize) -> rusqlite::Result<bool> {
    let task_fits = match filter.task {
        Some(wanted) => codec::task_id(row, column)? == wanted,
        None => true,
    };
    Ok(task_fits && says(row, kind, &filter.kind)? && says(row, kind + 1, &filter.queue)?)
}

/// Whether the row is of the namespace that is asked for.
fn is_of(row: &Row<'_>, filter: &Filter, column: usize) -> rusqlite::Result<bool> {
    match filter.namespace {
        Some(wanted) => Ok(codec::namespace(row, column)? == wanted),
        None => Ok(true),
    }
}

fn is_in(namespace: Option<NamespaceId>, job: &HotJob) -> bool {
    namespace.is_none_or(|namespace| namespace == job.namespace)
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
    fn page<T, K: Ord + Copy>(mut self, limit: usize) -> Result<Page<T, K>, Failure>
    where
        R: FnMut(&Row<'_>) -> rusqlite::Result<Option<(K, Option<T>)>>,
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
fn first<T, K: Ord + Copy>(heads: &[Option<(K, T)>], order: Order) -> Option<usize> {
    let keys = heads.iter().enumerate().filter_map(|(place, head)| head.as_ref().map(|(key, _)| (*key, place)));
    let first = match order {
        Order::Ascending => keys.min(),
        Order::Descending => keys.max(),
    };
    first.map(|(_, place)| place)
}
