//! Lists of jobs, in pages. A page ends when it is full or when so many rows were
//! examined that a filter which matches little would hold a connection too long.

use std::cmp::Ordering;

use punctual_core::{JobId, JobKey, JobState, Timestamp};
use punctual_store::{Filter, FinishedJob, HotJob, Order, Page, Position, UNREADABLE_NAMED_MAX};
use tokio_postgres::Row;

use super::record::{read_finished, read_hot};
use crate::codec::{self, Read, Uuid};
use crate::connection::Conn;
use crate::sql;
use crate::trouble::Trouble;

/// About 50 ms of reading.
const EXAMINED_MAX: usize = 10_000;

type Bound = (i64, Uuid);

/// Sorts before every id.
const NO_ID: Uuid = Uuid([0; 16]);

/// The job, if even that can be read, and what is wrong with it.
pub(super) type Unreadable = (Option<JobId>, Trouble);

/// Reads of one page that may find nothing but ids that are none. Then the list is refused: an end that is not the end
/// would hide the jobs behind it.
const READS_MAX: usize = 64;

/// Also what cannot be read, and is left out.
pub(super) async fn hot(
    conn: &Conn,
    shard_count: u16,
    filter: &Filter,
    position: Position,
) -> Result<(Page<HotJob>, Vec<Unreadable>), Trouble> {
    // Bounds are exclusive keys.
    let mut low: Bound = filter.due_from.map_or((-1, NO_ID), |from| (from.as_micros(), NO_ID));
    let mut high: Bound = filter.due_before.map_or((i64::MAX, NO_ID), |before| (before.as_micros(), NO_ID));
    if let Some(after) = position.after {
        let after = (after.due_at.as_micros(), Uuid::from(after.id));
        match position.order {
            Order::Ascending => low = low.max(after),
            Order::Descending => high = high.min(after),
        }
    }
    let text = match position.order {
        Order::Ascending => sql!("list_hot"),
        Order::Descending => sql!("list_hot_backwards"),
    };
    let shards = usize::from(shard_count);
    let filters = filter.task.is_some() || filter.kind.is_some() || filter.queue.is_some();
    let mut each = rows_of_each(shards, filters, position.limit);
    let mut unreadable = Vec::new();
    for _ in 0..READS_MAX {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&i32::from(shard_count), &low.0, &low.1, &high.0, &high.1, &(each as i64)];
        let rows = conn.query(text, &params).await?;
        let mut lists: Vec<Vec<_>> = (0..shards).map(|_| Vec::new()).collect();
        for row in &rows {
            let shard = codec::value::<i16>(row, 14)?;
            let list = usize::try_from(shard).ok().and_then(|shard| lists.get_mut(shard));
            let list = list.ok_or_else(|| Trouble::inconsistent(format!("nobody asked for shard {shard}")))?;
            let place: Bound = (codec::value(row, 1)?, codec::value(row, 0)?);
            list.push((place, examine_hot(row, filter, &mut unreadable)));
        }
        let (examined, end) = merge(lists, each, position.order);
        let examined: Vec<_> = examined.into_iter().filter_map(|(_, found)| found).collect();
        match end {
            // A page cannot say that the next one begins at an id that is none.
            Some(end) if examined.is_empty() => match position.order {
                Order::Ascending => low = end,
                Order::Descending => high = end,
            },
            Some(_) | None => return Ok((page(examined, end.is_some(), position.limit), unreadable)),
        }
        each = rows_of_each(shards, true, position.limit);
    }
    Err(Trouble::inconsistent(format!("{} jobs in a row have ids that cannot be read", READS_MAX * each)))
}

/// A job's key, and the job if it belongs into the list and can be read. `None` if even the key cannot be read.
fn examine_hot(row: &Row, filter: &Filter, unreadable: &mut Vec<Unreadable>) -> Option<(JobKey, Option<HotJob>)> {
    let mut leave_out = |id: Option<JobId>, error: Trouble| {
        if unreadable.len() < UNREADABLE_NAMED_MAX {
            unreadable.push((id, error));
        }
    };
    let key = codec::job_id(row, 0).and_then(|id| Ok(JobKey { id, due_at: codec::time(row, 1)? }));
    let key = key.map_err(|error| leave_out(None, error)).ok()?;
    let fits = fits_task(row, filter, 2, 12);
    let job = fits.and_then(|fits| if fits { read_hot(row).map(Some) } else { Ok(None) });
    Some((key, job.map_err(|error| leave_out(Some(key.id), error)).ok().flatten()))
}

