//! What waits, what ails and what was sent.

use std::collections::BTreeSet;

use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::{JobId, NamespaceId, Span, TaskId, Timestamp};
use punctual_store::{Ailing, DeliveryRow, WaitingNotice};
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

use super::readable::{Readable, Table};
use crate::writer::Failure;
use crate::{codec, sql};

/// Sorts after every id.
const AFTER_ALL_IDS: [u8; 16] = [0xff; 16];

const NOTICES: Table<WaitingNotice> = Table { name: "notice", key: 0, read: read_notice };
const AILING: Table<Ailing> = Table { name: "ailing", key: 0, read: read_ailing };
const DELIVERIES: Table<DeliveryRow> = Table { name: "delivery", key: 2, read: read_delivery };

pub(super) fn waiting(conn: &Connection, limit: usize) -> Result<Readable<WaitingNotice>, Failure> {
    let mut statement = conn.prepare_cached(sql!("waiting_notices"))?;
    NOTICES.first(limit, statement.query([NoticeKind::ALL.len() as i64])?)
}

fn read_notice(row: &Row<'_>) -> rusqlite::Result<WaitingNotice> {
    let kind = NoticeKind::from_number(row.get(2)?);
    let schedule = codec::or_none(row, 6, codec::schedule_id)?;
    let planned_at = codec::or_none(row, 7, codec::time)?;
    let notice = Notice {
        at: codec::time(row, 1)?,
        kind: kind.ok_or_else(|| codec::unreadable(2, Type::Integer, "not a kind of notice"))?,
        shard: codec::shard(row, 3)?,
        task: codec::or_none(row, 4, codec::task_id)?,
        job: codec::or_none(row, 5, codec::job_id)?,
        planned: schedule.zip(planned_at),
        count: row.get(8)?,
        lateness: row.get::<_, Option<i64>>(9)?.map(Span::from_micros),
    };
    Ok(WaitingNotice { seq: row.get(0)?, notice })
}

pub(super) fn ailing_of(conn: &Connection, tasks: Vec<TaskId>) -> Result<Readable<Ailing>, Failure> {
    let mut statement = conn.prepare_cached(sql!("ailing_task"))?;
    let mut all = Readable::default();
    for task in BTreeSet::from_iter(tasks) {
        all.extend(AILING.first(1, statement.query([task.to_bytes()])?)?);
    }
    Ok(all)
}

pub(super) fn ailing(
    conn: &Connection,
    namespace: Option<NamespaceId>,
    limit: usize,
) -> Result<Readable<Ailing>, Failure> {
    match namespace {
        Some(namespace) => AILING.first(limit, conn.prepare_cached(sql!("ailing_of_namespace"))?.query([namespace.0])?),
        None => AILING.first(limit, conn.prepare_cached(sql!("ailing"))?.query([])?),
    }
}

fn read_ailing(row: &Row<'_>) -> rusqlite::Result<Ailing> {
    Ok(Ailing {
        task: codec::task_id(row, 0)?,
        since: codec::time(row, 1)?,
        last: codec::time(row, 2)?,
        failures: row.get(3)?,
    })
}

pub(super) fn deliveries(
    conn: &Connection,
    namespace: NamespaceId,
    rule: Option<&str>,
    before: Option<(Timestamp, JobId)>,
    limit: usize,
) -> Result<Readable<DeliveryRow>, Failure> {
    let (at, job) = before.map_or((i64::MAX, AFTER_ALL_IDS), |(at, job)| (at.as_micros(), job.to_bytes()));
    match rule {
        Some(rule) => {
            let mut statement = conn.prepare_cached(sql!("deliveries_of_rule"))?;
            DELIVERIES.first(limit, statement.query(params![at, job, rule, namespace.0])?)
        }
        None => {
            let mut statement = conn.prepare_cached(sql!("deliveries"))?;
            DELIVERIES.first(limit, statement.query(params![at, job, namespace.0])?)
        }
    }
}

fn read_delivery(row: &Row<'_>) -> rusqlite::Result<DeliveryRow> {
    Ok(DeliveryRow {
        namespace: codec::namespace(row, 5)?,
        rule: row.get(0)?,
        at: codec::time(row, 1)?,
        job: codec::job_id(row, 2)?,
        events: row.get(3)?,
        summary: row.get(4)?,
    })
}
