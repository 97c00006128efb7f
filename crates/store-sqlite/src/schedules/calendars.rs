//! Calendars. They belong to no shard, and nothing fences them.

use punctual_core::namespace::NamespaceId;
use punctual_core::schedule::StoredCalendar;
use punctual_store::{CalendarDeletion, CalendarUpdate};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::writer::Failure;
use crate::{codec, sql};

/// Names that are shown of the schedules that use a calendar.
const USERS_SHOWN_MAX: i64 = 10;

pub(super) fn put(
    conn: &Connection,
    calendar: &StoredCalendar,
    expected: Option<u32>,
) -> Result<CalendarUpdate, Failure> {
    let StoredCalendar { namespace, name, dates, revision: _, changed } = calendar;
    if let Some(expected) = expected {
        let revision = one(conn, *namespace, name)?.map_or(0, |known| known.revision);
        if revision != expected {
            return Ok(CalendarUpdate::Conflict { revision });
        }
    }
    let dates = serde_json::to_string(dates).expect("dates are JSON");
    let revision = conn
        .prepare_cached(sql!("put_calendar"))?
        .query_row(params![name, dates, changed.at.as_micros(), changed.who, namespace.0], |row| row.get(0))?;
    Ok(CalendarUpdate::Done { revision })
}

pub(super) fn delete(
    conn: &Connection,
    namespace: NamespaceId,
    name: &str,
    expected: Option<u32>,
) -> Result<CalendarDeletion, Failure> {
    let Some(StoredCalendar { revision, .. }) = one(conn, namespace, name)? else {
        return Ok(CalendarDeletion::Absent);
    };
    if expected.is_some_and(|expected| expected != revision) {
        return Ok(CalendarDeletion::Conflict { revision });
    }
    let mut statement = conn.prepare_cached(sql!("calendar_users"))?;
    let users: Vec<String> = statement
        .query_map(params![name, USERS_SHOWN_MAX, namespace.0], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    if !users.is_empty() {
        return Ok(CalendarDeletion::InUse(users));
    }
    conn.prepare_cached(sql!("delete_calendar"))?.execute(params![name, namespace.0])?;
    Ok(CalendarDeletion::Done)
}

pub(super) fn one(conn: &Connection, namespace: NamespaceId, name: &str) -> Result<Option<StoredCalendar>, Failure> {
    Ok(conn.prepare_cached(sql!("calendar"))?.query_row(params![name, namespace.0], read).optional()?)
}

pub(super) fn all(conn: &Connection, namespace: Option<NamespaceId>) -> Result<Vec<StoredCalendar>, Failure> {
    let mut statement = conn.prepare_cached(sql!("calendars"))?;
    let calendars = statement.query_map([namespace.map(|namespace| namespace.0)], read)?;
    Ok(calendars.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn revision(conn: &Connection) -> Result<u32, Failure> {
    Ok(conn.prepare_cached(sql!("calendars_revision"))?.query_row([], |row| row.get(0))?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<StoredCalendar> {
    let dates = row.get_ref(1)?.as_str()?;
    Ok(StoredCalendar {
        namespace: codec::namespace(row, 5)?,
        name: row.get(0)?,
        dates: serde_json::from_str(dates).map_err(|error| codec::unreadable_text(1, error))?,
        revision: row.get(2)?,
        changed: codec::by(row, 3)?,
    })
}