/// Also what cannot be read, and is left out.
pub(super) async fn given_back(
    conn: &Conn,
    after: Option<JobKey>,
    until: Timestamp,
    limit: usize,
) -> Result<(Page<HotJob>, Vec<Unreadable>), Trouble> {
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

pub(super) async fn finished(conn: &Conn, filter: &Filter, position: Position) -> Result<Page<FinishedJob>, Trouble> {
    let (low, high) = id_range(filter, position);
    // The states to merge, when they are few and rare; then the task; then everything.
    let unsuccessful = !filter.states.is_empty() && !filter.states.contains(&JobState::Succeeded);
    let mut filters = filter.kind.is_some() || filter.queue.is_some();
    let (texts, selectors): ([&str; 2], Vec<Option<i64>>) = if unsuccessful {
        filters |= filter.task.is_some();
        let mut codes: Vec<_> = filter.states.iter().filter_map(|&state| codec::state_code(state)).collect();
        codes.sort_unstable();
        codes.dedup();
        let codes = codes.into_iter().map(|code| Some(i64::from(code))).collect();
        ([sql!("list_finished_in_state"), sql!("list_finished_in_state_backwards")], codes)
    } else if let Some(task) = filter.task {
        filters |= !filter.states.is_empty();
        let known = conn.query(sql!("task_numbers"), &[&vec![Uuid::from(task)]]).await?;
        let numbers = known.iter().map(|row| codec::value(row, 1).map(Some)).collect::<Read<_>>()?;
        ([sql!("list_finished_of_task"), sql!("list_finished_of_task_backwards")], numbers)
    } else {
        filters |= !filter.states.is_empty();
        ([sql!("list_finished"), sql!("list_finished_backwards")], vec![None])
    };
    let text = match position.order {
        Order::Ascending => texts[0],
        Order::Descending => texts[1],
    };
    let each = rows_of_each(selectors.len(), filters, position.limit);
    let mut lists = Vec::with_capacity(selectors.len());
    for selector in selectors {
        let limit = each as i64;
        let rows = match selector {
            None => conn.query(text, &[&low, &high, &limit]).await?,
            Some(code) if unsuccessful => conn.query(text, &[&low, &high, &limit, &(code as i16)]).await?,
            Some(task) => conn.query(text, &[&low, &high, &limit, &task]).await?,
        };
        lists.push(rows.iter().map(|row| examine_finished(row, filter)).collect::<Read<Vec<_>>>()?);
    }
    let (examined, end) = merge(lists, each, position.order);
    Ok(page(examined, end.is_some(), position.limit))
}

fn examine_finished(row: &Row, filter: &Filter) -> Read<(JobKey, Option<FinishedJob>)> {
    let key = JobKey::original(codec::job_id(row, 0)?);
    let state_fits = filter.states.is_empty() || filter.states.contains(&codec::state(row, 8)?);
    let fits = state_fits && fits_task(row, filter, 1, 13)?;
    Ok((key, if fits { Some(read_finished(row)?) } else { None }))
}

/// How many rows to read of each list, so that together they are not too many. One more than the
/// page has tells whether there is another.
fn rows_of_each(lists: usize, filters: bool, limit: usize) -> usize {
    let most = (EXAMINED_MAX / lists.max(1)).max(1);
    if filters { most } else { most.min(limit.max(1).saturating_add(1)) }
}

/// Exclusive bounds of ids. Finished jobs are listed by their first due time.
fn id_range(filter: &Filter, position: Position) -> (Uuid, Uuid) {
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
    (Uuid(low.to_be_bytes()), Uuid(high.to_be_bytes()))
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

/// Several lists, each in order and of at most `each` rows, as one; and where it ends, if any of them was cut: behind
/// the end of that list there may be rows that come before those of the others.
fn merge<K: Ord + Copy, T>(lists: Vec<Vec<(K, T)>>, each: usize, order: Order) -> (Vec<(K, T)>, Option<K>) {
    let is_before = |one: K, other: K| match order {
        Order::Ascending => one < other,
        Order::Descending => one > other,
    };
    let ends = lists.iter().filter(|list| list.len() >= each).filter_map(|list| list.last()).map(|(key, _)| *key);
    let end = ends.reduce(|one, other| if is_before(other, one) { other } else { one });
    let mut merged: Vec<_> = lists.into_iter().flatten().collect();
    merged.retain(|(key, _)| end.is_none_or(|end| !is_before(end, *key)));
    merged.sort_by_key(|(key, _)| *key);
    if order == Order::Descending {
        merged.reverse();
    }
    (merged, end)
}

/// A row is a key, and what it stands for if it belongs into the list.
fn page<T>(examined: Vec<(JobKey, Option<T>)>, is_cut: bool, limit: usize) -> Page<T> {
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

    fn key(n: i64) -> JobKey {
        JobKey::original(JobId::new(Timestamp::from_micros(n).unwrap(), ShardId(0), 0))
    }

    fn list(numbers: &[i64]) -> Vec<(JobKey, Option<i64>)> {
        // Odd ones do not fit.
        numbers.iter().map(|&n| (key(n), (n % 2 == 0).then_some(n))).collect()
    }

    #[track_caller]
    fn check(lists: &[&[i64]], each: usize, order: Order, limit: usize, rows: &[i64], next: Option<i64>) {
        let lists = lists.iter().map(|numbers| list(numbers)).collect();
        let (examined, end) = merge(lists, each, order);
        let page = page(examined, end.is_some(), limit);
        assert_eq!((page.rows, page.next), (rows.to_vec(), next.map(key)));
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
