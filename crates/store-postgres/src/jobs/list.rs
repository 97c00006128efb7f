//! Lists of jobs, in pages. A page ends when it is full or when so many rows were
//! examined that a filter which matches little would hold a connection too long.

mod finished;

use punctual_core::{JobId, JobKey, Timestamp};
use punctual_store::{DueWindow, Filter, HotJob, JobPages, Order, Page, Position, UNREADABLE_NAMED_MAX};
use tokio_postgres::{Error, Row, Statement};

use self::finished::FinishedList;
use super::record::read_hot;
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
    let finished = FinishedList::prepare(conn, filter, position).await?;
    if !filter.tables.has_hot() {
        let rows = snapshot(conn, finished.steps(filter, position)).await?;
        return Ok((JobPages { hot: Page::EMPTY, finished: finished.page(&rows, filter, position)? }, Vec::new()));
    }
    let mut unreadable = Vec::new();
    if let Some(tracing_id) = &filter.tracing_id {
        let filters = filter.task.is_some() || filter.kind.is_some() || filter.queue.is_some();
        let each = rows_of_each(1, filters, position.limit);
        let mut steps = vec![traced(conn, tracing_id, filter, position, each).await?];
        steps.extend(finished.steps(filter, position));
        let mut rows = snapshot(conn, steps).await?;
        let rest = rows.split_off(1);
        let examined: Vec<_> = rows[0].iter().filter_map(|row| examine_hot(row, filter, &mut unreadable)).collect();
        let hot = page(examined, rows[0].len() >= each, position.limit);
        return Ok((JobPages { hot, finished: finished.page(&rest, filter, position)? }, unreadable));
    }
    let mut hot = HotList::prepare(conn, shard_count, filter, position).await?;
    for _ in 0..READS_MAX {
        let mut steps = hot.steps();
        steps.extend(finished.steps(filter, position));
        let mut rows = snapshot(conn, steps).await?;
        let rest = rows.split_off(HotList::STEPS);
        if let Some(page) = hot.page(&rows, filter, position, &mut unreadable)? {
            let finished = finished.page(&rest, filter, position)?;
            return Ok((JobPages { hot: page, finished }, unreadable));
        }
    }
    Err(Trouble::inconsistent(format!("{} jobs in a row have ids that cannot be read", READS_MAX * hot.each)))
}

