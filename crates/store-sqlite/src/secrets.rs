//! Secrets and sealed keys. Nothing here can open them.

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::namespace::NamespaceId;
use punctual_core::task::Task;
use punctual_store::{
    CLUSTER_SECRET, ClusterSecret, Result, RootKeyId, SECRETS_MAX, SealedKey, SecretChange, SecretRow, Secrets,
    TASK_USE_STEP,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::writer::{Db, Failure};
use crate::{SqliteStore, codec, sql};

type Done<T> = std::result::Result<T, Failure>;

#[async_trait]
impl Secrets for SqliteStore {
    async fn plain_cluster_secret(&self) -> Result<Option<ClusterSecret>> {
        let read = |conn: &Connection| {
            let secret = conn.prepare_cached(sql!("plain_cluster_secret"))?.query_row([], |row| row.get(0));
            Ok(secret.optional()?.map(ClusterSecret))
        };
        self.shared.owner_reads.read(read).await
    }

    async fn sealed_keys(&self) -> Result<Vec<SealedKey>> {
        self.shared.owner_reads.read(sealed_keys).await
    }

    async fn keep_sealed_key(&self, key: SealedKey) -> Result<SealedKey> {
        self.write(1, move |db| keep(&db.conn, &key)).await
    }

    async fn rewrap_keys(&self, former: RootKeyId, keys: Vec<SealedKey>) -> Result<bool> {
        self.write(keys.len(), move |db| rewrap(&db.conn, former, &keys)).await
    }

    async fn drop_sealed_key(&self, label: &str) -> Result<bool> {
        let label = label.to_owned();
        self.write(1, move |db| overwriting(&db.conn, |conn| drop_key(conn, &label))).await
    }

    /// Places of keys are overwritten in the transaction that drops them.
    async fn scrub_sealed_keys(&self, done: Option<u64>) -> Result<u64> {
        Ok(done.unwrap_or_default())
    }

    async fn put_secret(&self, row: SecretRow) -> Result<SecretChange> {
        self.write(1, move |db| put(&db.conn, &row)).await
    }

    async fn delete_secret(&self, namespace: NamespaceId, name: &str) -> Result<bool> {
        let name = name.to_owned();
        let delete = move |db: &mut Db| {
            Ok(db.conn.prepare_cached(sql!("delete_secret"))?.execute(params![namespace.0, name])? > 0)
        };
        self.write(1, delete).await
    }

    async fn secrets_by_name(&self, namespace: NamespaceId, names: Vec<String>) -> Result<Vec<SecretRow>> {
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("secret"))?;
            let rows = names.iter().map(|name| statement.query_row(params![namespace.0, name], read_secret).optional());
            Ok(rows.filter_map(rusqlite::Result::transpose).collect::<rusqlite::Result<_>>()?)
        };
        self.shared.owner_reads.read(read).await
    }

    async fn secrets(&self, namespace: NamespaceId) -> Result<Vec<SecretRow>> {
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("secrets"))?;
            let rows = statement.query_map([namespace.0], read_secret)?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.shared.owner_reads.read(read).await
    }

    async fn tasks_with_secret(
        &self,
        namespace: NamespaceId,
        name: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>> {
        let name = name.to_owned();
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("tasks_with_secret"))?;
            let used_since = (now - TASK_USE_STEP).as_micros();
            let rows = statement.query_map(params![namespace.0, name, used_since, limit as i64], |row| {
                let name: Option<String> = row.get(1)?;
                name.map_or_else(|| Ok(codec::task_id(row, 0)?.to_string()), Ok)
            })?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.shared.people_reads.read(read).await
    }

    async fn secret_uses(&self, namespace: NamespaceId) -> Result<Vec<(String, u64)>> {
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("secret_uses"))?;
            let rows =
                statement.query_map([namespace.0], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        };
        self.shared.people_reads.read(read).await
    }
}

/// The places of rows that are removed meanwhile are overwritten, instead of being free for something else some day.
pub(crate) fn overwriting<T>(conn: &Connection, change: impl FnOnce(&Connection) -> Done<T>) -> Done<T> {
    conn.pragma_update(None, "secure_delete", true)?;
    let changed = change(conn);
    conn.pragma_update(None, "secure_delete", false)?;
    changed
}

pub(crate) fn drop_key(conn: &Connection, label: &str) -> Done<bool> {
    Ok(conn.prepare_cached(sql!("drop_sealed_key"))?.execute([label])? > 0)
}

