//! What people have decided about queues.

use async_trait::async_trait;
use punctual_core::NamespaceId;
use punctual_core::queue::QueueState;
use punctual_store::{AllQueues, QueueChange, QueueRow, Queues, QueuesFull, Result};
use tokio_postgres::Row;

use crate::codec::{self, Read, namespace_number, rows_max};
use crate::connection::Conn;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

#[async_trait]
impl Queues for PostgresStore {
    async fn put_queue(&self, row: QueueRow) -> Result<QueueChange> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let change = put(&conn, &row).await;
        conn.run(if matches!(change, Ok(QueueChange::Done)) { "COMMIT" } else { "ROLLBACK" }).await?;
        conn.done();
        Ok(change?)
    }

    async fn queues(&self) -> Result<AllQueues> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        // Before the rows: what is added in between has a later revision, and is read the next time.
        let before = revision(&conn).await?;
        let rows = conn.query(sql!("queues"), &[]).await?;
        conn.done();
        let with_rows = rows.first().map(|row| codec::value::<i64>(row, 10)).transpose()?.map(i64::unsigned_abs);
        Ok(AllQueues { revision: with_rows.unwrap_or(before), rows: rows.iter().map(read).collect::<Read<_>>()? })
    }

    async fn queues_revision(&self) -> Result<u64> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let revision = revision(&conn).await?;
        conn.done();
        Ok(revision)
    }

    async fn queue_names(&self, namespace: NamespaceId, after: &str, limit: usize) -> Result<Vec<String>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let (namespace, after) = (namespace_number(namespace), codec::text(after));
        let rows = conn.query(sql!("queue_names"), &[&namespace, &after, &rows_max(limit)]).await?;
        conn.done();
        Ok(rows.iter().map(|row| codec::value(row, 0)).collect::<Read<_>>()?)
    }
}

async fn revision(conn: &Conn) -> Done<u64> {
    let row = conn.query_opt(sql!("queues_revision"), &[]).await?;
    Ok(row.map(|row| codec::value::<i64>(&row, 0)).transpose()?.unwrap_or(0).unsigned_abs())
}

/// In a transaction, to be rolled back unless it is done.
async fn put(conn: &Conn, row: &QueueRow) -> Done<QueueChange> {
    conn.run("BEGIN").await?;
    conn.execute(sql!("bump_queues"), &[]).await?;
    let namespace = namespace_number(row.namespace);
    let known = conn.query_opt(sql!("queue_revision"), &[&namespace, &row.name]).await?;
    let known = known.map(|row| codec::value::<i32>(&row, 0)).transpose()?.map_or(0, i32::unsigned_abs);
    if known + 1 != row.revision {
        return Ok(QueueChange::Conflict { revision: known });
    }
    if known == 0 {
        let counts = conn.query_opt(sql!("count_queues"), &[&namespace]).await?;
        let counts = counts.ok_or_else(|| Trouble::inconsistent("a row was expected"))?;
        let rows = |column| Read::Ok(usize::try_from(codec::value::<i64>(&counts, column)?).unwrap_or(usize::MAX));
        if let Some(full) = QueuesFull::check(row.state, rows(0)?, rows(1)?) {
            return Ok(QueueChange::Full(full));
        }
    }
    let QueueRow { namespace: _, name, revision, state, state_by, note, changed, spec } = row;
    let revision = i32::try_from(*revision).map_err(|_| Trouble::inconsistent("no queue is changed so often"))?;
    let (state, note, spec) = (state.code(), note.as_deref().map(codec::text), codec::text(spec));
    let (state_at, changed_at) = (state_by.at.as_micros(), changed.at.as_micros());
    let (state_by, changed_by) = (codec::text(&state_by.who), codec::text(&changed.who));
    conn.execute(
        sql!("put_queue"),
        &[&namespace, name, &revision, &state, &state_at, &state_by, &note, &changed_at, &changed_by, &spec],
    )
    .await?;
    Ok(QueueChange::Done)
}

/// Removes the queues of a namespace, in the transaction that deletes it.
pub(crate) async fn drop_queues(conn: &Conn, namespace: NamespaceId) -> Done<()> {
    conn.execute(sql!("bump_queues"), &[]).await?;
    conn.execute(sql!("drop_queues"), &[&namespace_number(namespace)]).await?;
    Ok(())
}

fn read(row: &Row) -> Read<QueueRow> {
    let state = QueueState::from_code(codec::value(row, 3)?);
    Ok(QueueRow {
        namespace: codec::namespace(row, 0)?,
        name: codec::value(row, 1)?,
        revision: codec::value::<i32>(row, 2)?.unsigned_abs(),
        state: state.ok_or_else(|| codec::unreadable(row, 3, "not the state of a queue"))?,
        state_by: codec::by(row, 4)?,
        note: codec::value(row, 6)?,
        changed: codec::by(row, 7)?,
        spec: codec::value(row, 9)?,
    })
}
