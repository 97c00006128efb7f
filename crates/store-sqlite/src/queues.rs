//! What people have decided about queues.

use async_trait::async_trait;
use punctual_core::NamespaceId;
use punctual_core::queue::QueueState;
use punctual_store::{AllQueues, QueueChange, QueueRow, Queues, QueuesFull, Result};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

type Done<T> = std::result::Result<T, Failure>;

#[async_trait]
impl Queues for SqliteStore {
    async fn put_queue(&self, row: QueueRow) -> Result<QueueChange> {
        self.write(1, move |db| db.all_or_nothing(|db| put(&db.conn, &row))).await
    }

    async fn queues(&self) -> Result<AllQueues> {
        let read = |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("queues"))?;
            let rows = statement.query_map([], read)?.collect::<rusqlite::Result<_>>()?;
            Ok(AllQueues { revision: revision(conn)?, rows })
        };
        self.shared.owner_reads.read(read).await
    }

    async fn queues_revision(&self) -> Result<u64> {
        self.shared.owner_reads.read(revision).await
    }

    async fn queue_names(&self, namespace: NamespaceId, after: &str, limit: usize) -> Result<Vec<String>> {
        let after = after.to_owned();
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("queue_names"))?;
            let names = statement.query_map(params![namespace.0, after, limit as i64], |row| row.get(0))?;
            Ok(names.collect::<rusqlite::Result<_>>()?)
        };
        self.shared.people_reads.read(read).await
    }
}

fn put(conn: &Connection, row: &QueueRow) -> Done<QueueChange> {
    let key = params![row.namespace.0, row.name];
    let known: Option<u32> =
        conn.prepare_cached(sql!("queue_revision"))?.query_row(key, |row| row.get(0)).optional()?;
    let known = known.unwrap_or(0);
    if known + 1 != row.revision {
        return Ok(QueueChange::Conflict { revision: known });
    }
    if known == 0 {
        let rows = |count: i64| usize::try_from(count).unwrap_or(usize::MAX);
        let count = |row: &Row<'_>| Ok((rows(row.get(0)?), rows(row.get(1)?)));
        let (own, all) = conn.prepare_cached(sql!("count_queues"))?.query_row([row.namespace.0], count)?;
        if let Some(full) = QueuesFull::check(row.state, own, all) {
            return Ok(QueueChange::Full(full));
        }
    }
    let QueueRow { namespace, name, revision, state, state_by, note, changed, spec } = row;
    let stored = params![
        namespace.0,
        name,
        revision,
        state.code(),
        state_by.at.as_micros(),
        state_by.who,
        note,
        changed.at.as_micros(),
        changed.who,
        spec
    ];
    conn.prepare_cached(sql!("put_queue"))?.execute(stored)?;
    count_change(conn)?;
    Ok(QueueChange::Done)
}

/// Removes the queues of a namespace, in the transaction that deletes it.
pub(crate) fn drop_queues(conn: &Connection, namespace: NamespaceId) -> Done<()> {
    if conn.prepare_cached(sql!("drop_queues"))?.execute([namespace.0])? > 0 {
        count_change(conn)?;
    }
    Ok(())
}

fn count_change(conn: &Connection) -> Done<()> {
    conn.prepare_cached(sql!("bump_queues"))?.execute([])?;
    Ok(())
}

fn revision(conn: &Connection) -> Done<u64> {
    Ok(conn.prepare_cached(sql!("queues_revision"))?.query_row([], |row| codec::version(row, 0))?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<QueueRow> {
    let state = QueueState::from_code(row.get(3)?);
    Ok(QueueRow {
        namespace: codec::namespace(row, 0)?,
        name: row.get(1)?,
        revision: row.get(2)?,
        state: state.ok_or_else(|| codec::unreadable(3, Type::Integer, "not the state of a queue"))?,
        state_by: codec::by(row, 4)?,
        note: row.get(6)?,
        changed: codec::by(row, 7)?,
        spec: row.get(9)?,
    })
}