/// Hot jobs with one tracing id. They have an index in order of id, so that moved ones need no list of their own.
async fn traced(
    conn: &Conn,
    tracing_id: &str,
    filter: &Filter,
    position: Position,
    each: usize,
) -> Result<Step, Trouble> {
    let text = match position.order {
        Order::Ascending => sql!("list_hot_traced"),
        Order::Descending => sql!("list_hot_traced_backwards"),
    };
    let (low, high) = id_range(filter, position);
    let params: Vec<Param> =
        vec![Box::new(low), Box::new(high), Box::new(each as i64), Box::new(tracing_id.to_owned())];
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

/// Hot jobs by id. Those that are due at their first time are read in the order of the table, which is that of their
/// ids; those that were moved are read by id. The first read meets the moved ones too, and passes them by.
struct HotList {
    in_place: Statement,
    moved: Statement,
    shards: usize,
    /// Exclusive bounds of the keys of jobs that are due at their first time.
    keys: (Bound, Bound),
    /// Exclusive bounds of the ids of jobs that were moved.
    ids: (Uuid, Uuid),
    /// How many rows to read of each shard, and how many it may be.
    each: usize,
    widest: usize,
    /// How many rows to read of moved jobs.
    of_moved: usize,
}

impl HotList {
    const STEPS: usize = 2;

    async fn prepare(conn: &Conn, shard_count: u16, filter: &Filter, position: Position) -> Result<Self, Trouble> {
        let (in_place, moved) = match position.order {
            Order::Ascending => (sql!("list_hot"), sql!("list_moved")),
            Order::Descending => (sql!("list_hot_backwards"), sql!("list_moved_backwards")),
        };
        let shards = usize::from(shard_count);
        let filters = filter.task.is_some() || filter.kind.is_some() || filter.queue.is_some();
        Ok(Self {
            in_place: conn.prepare(in_place).await?,
            moved: conn.prepare(moved).await?,
            shards,
            keys: key_range(filter, position),
            ids: id_range(filter, position),
            each: rows_of_each(shards, filters, position.limit),
            widest: rows_of_each(shards, true, position.limit),
            of_moved: rows_of_each(1, filters, position.limit),
        })
    }

    fn steps(&self) -> Vec<Step> {
        let (low, high) = self.keys;
        vec![
            Step::Prepared(
                self.in_place.clone(),
                vec![
                    Box::new(self.shards as i32),
                    Box::new(low.0),
                    Box::new(low.1),
                    Box::new(high.0),
                    Box::new(high.1),
                    Box::new(self.each as i64),
                ],
            ),
            Step::Prepared(
                self.moved.clone(),
                vec![Box::new(self.ids.0), Box::new(self.ids.1), Box::new(self.of_moved as i64)],
            ),
        ]
    }

    /// `None`: the read has to be repeated, as it is set now.
    fn page(
        &mut self,
        answers: &[Vec<Row>],
        filter: &Filter,
        position: Position,
        unreadable: &mut Vec<Unreadable>,
    ) -> Result<Option<Page<HotJob>>, Trouble> {
        let mut lists: Vec<List<_>> = Vec::with_capacity(self.shards + 1);
        for rows in by_shard(&answers[0], self.shards)? {
            lists.push(List { is_cut: rows.len() >= self.each, rows: Vec::with_capacity(rows.len()) });
            let list = lists.last_mut().expect("it was just added");
            for row in rows {
                list.rows.push(examine_in_place(row, filter, position, unreadable)?);
            }
        }
        let moved = answers[1].iter().map(|row| {
            let raw: Uuid = codec::value(row, 0)?;
            Ok((u128::from_be_bytes(raw.0), examine_hot(row, filter, unreadable)))
        });
        lists.push(List { is_cut: answers[1].len() >= self.of_moved, rows: moved.collect::<Read<_>>()? });
        let (examined, end) = merge(lists, position.order);
        let examined: Vec<_> = examined.into_iter().filter_map(|(_, found)| found).collect();
        if let Some((_, list)) = end.filter(|_| examined.is_empty()) {
            // A page cannot say that the next one begins at an id that is none.
            self.pass(answers, list, position.order)?;
            self.each = self.widest;
            return Ok(None);
        }
        let page = page(examined, end.is_some(), position.limit);
        // Jobs that were moved took the place of others.
        if page.next.is_some() && page.rows.len() < position.limit && self.each < self.widest {
            self.each = self.widest;
            return Ok(None);
        }
        Ok(Some(page))
    }

    /// Goes on after the end of a list in which there is nothing that can be read.
    fn pass(&mut self, answers: &[Vec<Row>], list: usize, order: Order) -> Result<(), Trouble> {
        if list == self.shards {
            let end = answers[1].last().map(|row| codec::value(row, 0)).transpose()?.unwrap_or(NO_ID);
            match order {
                Order::Ascending => self.ids.0 = end,
                Order::Descending => self.ids.1 = end,
            }
            return Ok(());
        }
        let end = by_shard(&answers[0], self.shards)?[list].last().map(|row| bound(row)).transpose()?;
        let end = end.unwrap_or((-1, NO_ID));
        match order {
            Order::Ascending => self.keys.0 = end,
            Order::Descending => self.keys.1 = end,
        }
        Ok(())
    }
}

/// Rows of `list_hot` as they were asked for.
fn by_shard(rows: &[Row], shards: usize) -> Result<Vec<Vec<&Row>>, Trouble> {
    let mut lists: Vec<Vec<_>> = (0..shards).map(|_| Vec::new()).collect();
    for row in rows {
        let shard = codec::value::<i16>(row, 14)?;
        let list = usize::try_from(shard).ok().and_then(|shard| lists.get_mut(shard));
        list.ok_or_else(|| Trouble::inconsistent(format!("nobody asked for shard {shard}")))?.push(row);
    }
    Ok(lists)
}

fn bound(row: &Row) -> Read<Bound> {
    Ok((codec::value(row, 1)?, codec::value(row, 0)?))
}

/// A job's id, or how far the list has come with it, and the job if it belongs into the list and can be read. `None` if
/// even the id cannot be read.
type Found = Option<(JobId, Option<HotJob>)>;

/// Also where the row stands among the ids of others.
fn examine_in_place(
    row: &Row,
    filter: &Filter,
    position: Position,
    unreadable: &mut Vec<Unreadable>,
) -> Read<(u128, Found)> {
    if !codec::value::<bool>(row, 15)? {
        let found = examine_hot(row, filter, unreadable);
        return match found {
            Some((id, _)) => Ok((id.as_u128(), found)),
            None => Ok((place(bound(row)?), None)),
        };
    }
    match read_key(row) {
        Ok(key) => {
            let reached = position.reached(key);
            Ok((reached.as_u128(), Some((reached, None))))
        }
        // The other read tells of it.
        Err(_) => Ok((place(bound(row)?), None)),
    }
}

/// Where a row stands whose key cannot be read.
fn place((due_at, id): Bound) -> u128 {
    let due_at = Timestamp::saturating_from_micros(due_at);
    let (first, last) = (JobId::first_at(due_at), JobId::last_at(due_at));
    u128::from_be_bytes(id.0).clamp(first.as_u128(), last.as_u128())
}

fn read_key(row: &Row) -> Read<JobKey> {
    Ok(JobKey { id: codec::job_id(row, 0)?, due_at: codec::time(row, 1)? })
}

fn examine_hot(row: &Row, filter: &Filter, unreadable: &mut Vec<Unreadable>) -> Found {
    let key = read_key(row).map_err(|error| leave_out(unreadable, None, error)).ok()?;
    let fits = fits_task(row, filter, 2, 12);
    let job = fits.and_then(|fits| if fits { read_hot(row).map(Some) } else { Ok(None) });
    Some((key.id, job.map_err(|error| leave_out(unreadable, Some(key.id), error)).ok().flatten()))
}

fn leave_out(unreadable: &mut Vec<Unreadable>, id: Option<JobId>, error: Trouble) {
    if unreadable.len() < UNREADABLE_NAMED_MAX {
        unreadable.push((id, error));
    }
}

/// Also what cannot be read, and is left out.
pub(super) async fn due(
    conn: &Conn,
    shard_count: u16,
    window: DueWindow,
    limit: usize,
) -> Result<(Page<HotJob, JobKey>, Vec<Unreadable>), Trouble> {
    let after = window.after.map(|key| (key.due_at.as_micros(), Uuid::from(key.id)));
    let mut low: Bound = (window.from.as_micros(), NO_ID).max(after.unwrap_or((-1, NO_ID)));
    let high = window.before.as_micros();
    let shards = usize::from(shard_count);
    let mut each = rows_of_each(shards, false, limit);
    let mut unreadable = Vec::new();
    for _ in 0..READS_MAX {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&i32::from(shard_count), &low.0, &low.1, &high, &NO_ID, &(each as i64)];
        let rows = conn.query(sql!("list_hot"), &params).await?;
        let mut lists = Vec::with_capacity(shards);
        for rows in by_shard(&rows, shards)? {
            let is_cut = rows.len() >= each;
            let examine = |row| Ok((bound(row)?, examine_due(row, &mut unreadable)));
            lists.push(List { is_cut, rows: rows.into_iter().map(examine).collect::<Read<_>>()? });
        }
        let (examined, end) = merge(lists, Order::Ascending);
        let examined: Vec<_> = examined.into_iter().filter_map(|(_, found)| found).collect();
        match end {
            // A page cannot say that the next one begins at an id that is none.
            Some((end, _)) if examined.is_empty() => low = end,
            Some(_) | None => return Ok((page(examined, end.is_some(), limit), unreadable)),
        }
        each = rows_of_each(shards, true, limit);
    }
    Err(Trouble::inconsistent(format!("{} jobs in a row have ids that cannot be read", READS_MAX * each)))
}

