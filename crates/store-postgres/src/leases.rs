//! Who owns which shard, and until when.

use async_trait::async_trait;
use punctual_core::{ServerId, ShardId, Span, Timestamp};
use punctual_store::{Lease, Leases, Owned, Result, StoreError};
use tokio_postgres::Row;

use crate::codec::{self, Read, Uuid, shard_number};
use crate::connection::Conn;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

#[async_trait]
impl Leases for PostgresStore {
    async fn now(&self) -> Result<Timestamp> {
        self.open()?;
        if let Some(clock) = &self.shared.clock {
            return Ok(clock());
        }
        let conn = self.shared.heartbeat.conn().await?;
        let row = conn.query_opt(sql!("now"), &[]).await?;
        let row = row.ok_or_else(|| StoreError::Unavailable("PostgreSQL does not say what time it is".to_owned()))?;
        Ok(codec::time(&row, 0)?)
    }

    fn shard_count(&self) -> u16 {
        self.shared.shard_count
    }

    fn generation(&self) -> u64 {
        self.shared.instance.generation()
    }

    async fn acquire(&self, server: ServerId, ttl: Span, limit: usize) -> Result<Vec<Owned>> {
        self.open()?;
        let conn = self.shared.leases.conn().await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = conn
            .query(
                sql!("acquire_shards"),
                &[&Uuid::from(server), &ttl.as_micros(), &self.test_now(), &limit, &self.shared.instance.fixed],
            )
            .await?;
        read_owned(&rows)
    }

    async fn take_over(&self, server: ServerId, mut shards: Vec<ShardId>, ttl: Span) -> Result<Vec<Owned>> {
        self.open()?;
        shards.sort_unstable();
        shards.dedup();
        let numbers: Vec<i16> = shards.iter().copied().map(shard_number).collect();
        let conn = self.shared.leases.conn().await?;
        let rows = conn
            .query(
                sql!("take_shards"),
                &[&Uuid::from(server), &ttl.as_micros(), &self.test_now(), &numbers, &self.shared.instance.fixed],
            )
            .await?;
        if rows.len() != shards.len() {
            return Err(StoreError::Inconsistent(format!("one of the shards {shards:?} is not there")));
        }
        read_owned(&rows)
    }

    async fn renew(&self, server: ServerId, ttl: Span) -> Result<Vec<Owned>> {
        self.open()?;
        let conn = self.shared.heartbeat.conn().await?;
        let rows = conn.query(sql!("renew_leases"), &[&Uuid::from(server), &ttl.as_micros(), &self.test_now()]).await?;
        self.check_tables(&rows, 2)?;
        self.shared.instance.look_at_wal(&conn).await;
        read_owned(&rows)
    }

    async fn release(&self, server: ServerId) -> Result<()> {
        self.open()?;
        let conn = self.shared.leases.conn().await?;
        conn.execute(sql!("release_leases"), &[&Uuid::from(server)]).await?;
        Ok(())
    }

    async fn give_up(&self, server: ServerId, shards: Vec<ShardId>) -> Result<()> {
        self.open()?;
        let numbers: Vec<i16> = shards.into_iter().map(shard_number).collect();
        let conn = self.shared.leases.conn().await?;
        conn.execute(sql!("give_up_shards"), &[&Uuid::from(server), &numbers]).await?;
        Ok(())
    }

    async fn leases(&self) -> Result<Vec<Lease>> {
        self.open()?;
        let conn = self.shared.leases.conn().await?;
        let rows = conn.query(sql!("leases"), &[]).await?;
        self.check_tables(&rows, 4)?;
        Ok(rows.iter().map(read_lease).collect::<Read<_>>()?)
    }
}

impl PostgresStore {
    /// A dump that is restored under open connections brings other tables, and old rows in them.
    fn check_tables(&self, rows: &[Row], column: usize) -> Result<()> {
        for row in rows {
            if !self.shared.instance.has_tables(codec::value(row, column)?) {
                self.shared.origin.connect_anew();
                let restored = "the tables of the database are not those of before: it was restored; connecting again";
                tracing::warn!("{restored}");
                return Err(StoreError::Unavailable(restored.to_owned()));
            }
        }
        Ok(())
    }
}

fn read_lease(row: &Row) -> Read<Lease> {
    let has_owner = codec::value::<Option<Uuid>>(row, 2)?.is_some();
    Ok(Lease {
        shard: codec::shard(row, 0)?,
        epoch: codec::epoch(row, 1)?,
        owner: has_owner.then(|| codec::server_id(row, 2)).transpose()?,
        until: codec::time(row, 3)?,
    })
}

fn read_owned(rows: &[Row]) -> Result<Vec<Owned>> {
    let read = |row: &Row| Ok(Owned { shard: codec::shard(row, 0)?, epoch: codec::epoch(row, 1)? });
    let mut owned = rows.iter().map(read).collect::<Read<Vec<_>>>()?;
    // RETURNING promises no order.
    owned.sort_unstable();
    Ok(owned)
}

/// How many shards the store has; a new one gets `wanted`.
pub(crate) async fn shard_count(conn: &Conn, wanted: u16) -> Result<u16> {
    if wanted == 0 || wanted > ShardId::COUNT_MAX {
        return Err(StoreError::Inconsistent(format!("a store has 1 to {} shards, not {wanted}", ShardId::COUNT_MAX)));
    }
    let made = make_shards(conn, wanted).await;
    if made.is_err() {
        // The connection ends with the error.
        let _ = conn.run("ROLLBACK").await;
    }
    let count: String = made?;
    count.parse().map_err(|_| StoreError::Inconsistent(format!("the store says that it has {count} shards")))
}

async fn make_shards(conn: &Conn, wanted: u16) -> std::result::Result<String, Trouble> {
    conn.run("BEGIN").await?;
    // Whoever starts at the same time waits here for the commit.
    let new = conn
        .execute(
            "INSERT INTO meta (key, value) VALUES ('shard_count', $1) ON CONFLICT (key) DO NOTHING",
            &[&wanted.to_string()],
        )
        .await?;
    if new == 1 {
        conn.run("INSERT INTO meta (key, value) VALUES ('generation', '0'), ('fingerprint', ''), ('history', '')")
            .await?;
        conn.execute(
            "INSERT INTO shard (id, epoch, owner, lease_until)
             SELECT id, 0, NULL, 0 FROM generate_series(0, $1::integer - 1) AS every (id)",
            &[&i32::from(wanted)],
        )
        .await?;
    }
    let row = conn.query_opt("SELECT value FROM meta WHERE key = 'shard_count'", &[]).await?;
    conn.run("COMMIT").await?;
    Ok(row.map_or_else(String::new, |row| row.get(0)))
}
