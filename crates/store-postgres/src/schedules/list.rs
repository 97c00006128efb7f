//! Lists of schedules and of occurrences, in pages. A page ends when it is full or when so many rows
//! were examined that a filter which matches little would hold a connection too long.

use punctual_core::schedule::{OccurrenceRow, ScheduleRow};
use punctual_core::{ScheduleId, Timestamp};
use punctual_store::{OccurrenceFilter, Order, ScheduleFilter};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::read::{read_occurrence, read_schedule};
use crate::codec::{self, Read, Uuid, rows_max};
use crate::connection::Conn;
use crate::sql;
use crate::trouble::Trouble;

/// About 20 ms of reading.
const EXAMINED_MAX: usize = 10_000;

/// No name is longer; the app allows fewer.
const NAME_LEN_MAX: usize = 256;

/// Of a page of so many rows: how many to look at. One more than the page has tells whether there is another.
fn rows_to_examine(filters: bool, limit: usize) -> usize {
    if filters { EXAMINED_MAX } else { EXAMINED_MAX.min(limit.saturating_add(1)) }
}

pub(super) async fn schedules(
    conn: &Conn,
    filter: &ScheduleFilter,
    after: Option<String>,
    limit: usize,
) -> Result<(Vec<ScheduleRow>, Option<String>), Trouble> {
    let limit = limit.max(1);
    let after = codec::text(&after.unwrap_or_default());
    let prefix = codec::text(filter.prefix.as_deref().unwrap_or_default());
    let end = end_of_prefix(&prefix);
    let (examined, sent) = (rows_max(rows_to_examine(filter.is_paused.is_some(), limit)), rows_max(limit + 1));
    let namespace = codec::namespace_number(filter.namespace);
    let mut params: Vec<&(dyn ToSql + Sync)> =
        vec![&after, &prefix, &end, &examined, &filter.is_paused, &sent, &namespace];
    let task = filter.task.map(Uuid::from);
    let rows = match &task {
        None => conn.query(sql!("list_schedules"), &params).await?,
        Some(task) => {
            params.push(task);
            conn.query(sql!("list_schedules_of_task"), &params).await?
        }
    };
    page(&rows, 21, limit, read_schedule, |row| codec::value(row, 1))
}

pub(super) async fn occurrences(
    conn: &Conn,
    schedule: ScheduleId,
    filter: &OccurrenceFilter,
    after: Option<Timestamp>,
    order: Order,
    limit: usize,
) -> Result<(Vec<OccurrenceRow>, Option<Timestamp>), Trouble> {
    let limit = limit.max(1);
    // Bounds are exclusive.
    let mut low = filter.from.map_or(-1, |from| from.as_micros() - 1);
    let mut high = filter.before.map_or(i64::MAX, Timestamp::as_micros);
    if let Some(after) = after.map(Timestamp::as_micros) {
        match order {
            Order::Ascending => low = low.max(after),
            Order::Descending => high = high.min(after),
        }
    }
    let text = match order {
        Order::Ascending => sql!("occurrences"),
        Order::Descending => sql!("occurrences_backwards"),
    };
    let verdicts: Vec<i16> = filter.verdicts.iter().map(|verdict| *verdict as i16).collect();
    let (examined, sent) = (rows_max(rows_to_examine(!verdicts.is_empty(), limit)), rows_max(limit + 1));
    let rows = conn.query(text, &[&Uuid::from(schedule), &low, &high, &examined, &verdicts, &sent]).await?;
    page(&rows, 11, limit, read_occurrence, |row| codec::time(row, 1))
}

/// At `flags` a row says whether it was the last to be looked at, and then whether it fits.
fn page<T, K>(
    rows: &[Row],
    flags: usize,
    limit: usize,
    read: impl Fn(&Row) -> Read<T>,
    key: impl Fn(&Row) -> Read<K>,
) -> Result<(Vec<T>, Option<K>), Trouble> {
    let mut listed = Vec::new();
    let mut last_listed = None;
    for row in rows {
        let (is_last, fits): (bool, bool) = (codec::value(row, flags)?, codec::value(row, flags + 1)?);
        if fits {
            // Only the row after the last tells that there is a next page.
            if listed.len() == limit {
                return Ok((listed, last_listed));
            }
            listed.push(read(row)?);
            last_listed = Some(key(row)?);
        }
        if is_last {
            return Ok((listed, Some(key(row)?)));
        }
    }
    Ok((listed, None))
}

/// The least text after all that begin so, in the order of bytes.
fn end_of_prefix(prefix: &str) -> String {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        if let Some(next) = following(last) {
            chars.push(next);
            return chars.into_iter().collect();
        }
    }
    // Nothing comes after all that begin with the largest character, but a name that is longer than names are.
    char::MAX.to_string().repeat(NAME_LEN_MAX)
}

fn following(last: char) -> Option<char> {
    // The range of characters leaves out those that are none.
    (last..=char::MAX).nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_prefix_comes_before_its_end() {
        for (prefix, end) in [("ab", "ac"), ("a\u{10ffff}", "b"), ("\u{d7ff}", "\u{e000}")] {
            assert_eq!(end_of_prefix(prefix), end, "{prefix:?}");
        }
        for prefix in ["ab", "a\u{10ffff}", "", "\u{10ffff}", "\u{10ffff}\u{10ffff}"] {
            assert!(format!("{prefix}\u{10ffff}zzz") < end_of_prefix(prefix), "{prefix:?}");
        }
    }
}
