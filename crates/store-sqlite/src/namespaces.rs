//! Namespaces: the tenants of a cluster.

use async_trait::async_trait;
use punctual_core::namespace::{NamespaceId, NamespaceName};
use punctual_core::schedule::By;
use punctual_store::{
    AllNamespaces, DELETED_NAMESPACES_MAX, NAMESPACES_MAX, NamespaceChange, NamespaceContent, NamespaceDeletion,
    NamespaceRow, Namespaces, Result, data_key_label,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::queues::drop_queues;
use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

type Done<T> = std::result::Result<T, Failure>;

#[async_trait]
impl Namespaces for SqliteStore {
    async fn create_namespace(&self, name: NamespaceName, spec: String, by: By) -> Result<NamespaceChange> {
        self.write(1, move |db| db.all_or_nothing(|db| create(&db.conn, &name, &spec, &by))).await
    }

    async fn update_namespace(&self, id: NamespaceId, expected: u32, spec: String, by: By) -> Result<NamespaceChange> {
        self.write(1, move |db| db.all_or_nothing(|db| update(&db.conn, id, expected, &spec, &by))).await
    }

    async fn delete_namespace(&self, id: NamespaceId, expected: Option<u32>, by: By) -> Result<NamespaceDeletion> {
        self.write(1, move |db| db.all_or_nothing(|db| delete(&db.conn, id, expected, &by))).await
    }

    async fn namespaces(&self) -> Result<AllNamespaces> {
        let read = |conn: &Connection| Ok(AllNamespaces { revision: revision(conn)?, rows: all(conn)? });
        self.shared.owner_reads.read(read).await
    }

    async fn namespaces_revision(&self) -> Result<u64> {
        self.shared.owner_reads.read(revision).await
    }
}

fn create(conn: &Connection, name: &NamespaceName, spec: &str, by: &By) -> Done<NamespaceChange> {
    if conn.prepare_cached(sql!("namespace_name_taken"))?.exists([name.as_str()])? {
        return Ok(NamespaceChange::NameTaken);
    }
    let counts = conn
        .prepare_cached(sql!("count_namespaces"))?
        .query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
    if counts.0 >= NAMESPACES_MAX as i64 || counts.1 >= DELETED_NAMESPACES_MAX as i64 {
        return Ok(NamespaceChange::Full);
    }
    let id: i64 = conn.prepare_cached(sql!("bump_namespaces"))?.query_row([1], |row| row.get(0))?;
    let row = params![id, name.as_str(), by.at.as_micros(), by.who, spec];
    conn.prepare_cached(sql!("insert_namespace"))?.execute(row)?;
    let id = NamespaceId::from_column(Some(id)).ok_or_else(|| Failure::inconsistent("there is no number left"))?;
    done(conn, id)
}

fn update(conn: &Connection, id: NamespaceId, expected: u32, spec: &str, by: &By) -> Done<NamespaceChange> {
    let Some(NamespaceRow { revision, .. }) = one(conn, id)? else { return Ok(NamespaceChange::Absent) };
    if revision != expected {
        return Ok(NamespaceChange::Conflict { revision });
    }
    let row = params![id.0, by.at.as_micros(), by.who, spec];
    conn.prepare_cached(sql!("update_namespace"))?.execute(row)?;
    count_change(conn)?;
    done(conn, id)
}

fn delete(conn: &Connection, id: NamespaceId, expected: Option<u32>, by: &By) -> Done<NamespaceDeletion> {
    if id.is_default() {
        return Ok(NamespaceDeletion::IsDefault);
    }
    let Some(NamespaceRow { revision, .. }) = one(conn, id)? else { return Ok(NamespaceDeletion::Absent) };
    if expected.is_some_and(|expected| expected != revision) {
        return Ok(NamespaceDeletion::Conflict { revision });
    }
    if let Some(content) = content(conn, id)? {
        return Ok(NamespaceDeletion::InUse(content));
    }
    conn.prepare_cached(sql!("delete_namespace"))?.execute(params![id.0, by.at.as_micros(), by.who])?;
    // The place that they had is overwritten: without them, nobody can open a copy of the namespace's secrets.
    conn.pragma_update(None, "secure_delete", true)?;
    let dropped = conn.prepare_cached(sql!("drop_data_keys"))?.execute([data_key_label(id)]);
    conn.pragma_update(None, "secure_delete", false)?;
    dropped?;
    drop_queues(conn, id)?;
    count_change(conn)?;
    Ok(NamespaceDeletion::Done)
}

/// What comes first of what is in it.
fn content(conn: &Connection, id: NamespaceId) -> Done<Option<NamespaceContent>> {
    let mut statement = conn.prepare_cached(sql!("namespace_contents"))?;
    let found = statement.query_row([id.0], |row| {
        let is_there = (0..NamespaceContent::ALL.len()).map(|column| row.get::<_, bool>(column));
        is_there.collect::<rusqlite::Result<Vec<bool>>>()
    })?;
    Ok(found.iter().position(|is_there| *is_there).map(|place| NamespaceContent::ALL[place]))
}

fn count_change(conn: &Connection) -> Done<()> {
    conn.prepare_cached(sql!("bump_namespaces"))?.query_row([0], |_| Ok(()))?;
    Ok(())
}

fn done(conn: &Connection, id: NamespaceId) -> Done<NamespaceChange> {
    let row = one(conn, id)?.ok_or_else(|| Failure::inconsistent("a row is gone in its own transaction"))?;
    Ok(NamespaceChange::Done(row))
}

fn one(conn: &Connection, id: NamespaceId) -> Done<Option<NamespaceRow>> {
    Ok(conn.prepare_cached(sql!("namespace"))?.query_row([id.0], read).optional()?)
}

fn all(conn: &Connection) -> Done<Vec<NamespaceRow>> {
    let mut statement = conn.prepare_cached(sql!("namespaces"))?;
    Ok(statement.query_map([], read)?.collect::<rusqlite::Result<_>>()?)
}

fn revision(conn: &Connection) -> Done<u64> {
    Ok(conn.prepare_cached(sql!("namespaces_revision"))?.query_row([], |row| codec::version(row, 0))?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<NamespaceRow> {
    let name: String = row.get(1)?;
    let name = name.parse().map_err(|_| codec::unreadable(1, Type::Text, "not the name of a namespace"))?;
    let (created, changed) = (codec::by(row, 3)?, codec::by(row, 5)?);
    Ok(NamespaceRow {
        id: codec::namespace(row, 0)?,
        name,
        revision: row.get(2)?,
        created_at: created.at,
        created_by: created.who,
        changed_at: changed.at,
        changed_by: changed.who,
        deleted_at: codec::or_none(row, 7, codec::time)?,
        spec: row.get(8)?,
    })
}
