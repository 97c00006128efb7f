//! Jobs that are due, and jobs that workers gave back, in the order of their due times.

use punctual_core::{JobKey, NamespaceId, Timestamp};
use punctual_store::columns::hot_job;
use punctual_store::{DueWindow, HotJob, Order, Page};
use tokio_postgres::Row;

use super::hot::{bound, by_shard, leave_out, read_key};
use super::merge::{List, merge, page};
use super::{Bound, NO_ID, READS_MAX, Unreadable, is_in, rows_of_each};
use crate::codec::{self, Read, Uuid};
use crate::connection::Conn;
use crate::jobs::record::read_hot;
use crate::sql;
use crate::trouble::Trouble;

/// Also what cannot be read, and is left out.
pub(in crate::jobs) async fn due(
    conn: &Conn,
    shard_count: u16,
    window: DueWindow,
    limit: usize,
) -> Result<(Page<HotJob, JobKey>, Vec<Unreadable>), Trouble> {
    let after = window.after.map(|key| (key.due_at.as_micros(), Uuid::from(key.id)));
    let mut low: Bound = (window.from.as_micros(), NO_ID).max(after.unwrap_or((-1, NO_ID)));
    let high = window.before.as_micros();
    let shards = usize::from(shard_count);
    let mut each = rows_of_each(shards, window.namespace.is_some(), limit);
    let mut unreadable = Vec::new();
    for _ in 0..READS_MAX {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
            [&i32::from(shard_count), &low.0, &low.1, &high, &NO_ID, &(each as i64)];
        let rows = conn.query(sql!("list_hot"), &params).await?;
        let mut lists = Vec::with_capacity(shards);
        for rows in by_shard(&rows, shards)? {
            let is_cut = rows.len() >= each;
            let examine = |row| Ok((bound(row)?, examine_due(row, window.namespace, &mut unreadable)));
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

fn examine_due(
    row: &Row,
    namespace: Option<NamespaceId>,
    unreadable: &mut Vec<Unreadable>,
) -> Option<(JobKey, Option<HotJob>)> {
    let key = read_key(row).map_err(|error| leave_out(unreadable, None, error)).ok()?;
    let job = read_hot(row).map_err(|error| leave_out(unreadable, Some(key.id), error)).ok();
    Some((key, job.filter(|job| is_in(namespace, job))))
}

/// Also what cannot be read, and is left out.
pub(in crate::jobs) async fn given_back(
    conn: &Conn,
    namespace: Option<NamespaceId>,
    after: Option<JobKey>,
    until: Timestamp,
    limit: usize,
) -> Result<(Page<HotJob, JobKey>, Vec<Unreadable>), Trouble> {
    let low: Bound = after.map_or((-1, NO_ID), |after| (after.due_at.as_micros(), after.id.into()));
    let found = conn.query(sql!("given_back"), &[&low.0, &low.1, &until.as_micros(), &(limit as i64)]).await?;
    let mut page = Page { rows: Vec::new(), next: None };
    let mut unreadable = Vec::new();
    for row in &found {
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
    if found.len() < limit {
        page.next = None;
    }
    Ok((page, unreadable))
}
