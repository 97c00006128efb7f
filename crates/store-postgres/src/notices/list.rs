//! Rules, what waits, what ails and what was sent. Those that cannot be read take nothing from a page.

use punctual_core::notice::{Notice, NoticeKind};
use punctual_core::{JobId, NamespaceId, Span, TaskId, Timestamp, hex};
use punctual_store::{Ailing, DeliveryRow, RuleRow, WaitingNotice};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Done;
use super::readable::{Readable, Table};
use crate::codec::{self, Read, Uuid, namespace_number, rows_max};
use crate::connection::Conn;
use crate::sql;

const RULES: Table<RuleRow> = Table { name: "notification_rule", key: |row| codec::value(row, 0), read: read_rule };
const NOTICES: Table<WaitingNotice> = Table { name: "notice", key: number, read: read_waiting };
const AILING: Table<Ailing> = Table { name: "ailing", key: |row| id(row, 0), read: read_ailing };
const DELIVERIES: Table<DeliveryRow> = Table { name: "delivery", key: |row| id(row, 2), read: read_delivery };

/// Pages that are read in search of rows that can be read. What is behind so many that cannot waits until they are mended;
/// the log names them.
const READS_MAX: usize = 64;

/// Sorts after every time and id.
const LAST: (i64, Uuid) = (i64::MAX, Uuid([0xff; 16]));

pub(super) async fn rules(conn: &Conn, namespace: Option<NamespaceId>) -> Done<Readable<RuleRow>> {
    let mut rules = Readable::default();
    rules.extend(&RULES, &conn.query(sql!("rules"), &[&namespace.map(namespace_number)]).await?)?;
    Ok(rules)
}

pub(super) async fn waiting(conn: &Conn, limit: usize) -> Done<Readable<WaitingNotice>> {
    let kinds = NoticeKind::ALL.len() as i16;
    let mut after = 0_i64;
    let mut notices = Readable::default();
    for _ in 0..READS_MAX {
        let rows = conn.query(sql!("waiting_notices"), &[&rows_max(limit), &kinds, &after]).await?;
        let Some(last) = rows.last() else { break };
        after = codec::value(last, 0)?;
        notices.extend(&NOTICES, &rows)?;
        if rows.len() < limit || notices.rows.len() >= limit {
            break;
        }
    }
    notices.rows.truncate(limit);
    Ok(notices)
}

pub(super) async fn ailing_of(conn: &Conn, tasks: Vec<TaskId>) -> Done<Readable<Ailing>> {
    let tasks: Vec<Uuid> = tasks.into_iter().map(Uuid::from).collect();
    let mut ailing = Readable::default();
    ailing.extend(&AILING, &conn.query(sql!("ailing_of"), &[&tasks]).await?)?;
    Ok(ailing)
}

pub(super) async fn ailing(conn: &Conn, namespace: Option<NamespaceId>, limit: usize) -> Done<Readable<Ailing>> {
    let (mut failed_at, mut task) = LAST;
    let mut ailing = Readable::default();
    for _ in 0..READS_MAX {
        let rows = match namespace.map(namespace_number) {
            Some(namespace) => {
                let wanted: [&(dyn ToSql + Sync); 4] = [&rows_max(limit), &failed_at, &task, &namespace];
                conn.query(sql!("ailing_of_namespace"), &wanted).await?
            }
            None => conn.query(sql!("ailing"), &[&rows_max(limit), &failed_at, &task]).await?,
        };
        let Some(last) = rows.last() else { break };
        (failed_at, task) = (codec::value(last, 2)?, codec::value(last, 0)?);
        ailing.extend(&AILING, &rows)?;
        if rows.len() < limit || ailing.rows.len() >= limit {
            break;
        }
    }
    ailing.rows.truncate(limit);
    Ok(ailing)
}

pub(super) async fn deliveries(
    conn: &Conn,
    namespace: NamespaceId,
    rule: Option<String>,
    before: Option<(Timestamp, JobId)>,
    limit: usize,
) -> Done<Readable<DeliveryRow>> {
    let namespace = namespace_number(namespace);
    let (mut at, mut job) = before.map_or(LAST, |(at, job)| (at.as_micros(), job.into()));
    let mut deliveries = Readable::default();
    for _ in 0..READS_MAX {
        let rows = match &rule {
            Some(rule) => {
                let wanted: [&(dyn ToSql + Sync); 5] = [&at, &job, &rows_max(limit), &codec::text(rule), &namespace];
                conn.query(sql!("deliveries_of_rule"), &wanted).await?
            }
            None => conn.query(sql!("deliveries"), &[&at, &job, &rows_max(limit), &namespace]).await?,
        };
        let Some(last) = rows.last() else { break };
        (at, job) = (codec::value(last, 1)?, codec::value(last, 2)?);
        deliveries.extend(&DELIVERIES, &rows)?;
        if rows.len() < limit || deliveries.rows.len() >= limit {
            break;
        }
    }
    deliveries.rows.truncate(limit);
    Ok(deliveries)
}

fn number(row: &Row) -> Read<String> {
    Ok(codec::value::<i64>(row, 0)?.to_string())
}

/// As whoever looks for it in the database may write it.
fn id(row: &Row, column: usize) -> Read<String> {
    let Uuid(bytes) = codec::value(row, column)?;
    Ok(hex::encode(bytes))
}

pub(super) fn read_rule(row: &Row) -> Read<RuleRow> {
    Ok(RuleRow {
        namespace: codec::namespace(row, 9)?,
        name: codec::value(row, 0)?,
        spec: codec::value(row, 1)?,
        revision: codec::value::<i32>(row, 2)? as u32,
        created: codec::by(row, 3)?,
        changed: codec::by(row, 5)?,
        state: codec::value(row, 7)?,
        version: codec::value::<i64>(row, 8)? as u64,
    })
}

fn read_waiting(row: &Row) -> Read<WaitingNotice> {
    let planned = match codec::time_or_none(row, 5)? {
        Some(at) => Some((codec::schedule_id(row, 4)?, at)),
        None => None,
    };
    let kind = NoticeKind::from_number(codec::value::<i16>(row, 9)?.into());
    let notice = Notice {
        at: codec::time(row, 1)?,
        kind: kind.ok_or_else(|| codec::unreadable(row, 9, "not a kind of notice"))?,
        shard: codec::shard(row, 8)?,
        task: codec::task_id_or_none(row, 2)?,
        job: codec::job_id_or_none(row, 3)?,
        planned,
        count: codec::value::<i32>(row, 7)? as u32,
        lateness: codec::value::<Option<i64>>(row, 6)?.map(Span::from_micros),
    };
    Ok(WaitingNotice { seq: codec::value(row, 0)?, notice })
}

fn read_ailing(row: &Row) -> Read<Ailing> {
    Ok(Ailing {
        task: codec::task_id(row, 0)?,
        since: codec::time(row, 1)?,
        last: codec::time(row, 2)?,
        failures: codec::value::<i32>(row, 3)? as u32,
    })
}

fn read_delivery(row: &Row) -> Read<DeliveryRow> {
    Ok(DeliveryRow {
        namespace: codec::namespace(row, 5)?,
        rule: codec::value(row, 0)?,
        at: codec::time(row, 1)?,
        job: codec::job_id(row, 2)?,
        events: codec::value::<i32>(row, 3)? as u32,
        summary: codec::value(row, 4)?,
    })
}
