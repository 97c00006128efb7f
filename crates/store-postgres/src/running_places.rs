//! How the running attempts that a namespace may have are divided among the servers.

use std::collections::BTreeMap;

use async_trait::async_trait;
use punctual_core::running_places::{Account, Accounts, Exchanged, RunningReport};
use punctual_core::{NamespaceId, ServerId, Timestamp};
use punctual_store::{Result, RunningPlaces, shards_from_bytes, shards_to_bytes};
use tokio_postgres::Row;

use crate::codec::{self, Read, Uuid, namespace_number};
use crate::connection::Conn;
use crate::trouble::Trouble;
use crate::{PostgresStore, sql};

type Done<T> = std::result::Result<T, Trouble>;

#[async_trait]
impl RunningPlaces for PostgresStore {
    async fn exchange_places(
        &self,
        server: ServerId,
        seq: u64,
        report: RunningReport,
        now: Timestamp,
    ) -> Result<Option<Vec<(NamespaceId, u64)>>> {
        self.open()?;
        let conn = self.shared.owner_reads.take().await?;
        let exchanged = exchange(&conn, server, seq, &report, now).await;
        conn.run(if matches!(exchanged, Ok(Some(_))) { "COMMIT" } else { "ROLLBACK" }).await?;
        conn.done();
        Ok(exchanged?)
    }

    async fn running_attempts(&self, namespace: NamespaceId) -> Result<u64> {
        self.open()?;
        let conn = self.shared.people_reads.take().await?;
        let row = conn.query_opt(sql!("running_attempts"), &[&namespace_number(namespace)]).await?;
        conn.done();
        let row = row.ok_or_else(|| Trouble::inconsistent("a row was expected"))?;
        Ok(codec::value::<i64>(&row, 0)?.unsigned_abs())
    }
}

/// To be rolled back unless it has an answer.
async fn exchange(
    conn: &Conn,
    server: ServerId,
    seq: u64,
    report: &RunningReport,
    now: Timestamp,
) -> Done<Option<Vec<(NamespaceId, u64)>>> {
    let id = Uuid::from(server);
    let seq = i64::try_from(seq).map_err(|_| Trouble::inconsistent("no server reports so often"))?;
    conn.run("BEGIN").await?;
    conn.query(sql!("lock_count"), &[&"running_places"]).await?;
    if conn.execute(sql!("put_running_server"), &[&id, &seq, &shards_to_bytes(&report.shards)]).await? == 0 {
        return Ok(None);
    }
    let Exchanged { places, accounts, gone } = accounts(conn).await?.exchange(server, report, now);
    let count = |figure: u64| i64::try_from(figure).unwrap_or(i64::MAX);
    for (namespace, Account { running, places, waiting, served_at }) in accounts {
        let (running, places, waiting) = (count(running), count(places), count(waiting));
        let (namespace, served_at) = (namespace_number(namespace), served_at.as_micros());
        conn.execute(sql!("put_running_place"), &[&namespace, &id, &running, &places, &waiting, &served_at]).await?;
    }
    if !gone.is_empty() {
        let gone: Vec<Uuid> = gone.into_iter().map(Uuid::from).collect();
        conn.execute(sql!("drop_running_servers"), &[&gone]).await?;
        conn.execute(sql!("drop_running_places"), &[&gone]).await?;
    }
    Ok(Some(places))
}

async fn accounts(conn: &Conn) -> Done<Accounts> {
    let owner = |row: &Row| {
        let has_owner = codec::value::<Option<Uuid>>(row, 2)?.is_some();
        let owner = if has_owner { Some(codec::server_id(row, 2)?) } else { None };
        Ok((codec::shard(row, 0)?, codec::epoch(row, 1)?, owner))
    };
    let owners = conn.query(sql!("leases"), &[]).await?.iter().map(owner).collect::<Read<_>>()?;
    let reported = |row: &Row| Ok((codec::server_id(row, 0)?, shards_from_bytes(codec::value::<&[u8]>(row, 1)?)));
    let rows = conn.query(sql!("running_servers"), &[]).await?;
    let reported = rows.iter().map(reported).collect::<Read<BTreeMap<_, _>>>()?;
    let account = |row: &Row| {
        let count = |column| Ok::<_, Trouble>(codec::value::<i64>(row, column)?.unsigned_abs());
        let (running, places, waiting) = (count(2)?, count(3)?, count(4)?);
        let account = Account { running, places, waiting, served_at: codec::time(row, 5)? };
        Ok(((codec::namespace(row, 0)?, codec::server_id(row, 1)?), account))
    };
    let rows = conn.query(sql!("running_places"), &[]).await?;
    let accounts = rows.iter().map(account).collect::<Read<BTreeMap<_, _>>>()?;
    Ok(Accounts { owners, reported, accounts })
}
