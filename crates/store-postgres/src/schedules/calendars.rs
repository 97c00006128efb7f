//! Calendars: dates that schedules refer to by a name.

use punctual_core::ScheduleId;
use punctual_core::schedule::{By, StoredCalendar};
use punctual_store::{CalendarDeletion, CalendarUpdate, LoadedRow};
use tokio_postgres::Row;

use super::read::{after_id, read_loaded};
use crate::codec::{self, Read, rows_max};
use crate::connection::Conn;
use crate::sql;
use crate::trouble::Trouble;

type Done<T> = std::result::Result<T, Trouble>;

/// Names that are shown of the schedules that use a calendar.
const USERS_SHOWN_MAX: i64 = 10;

/// In a transaction, to be rolled back unless it is done.
pub(super) async fn put(conn: &Conn, calendar: &StoredCalendar, expected: Option<u32>) -> Done<CalendarUpdate> {
    let StoredCalendar { name, dates, revision: _, changed } = calendar;
    let dates = serde_json::to_string(dates)
        .map_err(|error| Trouble::inconsistent(format!("the calendar {name} cannot be written: {error}")))?;
    conn.run("BEGIN").await?;
    if let Some(expected) = expected {
        // Whoever stores or deletes one at the same time waits, or is waited for.
        conn.query(sql!("lock_count"), &[&"calendars"]).await?;
        let revision = revision_of(conn, name).await?.unwrap_or(0);
        if revision != expected {
            return Ok(CalendarUpdate::Conflict { revision });
        }
    }
    let row = conn
        .query_opt(
            sql!("put_calendar"),
            &[&codec::text(name), &changed.at.as_micros(), &codec::text(&changed.who), &dates],
        )
        .await?
        .ok_or_else(|| Trouble::inconsistent("the store does not count revisions of calendars"))?;
    let revision = codec::value::<i64>(&row, 0)? as u32;
    conn.run("COMMIT").await?;
    Ok(CalendarUpdate::Done { revision })
}

pub(super) async fn delete(conn: &Conn, name: &str, expected: Option<u32>) -> Done<CalendarDeletion> {
    if conn.execute(sql!("delete_calendar"), &[&codec::text(name), &expected.map(i64::from)]).await? == 1 {
        return Ok(CalendarDeletion::Done);
    }
    let Some(revision) = revision_of(conn, name).await? else { return Ok(CalendarDeletion::Absent) };
    if expected.is_some_and(|expected| expected != revision) {
        return Ok(CalendarDeletion::Conflict { revision });
    }
    let name = codec::text(name);
    let users = conn.query(sql!("calendar_users"), &[&name, &USERS_SHOWN_MAX]).await?;
    Ok(CalendarDeletion::InUse(users.iter().map(|row| codec::value(row, 0)).collect::<Read<_>>()?))
}

/// `None`: there is no such calendar.
async fn revision_of(conn: &Conn, name: &str) -> Done<Option<u32>> {
    let row = conn.query_opt(sql!("calendar_revision"), &[&codec::text(name)]).await?;
    Ok(row.map(|row| codec::value::<i64>(&row, 0)).transpose()?.map(|revision| revision as u32))
}

pub(super) async fn one(conn: &Conn, name: &str) -> Done<Option<StoredCalendar>> {
    let row = conn.query_opt(sql!("calendar"), &[&codec::text(name)]).await?;
    row.as_ref().map(read_calendar).transpose()
}

pub(super) async fn all(conn: &Conn) -> Done<Vec<StoredCalendar>> {
    conn.query(sql!("calendars"), &[]).await?.iter().map(read_calendar).collect()
}

pub(super) async fn revision(conn: &Conn) -> Done<u32> {
    let row = conn.query_opt(sql!("calendars_revision"), &[]).await?;
    let largest = row.map(|row| codec::value::<Option<i64>>(&row, 0)).transpose()?.flatten();
    Ok(largest.unwrap_or(0) as u32)
}

pub(super) async fn users(
    conn: &Conn,
    names: &[String],
    after: Option<ScheduleId>,
    limit: usize,
) -> Done<Vec<LoadedRow>> {
    let names: Vec<String> = names.iter().map(|name| codec::text(name)).collect();
    let rows = conn.query(sql!("schedules_with_calendars"), &[&names, &after_id(after), &rows_max(limit)]).await?;
    rows.iter().map(read_loaded).collect()
}

fn read_calendar(row: &Row) -> Read<StoredCalendar> {
    let dates =
        serde_json::from_str(codec::value(row, 4)?).map_err(|error| codec::unreadable(row, 4, &error.to_string()))?;
    Ok(StoredCalendar {
        name: codec::value(row, 0)?,
        dates,
        revision: codec::value::<i64>(row, 1)? as u32,
        changed: By { at: codec::time(row, 2)?, who: codec::value(row, 3)? },
    })
}
