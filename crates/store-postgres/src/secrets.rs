//! Secrets and sealed keys. Nothing here can open them.

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::namespace::NamespaceId;
use punctual_core::task::Task;
use punctual_store::{
    CLUSTER_SECRET, ClusterSecret, Result, RootKeyId, SECRETS_MAX, SealedKey, SecretChange, SecretRow, Secrets,
    StoreError, TASK_USE_STEP,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codec::{self, Read, Uuid, namespace_number, rows_max};
use crate::connection::Conn;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

#[async_trait]
impl Secrets for PostgresStore {
    async fn plain_cluster_secret(&self) -> Result<Option<ClusterSecret>> {
        self.open()?;
        let conn = self.shared.leases.conn().await?;
        let Some(row) = conn.query_opt(sql!("plain_cluster_secret"), &[]).await? else { return Ok(None) };
        let secret = row.try_get::<_, Vec<u8>>(0).ok().and_then(|secret| secret.try_into().ok());
        // The text does not show what was read.
        let secret = secret.ok_or_else(|| StoreError::Inconsistent("the cluster's secret cannot be read".to_owned()));
        Ok(Some(ClusterSecret(secret?)))
    }

    async fn sealed_keys(&self) -> Result<Vec<SealedKey>> {
        self.open()?;
        let conn = self.shared.leases.conn().await?;
        let rows = conn.query(sql!("sealed_keys"), &[]).await?;
        Ok(rows.iter().map(read_key).collect::<Read<_>>()?)
    }

    async fn keep_sealed_key(&self, key: SealedKey) -> Result<SealedKey> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let kept = keep(&conn, &key).await;
        if kept.is_err() {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(kept?)
    }

    async fn rewrap_keys(&self, former: RootKeyId, keys: Vec<SealedKey>) -> Result<bool> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let changed = rewrap(&conn, former, &keys).await;
        if !matches!(changed, Ok(true)) {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(changed?)
    }

    async fn drop_sealed_key(&self, label: &str) -> Result<bool> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let removed = conn.execute(sql!("drop_sealed_key"), &[&codec::text(label)]).await?;
        conn.done();
        Ok(removed == 1)
    }

    async fn scrub_sealed_keys(&self, done: Option<u64>) -> Result<u64> {
        self.open()?;
        let conn = self.shared.maintenance.take().await?;
        let row = conn.query_opt(sql!("sealed_key_changes"), &[]).await?;
        let changes = row.map(|row| codec::value::<i64>(&row, 0)).transpose()?.unwrap_or(0).unsigned_abs();
        if done != Some(changes) {
            // Nobody waits long for this lock: the table is small, and the keys are read at starts and rotations alone.
            conn.run("SET lock_timeout = '1s'").await?;
            // Without FULL, a row that was the last of its page stays there. Not in a transaction. A role that does not own
            // the table gets a warning, and nothing happens.
            let scrubbed = conn.run("VACUUM (FULL) sealed_key").await;
            conn.run("RESET lock_timeout").await?;
            scrubbed?;
        }
        conn.done();
        Ok(changes)
    }

    async fn put_secret(&self, row: SecretRow) -> Result<SecretChange> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let change = put(&conn, &row).await;
        if !matches!(change, Ok(SecretChange::Done)) {
            conn.run("ROLLBACK").await?;
        }
        conn.done();
        Ok(change?)
    }

    async fn delete_secret(&self, namespace: NamespaceId, name: &str) -> Result<bool> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let removed = conn.execute(sql!("delete_secret"), &[&namespace_number(namespace), &codec::text(name)]).await?;
        conn.done();
        Ok(removed == 1)
    }

    async fn secrets_by_name(&self, namespace: NamespaceId, names: Vec<String>) -> Result<Vec<SecretRow>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let names: Vec<String> = names.iter().map(|name| codec::text(name)).collect();
        let rows = conn.query(sql!("secrets_by_name"), &[&namespace_number(namespace), &names]).await?;
        conn.done();
        Ok(rows.iter().map(read_secret).collect::<Read<_>>()?)
    }

    async fn secrets(&self, namespace: NamespaceId) -> Result<Vec<SecretRow>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let rows = conn.query(sql!("secrets"), &[&namespace_number(namespace)]).await?;
        conn.done();
        Ok(rows.iter().map(read_secret).collect::<Read<_>>()?)
    }

    async fn tasks_with_secret(
        &self,
        namespace: NamespaceId,
        name: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<String>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let used_since = (now - TASK_USE_STEP).as_micros();
        let (namespace, name) = (namespace_number(namespace), codec::text(name));
        let rows = conn.query(sql!("tasks_with_secret"), &[&namespace, &name, &used_since, &rows_max(limit)]).await?;
        conn.done();
        let read = |row: &Row| {
            let name: Option<String> = codec::value(row, 1)?;
            name.map_or_else(|| Ok(codec::task_id(row, 0)?.to_string()), Ok)
        };
        Ok(rows.iter().map(read).collect::<Read<_>>()?)
    }

    async fn secret_uses(&self, namespace: NamespaceId) -> Result<Vec<(String, u64)>> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let rows = conn.query(sql!("secret_uses"), &[&namespace_number(namespace)]).await?;
        conn.done();
        let read = |row: &Row| Ok((codec::value(row, 0)?, codec::value::<i64>(row, 1)?.unsigned_abs()));
        Ok(rows.iter().map(read).collect::<Read<_>>()?)
    }
}

