//! How the running attempts that a namespace may have are divided among the servers.

use std::collections::BTreeMap;

use async_trait::async_trait;
use punctual_core::running_places::{Account, Accounts, Exchanged, RunningReport};
use punctual_core::{NamespaceId, ServerId, Timestamp};
use punctual_store::{Result, RunningPlaces, shards_from_bytes, shards_to_bytes};
use rusqlite::{Connection, Row, params};

use crate::writer::Failure;
use crate::{SqliteStore, codec, sql};

type Done<T> = std::result::Result<T, Failure>;

#[async_trait]
impl RunningPlaces for SqliteStore {
    async fn exchange_places(
        &self,
        server: ServerId,
        seq: u64,
        report: RunningReport,
        now: Timestamp,
    ) -> Result<Option<Vec<(NamespaceId, u64)>>> {
        self.write(1, move |db| db.all_or_nothing(|db| exchange(&db.conn, server, seq, &report, now))).await
    }

    async fn running_attempts(&self, namespace: NamespaceId) -> Result<u64> {
        let read = move |conn: &Connection| {
            let mut statement = conn.prepare_cached(sql!("running_attempts"))?;
            let running: i64 = statement.query_row([namespace.0], |row| row.get(0))?;
            Ok(running.unsigned_abs())
        };
        self.shared.people_reads.read(read).await
    }
}

fn exchange(
    conn: &Connection,
    server: ServerId,
    seq: u64,
    report: &RunningReport,
    now: Timestamp,
) -> Done<Option<Vec<(NamespaceId, u64)>>> {
    let seq = i64::try_from(seq).map_err(|_| Failure::inconsistent("no server reports so often"))?;
    let shards = shards_to_bytes(&report.shards);
    let reported = params![server.to_bytes(), seq, shards];
    if conn.prepare_cached(sql!("put_running_server"))?.execute(reported)? == 0 {
        return Ok(None);
    }
    let Exchanged { places, accounts, gone } = accounts(conn)?.exchange(server, report, now);
    for (namespace, Account { running, places, waiting, served_at }) in accounts {
        let count = |figure: u64| i64::try_from(figure).unwrap_or(i64::MAX);
        let (running, places, waiting) = (count(running), count(places), count(waiting));
        let row = params![namespace.0, server.to_bytes(), running, places, waiting, served_at.as_micros()];
        conn.prepare_cached(sql!("put_running_place"))?.execute(row)?;
    }
    for gone in gone {
        conn.prepare_cached(sql!("drop_running_server"))?.execute([gone.to_bytes()])?;
        conn.prepare_cached(sql!("drop_running_places"))?.execute([gone.to_bytes()])?;
    }
    Ok(Some(places))
}

fn accounts(conn: &Connection) -> Done<Accounts> {
    let owner =
        |row: &Row<'_>| Ok((codec::shard(row, 0)?, codec::epoch(row, 1)?, codec::or_none(row, 2, codec::server_id)?));
    let owners = conn.prepare_cached(sql!("leases"))?.query_map([], owner)?.collect::<rusqlite::Result<_>>()?;
    let reported = |row: &Row<'_>| Ok((codec::server_id(row, 0)?, shards_from_bytes(&row.get::<_, Vec<u8>>(1)?)));
    let mut statement = conn.prepare_cached(sql!("running_servers"))?;
    let reported = statement.query_map([], reported)?.collect::<rusqlite::Result<BTreeMap<_, _>>>()?;
    let account = |row: &Row<'_>| {
        let count = |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.unsigned_abs());
        let (running, places, waiting) = (count(2)?, count(3)?, count(4)?);
        let account = Account { running, places, waiting, served_at: codec::time(row, 5)? };
        Ok(((codec::namespace(row, 0)?, codec::server_id(row, 1)?), account))
    };
    let mut statement = conn.prepare_cached(sql!("running_places"))?;
    let accounts = statement.query_map([], account)?.collect::<rusqlite::Result<BTreeMap<_, _>>>()?;
    Ok(Accounts { owners, reported, accounts })
}