fn examine_due(row: &Row, unreadable: &mut Vec<Unreadable>) -> Option<(JobKey, Option<HotJob>)> {
    let key = read_key(row).map_err(|error| leave_out(unreadable, None, error)).ok()?;
    Some((key, read_hot(row).map_err(|error| leave_out(unreadable, Some(key.id), error)).ok()))
}

/// Also what cannot be read, and is left out.
pub(super) async fn given_back(
    conn: &Conn,
    after: Option<JobKey>,
    until: Timestamp,
    limit: usize,
) -> Result<(Page<HotJob, JobKey>, Vec<Unreadable>), Trouble> {
    let low: Bound = after.map_or((-1, NO_ID), |after| (after.due_at.as_micros(), after.id.into()));
    let found = conn.query(sql!("given_back"), &[&low.0, &low.1, &until.as_micros(), &(limit as i64)]).await?;
    let mut page = Page { rows: Vec::new(), next: None };
    let mut unreadable = Vec::new();
    for row in &found {
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
    if found.len() < limit {
        page.next = None;
    }
    Ok((page, unreadable))
}

/// How many rows to read of each list, so that together they are not too many. One more than the
/// page has tells whether there is another.
fn rows_of_each(lists: usize, filters: bool, limit: usize) -> usize {
    let most = (EXAMINED_MAX / lists.max(1)).max(1);
    if filters { most } else { most.min(limit.max(1).saturating_add(1)) }
}

/// Exclusive bounds of the keys of jobs that are due at their first time.
fn key_range(filter: &Filter, position: Position) -> (Bound, Bound) {
    let mut low: Bound = filter.scheduled_from.map_or((-1, NO_ID), |from| (from.as_micros(), NO_ID));
    let mut high: Bound = filter.scheduled_before.map_or((i64::MAX, NO_ID), |before| (before.as_micros(), NO_ID));
    if let Some(after) = position.after {
        let after = (after.due_at().as_micros(), Uuid::from(after));
        match position.order {
            Order::Ascending => low = low.max(after),
            Order::Descending => high = high.min(after),
        }
    }
    (low, high)
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

/// Rows in order, with where each stands.
struct List<T, K = u128> {
    rows: Vec<(K, T)>,
    /// There may be more behind them.
    is_cut: bool,
}

/// The rows of several lists, and where they end, with the place of the list that was cut there.
type Merged<T, K> = (Vec<(K, T)>, Option<(K, usize)>);

/// Several lists as one; and where it ends, if any of them was cut, and which of them that was: behind the end of that
/// list there may be rows that come before those of the others.
fn merge<K: Ord + Copy, T>(lists: Vec<List<T, K>>, order: Order) -> Merged<T, K> {
    let is_before = |one: K, other: K| match order {
        Order::Ascending => one < other,
        Order::Descending => one > other,
    };
    let cut = lists.iter().enumerate().filter(|(_, list)| list.is_cut);
    let ends = cut.filter_map(|(place, list)| Some((list.rows.last()?.0, place)));
    let end = ends.reduce(|one, other| if is_before(other.0, one.0) { other } else { one });
    let mut merged: Vec<_> = lists.into_iter().flat_map(|list| list.rows).collect();
    merged.retain(|(key, _)| end.is_none_or(|(end, _)| !is_before(end, *key)));
    merged.sort_by_key(|(key, _)| *key);
    if order == Order::Descending {
        merged.reverse();
    }
    (merged, end)
}

/// A row is a key, and what it stands for if it belongs into the list.
fn page<T, K: Copy>(examined: Vec<(K, Option<T>)>, is_cut: bool, limit: usize) -> Page<T, K> {
    let limit = limit.max(1);
    let last_examined = examined.last().map(|(key, _)| *key);
    let mut rows = Vec::new();
    let mut last_listed = None;
    for (key, found) in examined {
        let Some(found) = found else { continue };
        // Only the row after the last tells that there is a next page.
        if rows.len() == limit {
            return Page { rows, next: last_listed };
        }
        rows.push(found);
        last_listed = Some(key);
    }
    Page { rows, next: last_examined.filter(|_| is_cut) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_core::ShardId;

    fn id(n: i64) -> JobId {
        JobId::new(Timestamp::from_micros(n).unwrap(), ShardId(0), 0)
    }

    fn list(numbers: &[i64], each: usize) -> List<Option<i64>, JobId> {
        // Odd ones do not fit.
        let rows = numbers.iter().map(|&n| (id(n), (n % 2 == 0).then_some(n))).collect();
        List { rows, is_cut: numbers.len() >= each }
    }

    #[track_caller]
    fn check(lists: &[&[i64]], each: usize, order: Order, limit: usize, rows: &[i64], next: Option<i64>) {
        let lists = lists.iter().map(|numbers| list(numbers, each)).collect();
        let (examined, end) = merge(lists, order);
        let page = page(examined, end.is_some(), limit);
        assert_eq!((page.rows, page.next), (rows.to_vec(), next.map(id)));
    }

    #[test]
    fn lists_are_merged_as_far_as_all_of_them_were_read() {
        check(&[&[2, 8], &[4, 6]], 9, Order::Ascending, 9, &[2, 4, 6, 8], None);
        check(&[&[2, 8], &[4, 6]], 2, Order::Ascending, 9, &[2, 4, 6], Some(6));
        check(&[&[8, 2], &[6, 4]], 2, Order::Descending, 9, &[8, 6, 4], Some(4));
        check(&[&[2, 8], &[4, 6]], 9, Order::Ascending, 2, &[2, 4], Some(4));
        check(&[&[2, 3, 5], &[]], 3, Order::Ascending, 1, &[2], Some(5));
        check(&[&[1, 3], &[]], 2, Order::Ascending, 1, &[], Some(3));
        check(&[], 2, Order::Ascending, 1, &[], None);
    }
}