/// In a transaction, as everything here that writes; to be rolled back if it fails.
async fn keep(conn: &Conn, key: &SealedKey) -> Done<SealedKey> {
    let label = codec::text(&key.label);
    conn.run("BEGIN").await?;
    conn.query(sql!("lock_count"), &[&"secrets"]).await?;
    insert_sealed_key(conn, key).await?;
    if label == CLUSTER_SECRET {
        conn.execute(sql!("forget_plain_secret"), &[]).await?;
    }
    let row = conn.query_opt(sql!("sealed_key"), &[&label]).await?;
    let kept = row.as_ref().map(read_key).transpose()?;
    let kept = kept.ok_or_else(|| Trouble::inconsistent("a key that was stored is not there"))?;
    conn.run("COMMIT").await?;
    Ok(kept)
}

/// False if there is one with its label.
pub(crate) async fn insert_sealed_key(conn: &Conn, key: &SealedKey) -> Done<bool> {
    let SealedKey { label, root_key, sealed } = key;
    let row: [&(dyn ToSql + Sync); 3] = [&codec::text(label), &&root_key.0[..], &&sealed[..]];
    Ok(conn.execute(sql!("keep_sealed_key"), &row).await? == 1)
}

/// To be rolled back unless it is true.
async fn rewrap(conn: &Conn, former: RootKeyId, keys: &[SealedKey]) -> Done<bool> {
    conn.run("BEGIN").await?;
    conn.query(sql!("lock_count"), &[&"secrets"]).await?;
    let rows = conn.query(sql!("sealed_keys"), &[]).await?;
    let stored = rows.iter().map(read_key).collect::<Read<Vec<SealedKey>>>()?;
    let mut labels: Vec<&str> = keys.iter().map(|key| key.label.as_str()).collect();
    labels.sort_unstable();
    let is_as_known = stored.iter().all(|key| key.root_key == former);
    if !is_as_known || !stored.iter().map(|key| key.label.as_str()).eq(labels) {
        return Ok(false);
    }
    for SealedKey { label, root_key, sealed } in keys {
        let label = codec::text(label);
        conn.execute(sql!("rewrap_key"), &[&label, &&former.0[..], &&root_key.0[..], &&sealed[..]]).await?;
    }
    conn.run("COMMIT").await?;
    Ok(true)
}

/// To be rolled back unless it is done.
async fn put(conn: &Conn, row: &SecretRow) -> Done<SecretChange> {
    let SecretRow { namespace, name, revision, sealed, created: _, changed } = row;
    let (namespace, name) = (namespace_number(*namespace), codec::text(name));
    let (at, who) = (changed.at.as_micros(), codec::text(&changed.who));
    conn.run("BEGIN").await?;
    conn.query(sql!("lock_count"), &[&"secrets"]).await?;
    let known = conn.query_opt(sql!("secret_revision"), &[&namespace, &name]).await?;
    let known = known.as_ref().map(|row| codec::value::<i32>(row, 0)).transpose()?.unwrap_or(0) as u32;
    if known.checked_add(1) != Some(*revision) {
        return Ok(SecretChange::Conflict { revision: known });
    }
    let sealed = &sealed[..];
    let changed = if known > 0 {
        let revision = *revision as i32;
        conn.execute(sql!("update_secret"), &[&namespace, &name, &revision, &at, &who, &sealed]).await?
    } else {
        let most = rows_max(SECRETS_MAX);
        conn.execute(sql!("insert_secret"), &[&namespace, &name, &at, &who, &sealed, &most]).await?
    };
    if changed == 0 {
        return Ok(SecretChange::Full);
    }
    conn.run("COMMIT").await?;
    Ok(SecretChange::Done)
}

/// The secrets that a new task refers to.
pub(crate) async fn keep_uses(conn: &Conn, task: &Task) -> Done<()> {
    if !task.spec.run.has_placeholders() {
        return Ok(());
    }
    let secrets: Vec<String> = task.spec.run.secrets().into_iter().collect();
    if !secrets.is_empty() {
        conn.execute(sql!("use_secrets"), &[&namespace_number(task.namespace), &secrets, &Uuid::from(task.id)]).await?;
    }
    Ok(())
}

/// The same for a task that is changed.
pub(crate) async fn exchange_uses(conn: &Conn, task: &Task) -> Done<()> {
    conn.execute(sql!("drop_secret_uses"), &[&Uuid::from(task.id)]).await?;
    keep_uses(conn, task).await
}

pub(crate) fn read_key(row: &Row) -> Read<SealedKey> {
    let root_key: &[u8] = codec::value(row, 1)?;
    let root_key = root_key.try_into().map_err(|_| codec::unreadable(row, 1, "not the id of a root key"))?;
    Ok(SealedKey { label: codec::value(row, 0)?, root_key: RootKeyId(root_key), sealed: codec::value(row, 2)? })
}

fn read_secret(row: &Row) -> Read<SecretRow> {
    Ok(SecretRow {
        namespace: codec::namespace(row, 0)?,
        name: codec::value(row, 1)?,
        revision: codec::value::<i32>(row, 2)? as u32,
        created: codec::by(row, 3)?,
        changed: codec::by(row, 5)?,
        sealed: codec::value(row, 7)?,
    })
}
