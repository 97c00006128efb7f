//! Namespaces: the tenants of a cluster.

use async_trait::async_trait;
use punctual_core::namespace::{NamespaceId, NamespaceName};
use punctual_core::schedule::By;
use punctual_store::{
    AllNamespaces, DELETED_NAMESPACES_MAX, NAMESPACES_MAX, NamespaceChange, NamespaceContent, NamespaceDeletion,
    NamespaceRow, Namespaces, Result, data_key_label,
};
use tokio_postgres::Row;

use crate::codec::{self, Read, namespace_number, rows_max};
use crate::connection::Conn;
use crate::queues::drop_queues;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

#[async_trait]
impl Namespaces for PostgresStore {
    async fn create_namespace(&self, name: NamespaceName, spec: String, by: By) -> Result<NamespaceChange> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let change = create(&conn, name, spec, by).await;
        end(&conn, matches!(change, Ok(NamespaceChange::Done(_)))).await?;
        conn.done();
        Ok(change?)
    }

    async fn update_namespace(&self, id: NamespaceId, expected: u32, spec: String, by: By) -> Result<NamespaceChange> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let change = update(&conn, id, expected, &spec, by).await;
        end(&conn, matches!(change, Ok(NamespaceChange::Done(_)))).await?;
        conn.done();
        Ok(change?)
    }

    async fn delete_namespace(&self, id: NamespaceId, expected: Option<u32>, by: By) -> Result<NamespaceDeletion> {
        self.open()?;
        if id.is_default() {
            return Ok(NamespaceDeletion::IsDefault);
        }
        let conn = self.shared.people_reads.take().await?;
        let deletion = delete(&conn, id, expected, &by).await;
        end(&conn, matches!(deletion, Ok(NamespaceDeletion::Done))).await?;
        conn.done();
        Ok(deletion?)
    }

    async fn namespaces(&self) -> Result<AllNamespaces> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let rows = conn.query(sql!("namespaces"), &[]).await?;
        conn.done();
        // The default namespace is always among them.
        let revision = rows.first().map(|row| codec::value::<i64>(row, 9)).transpose()?.unwrap_or(0).unsigned_abs();
        Ok(AllNamespaces { revision, rows: rows.iter().map(read).collect::<Read<_>>()? })
    }

    async fn namespaces_revision(&self) -> Result<u64> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let row = conn.query_opt(sql!("namespaces_revision"), &[]).await?;
        conn.done();
        Ok(row.map(|row| codec::value::<i64>(&row, 0)).transpose()?.unwrap_or(0).unsigned_abs())
    }
}

async fn end(conn: &Conn, is_done: bool) -> Done<()> {
    conn.run(if is_done { "COMMIT" } else { "ROLLBACK" }).await
}

/// In a transaction, as everything here that writes; to be rolled back unless it is done.
async fn create(conn: &Conn, name: NamespaceName, spec: String, by: By) -> Done<NamespaceChange> {
    conn.run("BEGIN").await?;
    let id = bump(conn, 1).await?;
    let (at, who, spec) = (by.at.as_micros(), codec::text(&by.who), codec::text(&spec));
    let (most, most_deleted) = (rows_max(NAMESPACES_MAX), rows_max(DELETED_NAMESPACES_MAX));
    let row = conn
        .query_opt(
            sql!("insert_namespace"),
            &[&namespace_number(id), &name.as_str(), &at, &who, &spec, &most, &most_deleted],
        )
        .await?
        .ok_or_else(|| Trouble::inconsistent("a row was expected"))?;
    if codec::value(&row, 0)? {
        return Ok(NamespaceChange::NameTaken);
    }
    if codec::value(&row, 1)? {
        return Ok(NamespaceChange::Full);
    }
    done(conn, id).await
}

/// To be rolled back unless it is done.
async fn update(conn: &Conn, id: NamespaceId, expected: u32, spec: &str, by: By) -> Done<NamespaceChange> {
    conn.run("BEGIN").await?;
    let Some(NamespaceRow { revision, .. }) = lock(conn, id).await? else { return Ok(NamespaceChange::Absent) };
    if revision != expected {
        return Ok(NamespaceChange::Conflict { revision });
    }
    let (at, who) = (by.at.as_micros(), codec::text(&by.who));
    conn.execute(sql!("update_namespace"), &[&namespace_number(id), &at, &who, &codec::text(spec)]).await?;
    bump(conn, 0).await?;
    done(conn, id).await
}

/// To be rolled back unless it is done.
async fn delete(conn: &Conn, id: NamespaceId, expected: Option<u32>, by: &By) -> Done<NamespaceDeletion> {
    conn.run("BEGIN").await?;
    let Some(NamespaceRow { revision, .. }) = lock(conn, id).await? else { return Ok(NamespaceDeletion::Absent) };
    if expected.is_some_and(|expected| expected != revision) {
        return Ok(NamespaceDeletion::Conflict { revision });
    }
    if let Some(content) = content(conn, id).await? {
        return Ok(NamespaceDeletion::InUse(content));
    }
    let (at, who) = (by.at.as_micros(), codec::text(&by.who));
    conn.execute(sql!("delete_namespace"), &[&namespace_number(id), &at, &who]).await?;
    // Without them, nobody can open a copy of the namespace's secrets.
    conn.execute(sql!("drop_data_keys"), &[&data_key_label(id)]).await?;
    drop_queues(conn, id).await?;
    bump(conn, 0).await?;
    Ok(NamespaceDeletion::Done)
}

/// What comes first of what is in it.
async fn content(conn: &Conn, id: NamespaceId) -> Done<Option<NamespaceContent>> {
    let row = conn.query_opt(sql!("namespace_contents"), &[&namespace_number(id)]).await?;
    let row = row.ok_or_else(|| Trouble::inconsistent("a row was expected"))?;
    for (column, content) in NamespaceContent::ALL.into_iter().enumerate() {
        if codec::value(&row, column)? {
            return Ok(Some(content));
        }
    }
    Ok(None)
}

/// Answers the last number that was given.
async fn bump(conn: &Conn, numbers: i32) -> Done<NamespaceId> {
    let row = conn.query_opt(sql!("bump_namespaces"), &[&numbers]).await?;
    codec::namespace(&row.ok_or_else(|| Trouble::inconsistent("the store does not count namespaces"))?, 0)
}

async fn done(conn: &Conn, id: NamespaceId) -> Done<NamespaceChange> {
    let row = lock(conn, id).await?.ok_or_else(|| Trouble::inconsistent("a row is gone in its own transaction"))?;
    Ok(NamespaceChange::Done(row))
}

async fn lock(conn: &Conn, id: NamespaceId) -> Done<Option<NamespaceRow>> {
    let row = conn.query_opt(sql!("lock_namespace"), &[&namespace_number(id)]).await?;
    row.as_ref().map(read).transpose()
}

fn read(row: &Row) -> Read<NamespaceRow> {
    let name: &str = codec::value(row, 1)?;
    let name = name.parse().map_err(|_| codec::unreadable(row, 1, "not the name of a namespace"))?;
    let (created, changed) = (codec::by(row, 3)?, codec::by(row, 5)?);
    Ok(NamespaceRow {
        id: codec::namespace(row, 0)?,
        name,
        revision: codec::value::<i32>(row, 2)? as u32,
        created_at: created.at,
        created_by: created.who,
        changed_at: changed.at,
        changed_by: changed.who,
        deleted_at: codec::time_or_none(row, 7)?,
        spec: codec::value(row, 8)?,
    })
}
