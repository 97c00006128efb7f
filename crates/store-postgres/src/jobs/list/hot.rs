//! Jobs that wait or run, by id, with the moved ones among the others.

use punctual_core::{JobId, JobKey, Timestamp};
use punctual_store::columns::hot_job;
use punctual_store::{Filter, HotJob, Order, Page, Position, UNREADABLE_NAMED_MAX};
use tokio_postgres::{Row, Statement};

use super::merge::{List, merge, page};
use super::{Bound, NO_ID, Unreadable, fits_task, id_range, is_of, rows_of_each};
use crate::codec::{self, Read, Uuid};
use crate::connection::Conn;
use crate::jobs::record::read_hot;
use crate::pipeline::Step;
use crate::sql;
use crate::trouble::Trouble;

/// Hot jobs by id. Those that are due at their first time are read in the order of the table, which is that of their
/// ids; those that were moved are read by id. The first read meets the moved ones too, and passes them by.
pub(super) struct HotList {
    in_place: Statement,
    moved: Statement,
    shards: usize,
    /// Exclusive bounds of the keys of jobs that are due at their first time.
    keys: (Bound, Bound),
    /// Exclusive bounds of the ids of jobs that were moved.
    ids: (Uuid, Uuid),
    /// How many rows to read of each shard, and how many it may be.
    pub(super) each: usize,
    widest: usize,
    /// How many rows to read of moved jobs.
    of_moved: usize,
}

impl HotList {
    pub(super) async fn prepare(
        conn: &Conn,
        shard_count: u16,
        filter: &Filter,
        position: Position,
    ) -> Result<Self, Trouble> {
        let (in_place, moved) = match position.order {
            Order::Ascending => (sql!("list_hot"), sql!("list_moved")),
            Order::Descending => (sql!("list_hot_backwards"), sql!("list_moved_backwards")),
        };
        let shards = usize::from(shard_count);
        // Where there is one namespace, all jobs are of it. If not, a page that is not full is read again.
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

    pub(super) fn steps(&self) -> Vec<Step> {
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
    pub(super) fn page(
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
            let raw: Uuid = codec::value(row, hot_job::ID)?;
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
        let last = examined.last().map(|(id, _)| *id);
        let page = page(examined, end.is_some(), position.limit);
        // Jobs that were moved, or that are of other namespaces, took the place of others.
        if page.next.is_some() && page.next == last && self.each < self.widest {
            self.each = self.widest;
            return Ok(None);
        }
        Ok(Some(page))
    }

    /// Goes on after the end of a list in which there is nothing that can be read.
    fn pass(&mut self, answers: &[Vec<Row>], list: usize, order: Order) -> Result<(), Trouble> {
        if list == self.shards {
            let end = answers[1].last().map(|row| codec::value(row, hot_job::ID)).transpose()?.unwrap_or(NO_ID);
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
pub(super) fn by_shard(rows: &[Row], shards: usize) -> Result<Vec<Vec<&Row>>, Trouble> {
    let mut lists: Vec<Vec<_>> = (0..shards).map(|_| Vec::new()).collect();
    for row in rows {
        let shard = codec::value::<i16>(row, hot_job::COUNT + 2)?;
        let list = usize::try_from(shard).ok().and_then(|shard| lists.get_mut(shard));
        list.ok_or_else(|| Trouble::inconsistent(format!("nobody asked for shard {shard}")))?.push(row);
    }
    Ok(lists)
}

pub(super) fn bound(row: &Row) -> Read<Bound> {
    Ok((codec::value(row, hot_job::DUE_AT)?, codec::value(row, hot_job::ID)?))
}

/// A job's id, or how far the list has come with it, and the job if it belongs into the list and can be read. `None` if
/// even the id cannot be read.
pub(super) type Found = Option<(JobId, Option<HotJob>)>;

/// Also where the row stands among the ids of others.
fn examine_in_place(
    row: &Row,
    filter: &Filter,
    position: Position,
    unreadable: &mut Vec<Unreadable>,
) -> Read<(u128, Found)> {
    if !codec::value::<bool>(row, hot_job::COUNT + 3)? {
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

pub(super) fn read_key(row: &Row) -> Read<JobKey> {
    Ok(JobKey { id: codec::job_id(row, hot_job::ID)?, due_at: codec::time(row, hot_job::DUE_AT)? })
}

pub(super) fn examine_hot(row: &Row, filter: &Filter, unreadable: &mut Vec<Unreadable>) -> Found {
    let key = read_key(row).map_err(|error| leave_out(unreadable, None, error)).ok()?;
    let is_of = is_of(row, filter, hot_job::NAMESPACE);
    let fits = is_of.and_then(|is_of| Ok(is_of && fits_task(row, filter, hot_job::TASK, hot_job::COUNT)?));
    let job = fits.and_then(|fits| if fits { read_hot(row).map(Some) } else { Ok(None) });
    Some((key.id, job.map_err(|error| leave_out(unreadable, Some(key.id), error)).ok().flatten()))
}

pub(super) fn leave_out(unreadable: &mut Vec<Unreadable>, id: Option<JobId>, error: Trouble) {
    if unreadable.len() < UNREADABLE_NAMED_MAX {
        unreadable.push((id, error));
    }
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
