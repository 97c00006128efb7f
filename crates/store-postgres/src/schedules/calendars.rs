//! Calendars: dates that schedules refer to by a name.

use punctual_core::schedule::{By, StoredCalendar};
use punctual_core::{NamespaceId, ScheduleId};
use punctual_store::{CalendarDeletion, CalendarUpdate, LoadedRow};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::read::{after_id, read_loaded};
use crate::codec::{self, Read, namespace_number, rows_max};
use crate::connection::Conn;
use crate::sql;
use crate::trouble::Trouble;

type Done<T> = std::result::Result<T, Trouble>;

/// Names that are shown of the schedules that use a calendar.
const USERS_SHOWN_MAX: i64 = 10;

/// In a transaction, to be rolled back unless it is done.
pub(super) async fn put(conn: &Conn, calendar: &StoredCalendar, expected: Option<u32>) -> Done<CalendarUpdate> {
    let StoredCalendar { namespace, name, dates, revision: _, changed } = calendar;
    let dates = serde_json::to_string(dates)
        .map_err(|error| Trouble::inconsistent(format!("the calendar {name} cannot be written: {error}")))?;
    conn.run("BEGIN").await?;
    if let Some(expected) = expected {
        // Whoever stores or deletes one at the same time waits, or is waited for.
        conn.query(sql!("lock_count"), &[&"calendars"]).await?;
        let revision = revision_of(conn, *namespace, name).await?.unwrap_or(0);
        if revision != expected {
            return Ok(CalendarUpdate::Conflict { revision });
        }
    }
    let row = conn
        .query_opt(
            sql!("put_calendar"),
            &[
                &codec::text(name),
                &changed.at.as_micros(),
                &codec::text(&changed.who),
                &dates,
                &namespace_number(*namespace),
            ],
        )
        .await?
        .ok_or_else(|| Trouble::inconsistent("the store does not count revisions of calendars"))?;
    let revision = codec::value::<i64>(&row, 0)? as u32;
    conn.run("COMMIT").await?;
    Ok(CalendarUpdate::Done { revision })
}

pub(super) async fn delete(
    conn: &Conn,
    namespace: NamespaceId,
    name: &str,
    expected: Option<u32>,
) -> Done<CalendarDeletion> {
    let number = namespace_number(namespace);
    if conn.execute(sql!("delete_calendar"), &[&codec::text(name), &expected.map(i64::from), &number]).await? == 1 {
        return Ok(CalendarDeletion::Done);
    }
    let Some(revision) = revision_of(conn, namespace, name).await? else { return Ok(CalendarDeletion::Absent) };
    if expected.is_some_and(|expected| expected != revision) {
        return Ok(CalendarDeletion::Conflict { revision });
    }
    let name = codec::text(name);
    let users = conn.query(sql!("calendar_users"), &[&name, &USERS_SHOWN_MAX, &number]).await?;
    Ok(CalendarDeletion::InUse(users.iter().map(|row| codec::value(row, 0)).collect::<Read<_>>()?))
}

/// `None`: there is no such calendar.
async fn revision_of(conn: &Conn, namespace: NamespaceId, name: &str) -> Done<Option<u32>> {
    let key: [&(dyn ToSql + Sync); 2] = [&codec::text(name), &namespace_number(namespace)];
    let row = conn.query_opt(sql!("calendar_revision"), &key).await?;
    Ok(row.map(|row| codec::value::<i64>(&row, 0)).transpose()?.map(|revision| revision as u32))
}

pub(super) async fn one(conn: &Conn, namespace: NamespaceId, name: &str) -> Done<Option<StoredCalendar>> {
    let row = conn.query_opt(sql!("calendar"), &[&codec::text(name), &namespace_number(namespace)]).await?;
    row.as_ref().map(read_calendar).transpose()
}

pub(super) async fn all(conn: &Conn, namespace: Option<NamespaceId>) -> Done<Vec<StoredCalendar>> {
    conn.query(sql!("calendars"), &[&namespace.map(namespace_number)]).await?.iter().map(read_calendar).collect()
}

pub(super) async fn revision(conn: &Conn) -> Done<u32> {
    let row = conn.query_opt(sql!("calendars_revision"), &[]).await?;
    let largest = row.map(|row| codec::value::<Option<i64>>(&row, 0)).transpose()?.flatten();
    Ok(largest.unwrap_or(0) as u32)
}

pub(super) async fn users(
    conn: &Conn,
    names: &[(NamespaceId, String)],
    after: Option<ScheduleId>,
    limit: usize,
) -> Done<Vec<LoadedRow>> {
    let (namespaces, names): (Vec<i32>, Vec<String>) =
        names.iter().map(|(namespace, name)| (namespace_number(*namespace), codec::text(name))).unzip();
    let wanted: [&(dyn ToSql + Sync); 4] = [&names, &after_id(after), &rows_max(limit), &namespaces];
    let rows = conn.query(sql!("schedules_with_calendars"), &wanted).await?;
    rows.iter().map(read_loaded).collect()
}

fn read_calendar(row: &Row) -> Read<StoredCalendar> {
    let dates =
        serde_json::from_str(codec::value(row, 4)?).map_err(|error| codec::unreadable(row, 4, &error.to_string()))?;
    Ok(StoredCalendar {
        namespace: codec::namespace(row, 5)?,
        name: codec::value(row, 0)?,
        dates,
        revision: codec::value::<i64>(row, 1)? as u32,
        changed: By { at: codec::time(row, 2)?, who: codec::value(row, 3)? },
    })
}
