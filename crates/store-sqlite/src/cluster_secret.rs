//! How far the rotation of the cluster's secret is.

use async_trait::async_trait;
use punctual_core::{ServerId, Span, Timestamp};
use punctual_store::{
    AuthorityRow, CLUSTER_SECRET, ClusterSecretState, ClusterSecrets, Confirmation, NEXT_CLUSTER_SECRET,
    ResealedAuthority, Result, SealedKey, SecretStage,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::authorities::all_authorities;
use crate::secrets::{drop_key, insert_sealed_key, overwriting, read_key};
use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

type Done<T> = std::result::Result<T, Failure>;

#[async_trait]
impl ClusterSecrets for SqliteStore {
    async fn cluster_secret(&self) -> Result<ClusterSecretState> {
        let read = |conn: &Connection| {
            let state = state(conn)?;
            if state.stage == SecretStage::Settled {
                return Ok(state);
            }
            let mut statement = conn.prepare_cached(sql!("cluster_secret_servers"))?;
            let confirmed = statement.query_map([state.revision as i64], read_confirmation)?;
            Ok(ClusterSecretState { confirmed: confirmed.collect::<rusqlite::Result<_>>()?, ..state })
        };
        self.shared.owner_reads.read(read).await
    }

    async fn announce_cluster_secret(
        &self,
        known: u64,
        next: SealedKey,
        cluster: &str,
        overlap: Span,
        now: Timestamp,
    ) -> Result<bool> {
        let cluster = cluster.to_owned();
        self.write(2, move |db| {
            let Some(announced) = state(&db.conn)?.announced(known, &cluster, overlap, now) else { return Ok(false) };
            if !is_sealed_as(&db.conn, CLUSTER_SECRET, &next)? {
                return Ok(false);
            }
            insert_sealed_key(&db.conn, &next)?;
            set(&db.conn, &announced)?;
            Ok(true)
        })
        .await
    }

    async fn sign_with_next_secret(&self, known: u64, now: Timestamp) -> Result<bool> {
        self.write(1, move |db| {
            let Some(signing) = state(&db.conn)?.signing(known, now) else { return Ok(false) };
            set(&db.conn, &signing)?;
            Ok(true)
        })
        .await
    }

    async fn retire_cluster_secret(
        &self,
        known: u64,
        secret: SealedKey,
        authorities: Vec<ResealedAuthority>,
        now: Timestamp,
    ) -> Result<bool> {
        self.write(authorities.len() + 3, move |db| {
            let conn = &db.conn;
            let Some(settled) = state(conn)?.settled(known, now) else { return Ok(false) };
            if !is_sealed_as(conn, NEXT_CLUSTER_SECRET, &secret)? || !are_all(&all_authorities(conn)?, &authorities) {
                return Ok(false);
            }
            overwriting(conn, |conn| replace(conn, &secret, &authorities))?;
            set(conn, &settled)?;
            Ok(true)
        })
        .await
    }

    async fn confirm_cluster_secret(&self, server: ServerId, revision: u64, now: Timestamp) -> Result<()> {
        self.write(1, move |db| {
            let row = params![server.to_bytes(), revision as i64, now.as_micros()];
            db.conn.prepare_cached(sql!("confirm_cluster_secret"))?.execute(row)?;
            Ok(())
        })
        .await
    }
}

/// Without its confirmations.
fn state(conn: &Connection) -> Done<ClusterSecretState> {
    Ok(conn.prepare_cached(sql!("cluster_secret"))?.query_row([], read_state)?)
}

fn set(conn: &Connection, state: &ClusterSecretState) -> Done<()> {
    let ClusterSecretState { revision, stage, stage_since, made_at, next_made_at, overlap, cluster, confirmed: _ } =
        state;
    conn.prepare_cached(sql!("set_cluster_secret"))?.execute(params![
        *revision as i64,
        stage.code(),
        stage_since.map(Timestamp::as_micros),
        made_at.map(Timestamp::as_micros),
        next_made_at.map(Timestamp::as_micros),
        overlap.map(Span::as_micros),
        cluster,
    ])?;
    conn.prepare_cached(sql!("forget_cluster_secret_servers"))?.execute([])?;
    Ok(())
}

/// Whether the key of this label is there, and sealed with the same root key.
fn is_sealed_as(conn: &Connection, label: &str, key: &SealedKey) -> Done<bool> {
    let stored = conn.prepare_cached(sql!("sealed_key"))?.query_row([label], read_key).optional()?;
    Ok(stored.is_some_and(|stored| stored.root_key == key.root_key))
}

fn are_all(stored: &[AuthorityRow], known: &[ResealedAuthority]) -> bool {
    let stored = stored.iter().map(|row| (row.generation, &row.sealed_key));
    stored.eq(known.iter().map(|known| (known.generation, &known.former)))
}

fn replace(conn: &Connection, secret: &SealedKey, authorities: &[ResealedAuthority]) -> Done<()> {
    for label in [CLUSTER_SECRET, NEXT_CLUSTER_SECRET] {
        drop_key(conn, label)?;
    }
    insert_sealed_key(conn, secret)?;
    for ResealedAuthority { generation, former, sealed_key } in authorities {
        conn.prepare_cached(sql!("reseal_authority"))?.execute(params![generation, former, sealed_key])?;
    }
    Ok(())
}

fn read_state(row: &Row<'_>) -> rusqlite::Result<ClusterSecretState> {
    let stage = SecretStage::from_code(row.get(1)?);
    Ok(ClusterSecretState {
        revision: row.get::<_, i64>(0)?.unsigned_abs(),
        stage: stage.ok_or_else(|| codec::unreadable(1, Type::Integer, "not a stage"))?,
        stage_since: codec::or_none(row, 2, codec::time)?,
        made_at: codec::or_none(row, 3, codec::time)?,
        next_made_at: codec::or_none(row, 4, codec::time)?,
        overlap: row.get::<_, Option<i64>>(5)?.map(Span::from_micros),
        cluster: row.get(6)?,
        confirmed: Vec::new(),
    })
}

fn read_confirmation(row: &Row<'_>) -> rusqlite::Result<Confirmation> {
    Ok(Confirmation { server: codec::server_id(row, 0)?, at: codec::time(row, 1)? })
}
