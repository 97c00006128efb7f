//! Who owns which shard, and until when.

use std::path::Path;

use async_trait::async_trait;
use punctual_core::{ServerId, ShardId, Span, Timestamp};
use punctual_store::{Lease, Leases, Owned, Result, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::fault::error_of;
use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

#[async_trait]
impl Leases for SqliteStore {
    async fn now(&self) -> Result<Timestamp> {
        Ok((self.shared.clock)())
    }

    fn shard_count(&self) -> u16 {
        self.shared.shard_count
    }

    /// One process has the file at a time, so that it is the same for as long as the process lives.
    fn generation(&self) -> u64 {
        0
    }

    async fn acquire(&self, server: ServerId, ttl: Span, limit: usize) -> Result<Vec<Owned>> {
        let clock = self.shared.clock.clone();
        self.write(1, move |db| {
            let now = clock();
            let mut statement = db.conn.prepare_cached(sql!("shards_free"))?;
            let free = statement
                .query_map(params![now.as_micros(), limit as i64], |row| codec::shard(row, 0))?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            free.into_iter().map(|shard| take(&db.conn, server, shard, now + ttl)).collect()
        })
        .await
    }

    async fn take_over(&self, server: ServerId, mut shards: Vec<ShardId>, ttl: Span) -> Result<Vec<Owned>> {
        let clock = self.shared.clock.clone();
        shards.sort_unstable();
        shards.dedup();
        self.write(1, move |db| {
            let until = clock() + ttl;
            db.all_or_nothing(|db| shards.iter().map(|&shard| take(&db.conn, server, shard, until)).collect())
        })
        .await
    }

    async fn renew(&self, server: ServerId, ttl: Span) -> Result<Vec<Owned>> {
        let clock = self.shared.clock.clone();
        self.write(1, move |db| {
            let until = clock() + ttl;
            let mut statement = db.conn.prepare_cached(sql!("renew_leases"))?;
            let mut owned = statement
                .query_map(params![server.to_bytes(), until.as_micros()], read_owned)?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            // RETURNING promises no order.
            owned.sort_unstable();
            Ok(owned)
        })
        .await
    }

    async fn release(&self, server: ServerId) -> Result<()> {
        self.write(1, move |db| {
            db.conn.prepare_cached(sql!("release_leases"))?.execute([server.to_bytes()])?;
            Ok(())
        })
        .await
    }

    async fn give_up(&self, server: ServerId, shards: Vec<ShardId>) -> Result<()> {
        self.write(1, move |db| {
            let mut statement = db.conn.prepare_cached(sql!("give_up_shard"))?;
            for shard in shards {
                statement.execute(params![server.to_bytes(), shard.0])?;
            }
            Ok(())
        })
        .await
    }

    async fn leases(&self) -> Result<Vec<Lease>> {
        let read = |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("leases"))?;
            let leases = statement.query_map([], read_lease)?.collect::<rusqlite::Result<Vec<_>>>()?;
            Ok(leases)
        };
        self.shared.people_reads.read(read).await
    }
}

fn read_lease(row: &Row<'_>) -> rusqlite::Result<Lease> {
    let has_owner = row.get_ref(2)? != rusqlite::types::ValueRef::Null;
    Ok(Lease {
        shard: codec::shard(row, 0)?,
        epoch: codec::epoch(row, 1)?,
        owner: has_owner.then(|| codec::server_id(row, 2)).transpose()?,
        until: codec::time(row, 3)?,
    })
}

fn take(conn: &Connection, server: ServerId, shard: ShardId, until: Timestamp) -> std::result::Result<Owned, Failure> {
    conn.prepare_cached(sql!("take_shard"))?
        .query_row(params![shard.0, server.to_bytes(), until.as_micros()], read_owned)
        .optional()?
        .ok_or_else(|| Failure::inconsistent(format!("there is no shard {shard}")))
}

fn read_owned(row: &Row<'_>) -> rusqlite::Result<Owned> {
    Ok(Owned { shard: codec::shard(row, 0)?, epoch: codec::epoch(row, 1)? })
}

/// How many shards the file has; a new one gets `wanted`.
pub(crate) fn shard_count(conn: &Connection, path: &Path, wanted: u16) -> Result<u16> {
    if wanted == 0 || wanted > ShardId::COUNT_MAX {
        return Err(StoreError::Inconsistent(format!("a store has 1 to {} shards, not {wanted}", ShardId::COUNT_MAX)));
    }
    let read_or_make = || -> rusqlite::Result<u16> {
        let tx = conn.unchecked_transaction()?;
        let known =
            tx.query_row("SELECT value FROM meta WHERE key = 'shard_count'", [], |row| row.get(0)).optional()?;
        if let Some(count) = known {
            return Ok(count);
        }
        tx.execute("INSERT INTO meta (key, value) VALUES ('shard_count', ?1)", [wanted])?;
        for shard in 0..wanted {
            tx.execute("INSERT INTO shard (id, epoch, owner, lease_until) VALUES (?1, 0, NULL, 0)", [shard])?;
        }
        tx.commit()?;
        Ok(wanted)
    };
    read_or_make().map_err(|error| error_of(path, "cannot use", &error))
}
