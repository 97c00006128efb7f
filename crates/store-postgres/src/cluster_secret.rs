//! How far the rotation of the cluster's secret is.

use async_trait::async_trait;
use punctual_core::{ServerId, Span, Timestamp};
use punctual_store::{
    AuthorityRow, CLUSTER_SECRET, ClusterSecretState, ClusterSecrets, Confirmation, NEXT_CLUSTER_SECRET,
    ResealedAuthority, Result, SealedKey, SecretStage,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::authorities::read_authority;
use crate::codec::{self, Read, Uuid};
use crate::connection::Conn;
use crate::secrets::{insert_sealed_key, read_key};
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

#[async_trait]
impl ClusterSecrets for PostgresStore {
    async fn cluster_secret(&self) -> Result<ClusterSecretState> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let state = with_confirmations(&conn).await?;
        conn.done();
        Ok(state)
    }

    async fn announce_cluster_secret(
        &self,
        known: u64,
        next: SealedKey,
        cluster: &str,
        overlap: Span,
        now: Timestamp,
    ) -> Result<bool> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let done = announce(&conn, known, &next, &codec::text(cluster), overlap, now).await;
        end(&conn, &done).await?;
        conn.done();
        Ok(done?)
    }

    async fn sign_with_next_secret(&self, known: u64, now: Timestamp) -> Result<bool> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let done = sign(&conn, known, now).await;
        end(&conn, &done).await?;
        conn.done();
        Ok(done?)
    }

    async fn retire_cluster_secret(
        &self,
        known: u64,
        secret: SealedKey,
        authorities: Vec<ResealedAuthority>,
        now: Timestamp,
    ) -> Result<bool> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let done = retire(&conn, known, &secret, &authorities, now).await;
        end(&conn, &done).await?;
        conn.done();
        Ok(done?)
    }

    async fn confirm_cluster_secret(&self, server: ServerId, revision: u64, now: Timestamp) -> Result<()> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let row: [&(dyn ToSql + Sync); 3] = [&Uuid::from(server), &(revision as i64), &now.as_micros()];
        conn.execute(sql!("confirm_cluster_secret"), &row).await?;
        conn.done();
        Ok(())
    }
}

async fn end(conn: &Conn, done: &Done<bool>) -> Done<()> {
    conn.run(if matches!(done, Ok(true)) { "COMMIT" } else { "ROLLBACK" }).await
}

async fn with_confirmations(conn: &Conn) -> Done<ClusterSecretState> {
    let state = state(conn).await?;
    if state.stage == SecretStage::Settled {
        return Ok(state);
    }
    let rows = conn.query(sql!("cluster_secret_servers"), &[&(state.revision as i64)]).await?;
    Ok(ClusterSecretState { confirmed: rows.iter().map(read_confirmation).collect::<Read<_>>()?, ..state })
}

/// Without its confirmations.
async fn state(conn: &Conn) -> Done<ClusterSecretState> {
    let row = conn.query_opt(sql!("cluster_secret"), &[]).await?;
    read_state(&row.ok_or_else(|| Trouble::inconsistent("the row of the cluster's secret is gone"))?)
}

/// Begins the transaction in which the stage changes. A rotation of the root key waits for it.
async fn locked_state(conn: &Conn) -> Done<ClusterSecretState> {
    conn.run("BEGIN").await?;
    conn.query(sql!("lock_count"), &[&"secrets"]).await?;
    state(conn).await
}

/// To be rolled back unless it is true, as all that follow.
async fn announce(
    conn: &Conn,
    known: u64,
    next: &SealedKey,
    cluster: &str,
    overlap: Span,
    now: Timestamp,
) -> Done<bool> {
    let Some(announced) = locked_state(conn).await?.announced(known, cluster, overlap, now) else { return Ok(false) };
    let is_stored = is_sealed_as(conn, CLUSTER_SECRET, next).await? && insert_sealed_key(conn, next).await?;
    set(conn, &announced).await?;
    Ok(is_stored)
}

async fn sign(conn: &Conn, known: u64, now: Timestamp) -> Done<bool> {
    let Some(signing) = locked_state(conn).await?.signing(known, now) else { return Ok(false) };
    set(conn, &signing).await?;
    Ok(true)
}

async fn retire(
    conn: &Conn,
    known: u64,
    secret: &SealedKey,
    authorities: &[ResealedAuthority],
    now: Timestamp,
) -> Done<bool> {
    let Some(settled) = locked_state(conn).await?.settled(known, now) else { return Ok(false) };
    let stored = conn.query(sql!("authorities"), &[]).await?;
    let stored = stored.iter().map(read_authority).collect::<Read<Vec<AuthorityRow>>>()?;
    let known = authorities.iter().map(|known| (known.generation, &known.former));
    let are_all = known.eq(stored.iter().map(|row| (row.generation, &row.sealed_key)));
    if !are_all || !is_sealed_as(conn, NEXT_CLUSTER_SECRET, secret).await? {
        return Ok(false);
    }
    for label in [CLUSTER_SECRET, NEXT_CLUSTER_SECRET] {
        conn.execute(sql!("drop_sealed_key"), &[&label]).await?;
    }
    let mut is_done = insert_sealed_key(conn, secret).await?;
    for ResealedAuthority { generation, former, sealed_key } in authorities {
        let row: [&(dyn ToSql + Sync); 3] = [&(*generation as i32), former, sealed_key];
        is_done &= conn.execute(sql!("reseal_authority"), &row).await? == 1;
    }
    set(conn, &settled).await?;
    Ok(is_done)
}

async fn set(conn: &Conn, state: &ClusterSecretState) -> Done<()> {
    let ClusterSecretState { revision, stage, stage_since, made_at, next_made_at, overlap, cluster, confirmed: _ } =
        state;
    let time = |time: &Option<Timestamp>| time.map(Timestamp::as_micros);
    let row: [&(dyn ToSql + Sync); 7] = [
        &(*revision as i64),
        &stage.code(),
        &time(stage_since),
        &time(made_at),
        &time(next_made_at),
        &overlap.map(Span::as_micros),
        cluster,
    ];
    conn.execute(sql!("set_cluster_secret"), &row).await?;
    conn.execute(sql!("forget_cluster_secret_servers"), &[]).await?;
    Ok(())
}

/// Whether the key of this label is there, and sealed with the same root key.
async fn is_sealed_as(conn: &Conn, label: &str, key: &SealedKey) -> Done<bool> {
    let stored = conn.query_opt(sql!("sealed_key"), &[&label]).await?;
    let stored = stored.as_ref().map(read_key).transpose()?;
    Ok(stored.is_some_and(|stored| stored.root_key == key.root_key))
}

fn read_state(row: &Row) -> Read<ClusterSecretState> {
    let stage = SecretStage::from_code(codec::value(row, 1)?);
    Ok(ClusterSecretState {
        revision: codec::value::<i64>(row, 0)?.unsigned_abs(),
        stage: stage.ok_or_else(|| codec::unreadable(row, 1, "not a stage"))?,
        stage_since: codec::time_or_none(row, 2)?,
        made_at: codec::time_or_none(row, 3)?,
        next_made_at: codec::time_or_none(row, 4)?,
        overlap: codec::value::<Option<i64>>(row, 5)?.map(Span::from_micros),
        cluster: codec::value(row, 6)?,
        confirmed: Vec::new(),
    })
}

fn read_confirmation(row: &Row) -> Read<Confirmation> {
    Ok(Confirmation { server: codec::server_id(row, 0)?, at: codec::time(row, 1)? })
}