fn sealed_keys(conn: &Connection) -> Done<Vec<SealedKey>> {
    let mut statement = conn.prepare_cached(sql!("sealed_keys"))?;
    let keys = statement.query_map([], read_key)?;
    Ok(keys.collect::<rusqlite::Result<_>>()?)
}

/// Unless there is one with its label.
pub(crate) fn insert_sealed_key(conn: &Connection, key: &SealedKey) -> Done<()> {
    let SealedKey { label, root_key, sealed } = key;
    conn.prepare_cached(sql!("keep_sealed_key"))?.execute(params![label, root_key.0, sealed])?;
    Ok(())
}

fn keep(conn: &Connection, key: &SealedKey) -> Done<SealedKey> {
    let label = &key.label;
    insert_sealed_key(conn, key)?;
    if label == CLUSTER_SECRET {
        overwriting(conn, |conn| Ok(conn.prepare_cached(sql!("forget_plain_secret"))?.execute([])?))?;
    }
    Ok(conn.prepare_cached(sql!("sealed_key"))?.query_row([label], read_key)?)
}

fn rewrap(conn: &Connection, former: RootKeyId, keys: &[SealedKey]) -> Done<bool> {
    let stored = sealed_keys(conn)?;
    let mut labels: Vec<&str> = keys.iter().map(|key| key.label.as_str()).collect();
    labels.sort_unstable();
    let is_as_known = stored.iter().all(|key| key.root_key == former);
    if !is_as_known || !stored.iter().map(|key| key.label.as_str()).eq(labels) {
        return Ok(false);
    }
    overwriting(conn, |conn| {
        let mut statement = conn.prepare_cached(sql!("rewrap_key"))?;
        for SealedKey { label, root_key, sealed } in keys {
            statement.execute(params![label, former.0, root_key.0, sealed])?;
        }
        Ok(true)
    })
}

fn put(conn: &Connection, row: &SecretRow) -> Done<SecretChange> {
    let SecretRow { namespace, name, revision, sealed, created: _, changed } = row;
    let known: Option<u32> = conn
        .prepare_cached(sql!("secret_revision"))?
        .query_row(params![namespace.0, name], |row| row.get(0))
        .optional()?;
    let known = known.unwrap_or(0);
    if known.checked_add(1) != Some(*revision) {
        return Ok(SecretChange::Conflict { revision: known });
    }
    let (at, who) = (changed.at.as_micros(), &changed.who);
    if known > 0 {
        conn.prepare_cached(sql!("update_secret"))?.execute(params![namespace.0, name, revision, at, who, sealed])?;
        return Ok(SecretChange::Done);
    }
    let count: i64 = conn.prepare_cached(sql!("count_secrets"))?.query_row([namespace.0], |row| row.get(0))?;
    if count >= SECRETS_MAX as i64 {
        return Ok(SecretChange::Full);
    }
    conn.prepare_cached(sql!("insert_secret"))?.execute(params![namespace.0, name, at, who, sealed])?;
    Ok(SecretChange::Done)
}

/// The secrets that a new task refers to.
pub(crate) fn keep_uses(conn: &Connection, task: &Task) -> Done<()> {
    if !task.spec.run.has_placeholders() {
        return Ok(());
    }
    let mut statement = conn.prepare_cached(sql!("use_secret"))?;
    for secret in task.spec.run.secrets() {
        statement.execute(params![task.namespace.0, secret, task.id.to_bytes()])?;
    }
    Ok(())
}

/// The same for a task that is changed.
pub(crate) fn exchange_uses(conn: &Connection, task: &Task) -> Done<()> {
    conn.prepare_cached(sql!("drop_secret_uses"))?.execute([task.id.to_bytes()])?;
    keep_uses(conn, task)
}

pub(crate) fn read_key(row: &Row<'_>) -> rusqlite::Result<SealedKey> {
    Ok(SealedKey { label: row.get(0)?, root_key: RootKeyId(row.get(1)?), sealed: row.get(2)? })
}

fn read_secret(row: &Row<'_>) -> rusqlite::Result<SecretRow> {
    Ok(SecretRow {
        namespace: codec::namespace(row, 0)?,
        name: row.get(1)?,
        revision: row.get(2)?,
        created: codec::by(row, 3)?,
        changed: codec::by(row, 5)?,
        sealed: row.get(7)?,
    })
}
