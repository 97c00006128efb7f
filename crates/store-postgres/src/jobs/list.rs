//! Lists of jobs, in pages. A page ends when it is full or when so many rows were
//! examined that a filter which matches little would hold a connection too long.

mod due;
mod finished;
mod hot;
mod merge;

use punctual_core::{JobId, NamespaceId, Timestamp};
use punctual_store::{Filter, HotJob, JobPages, Order, Page, Position};
use tokio_postgres::{Error, Row};

pub(super) use self::due::{due, given_back};
use self::finished::FinishedList;
use self::hot::{HotList, examine_hot};
use self::merge::page;
use crate::codec::{self, Read, Uuid};
use crate::connection::Conn;
use crate::link::Borrowed;
use crate::pipeline::{Param, Pipeline, Step};
use crate::sql;
use crate::trouble::Trouble;

/// About 50 ms of reading.
const EXAMINED_MAX: usize = 10_000;

/// A key as it is in the table, where it may be none.
type Bound = (i64, Uuid);

/// Sorts before every id.
const NO_ID: Uuid = Uuid([0; 16]);

/// The job, if even that can be read, and what is wrong with it.
pub(super) type Unreadable = (Option<JobId>, Trouble);

/// Reads of one page that may find nothing but ids that are none. Then the list is refused: an end that is not the end
/// would hide the jobs behind it.
const READS_MAX: usize = 64;

/// A page of each table, and what cannot be read and is left out.
pub(super) async fn jobs(
    conn: &Borrowed<'_>,
    shard_count: u16,
    filter: &Filter,
    position: Position,
) -> Result<(JobPages, Vec<Unreadable>), Trouble> {
    let mut finished = FinishedList::prepare(conn, filter, position).await?;
    let mut unreadable = Vec::new();
    let tenant = filter.namespace.and_then(NamespaceId::or_none);
    let mut hot = match filter.tables.has_hot() && filter.tracing_id.is_none() && tenant.is_none() {
        true => Some(HotList::prepare(conn, shard_count, filter, position).await?),
        false => None,
    };
    let is_narrowed = filter.task.is_some() || filter.kind.is_some() || filter.queue.is_some();
    let filters = is_narrowed || (filter.tracing_id.is_some() && filter.namespace.is_some());
    let each = rows_of_each(1, filters, position.limit);
    for _ in 0..READS_MAX {
        unreadable.clear();
        let mut steps = match &hot {
            Some(hot) => hot.steps(),
            None if filter.tables.has_hot() => vec![indexed(conn, filter, position, each).await?],
            None => Vec::new(),
        };
        let hot_steps = steps.len();
        steps.extend(finished.steps(filter, position));
        let mut rows = snapshot(conn, steps).await?;
        let rest = rows.split_off(hot_steps);
        let of_hot = match &mut hot {
            Some(hot) => hot.page(&rows, filter, position, &mut unreadable)?,
            None => Some(rows.first().map_or(Page::EMPTY, |rows| {
                let examined = rows.iter().filter_map(|row| examine_hot(row, filter, &mut unreadable)).collect();
                page(examined, rows.len() >= each, position.limit)
            })),
        };
        let of_history = finished.page(&rest, filter, position)?;
        if let (Some(hot), Some(of_history)) = (of_hot, of_history) {
            return Ok((JobPages { hot, finished: of_history }, unreadable));
        }
    }
    let each = hot.map_or(each, |hot| hot.each);
    Err(Trouble::inconsistent(format!("{} jobs in a row have ids that cannot be read", READS_MAX * each)))
}

/// Hot jobs with one tracing id, or of one namespace other than the default one. They have an index in order of id, so that
/// moved ones need no list of their own.
async fn indexed(conn: &Conn, filter: &Filter, position: Position, each: usize) -> Result<Step, Trouble> {
    let text = match (&filter.tracing_id, position.order) {
        (Some(_), Order::Ascending) => sql!("list_hot_traced"),
        (Some(_), Order::Descending) => sql!("list_hot_traced_backwards"),
        (None, Order::Ascending) => sql!("list_hot_of_namespace"),
        (None, Order::Descending) => sql!("list_hot_of_namespace_backwards"),
    };
    let (low, high) = id_range(filter, position);
    let selector: Param = match &filter.tracing_id {
        Some(tracing_id) => Box::new(tracing_id.clone()),
        None => Box::new(filter.namespace.and_then(codec::namespace_or_none)),
    };
    let params: Vec<Param> = vec![Box::new(low), Box::new(high), Box::new(each as i64), selector];
    Ok(Step::Prepared(conn.prepare(text).await?, params))
}

/// The answers to all of the questions, in one round trip and from one snapshot.
async fn snapshot(conn: &Borrowed<'_>, questions: Vec<Step>) -> Result<Vec<Vec<Row>>, Trouble> {
    let mut steps = vec![Step::Plain("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")];
    steps.extend(questions);
    steps.push(Step::Plain("COMMIT"));
    let answers = conn.within_limit(async { Ok::<_, Trouble>(Pipeline::new(conn.shared(), steps).await) }).await?;
    let mut answers = answers.into_iter().collect::<Result<Vec<_>, Error>>()?;
    answers.pop();
    answers.remove(0);
    Ok(answers)
}

/// How many rows to read of each list, so that together they are not too many. One more than the
/// page has tells whether there is another.
fn rows_of_each(lists: usize, filters: bool, limit: usize) -> usize {
    let most = (EXAMINED_MAX / lists.max(1)).max(1);
    if filters { most } else { most.min(limit.max(1).saturating_add(1)) }
}

/// Exclusive bounds of ids.
fn id_range(filter: &Filter, position: Position) -> (Uuid, Uuid) {
    let first_at = |at: Timestamp| JobId::first_at(at).as_u128();
    let mut low = filter.scheduled_from.map_or(0, |from| first_at(from) - 1);
    let mut high = filter.scheduled_before.map_or(u128::MAX, first_at);
    if let Some(after) = position.after {
        match position.order {
            Order::Ascending => low = low.max(after.as_u128()),
            Order::Descending => high = high.min(after.as_u128()),
        }
    }
    (Uuid(low.to_be_bytes()), Uuid(high.to_be_bytes()))
}

/// Whether the row is of the namespace that is asked for.
fn is_of(row: &Row, filter: &Filter, column: usize) -> Read<bool> {
    match filter.namespace {
        Some(wanted) => Ok(codec::namespace(row, column)? == wanted),
        None => Ok(true),
    }
}

fn is_in(namespace: Option<NamespaceId>, job: &HotJob) -> bool {
    namespace.is_none_or(|namespace| namespace == job.namespace)
}

/// `column` holds the task's id, `kind` and the one after it what the task says.
fn fits_task(row: &Row, filter: &Filter, column: usize, kind: usize) -> Read<bool> {
    let task_fits = match filter.task {
        Some(wanted) => codec::task_id(row, column)? == wanted,
        None => true,
    };
    Ok(task_fits && says(row, kind, &filter.kind)? && says(row, kind + 1, &filter.queue)?)
}

fn says(row: &Row, column: usize, wanted: &Option<String>) -> Read<bool> {
    match wanted {
        Some(wanted) => Ok(codec::value::<&str>(row, column)? == wanted),
        None => Ok(true),
    }
}
