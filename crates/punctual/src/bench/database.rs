//! A PostgreSQL database of a run's own, and what the run costs it.

use std::time::Duration;

use anyhow::Context;
use tokio_postgres::{Client, Config, NoTls};

/// A fresh database beside the one that was named, gone at the end.
pub(crate) struct Database {
    /// A connection to the database that was named, through which the fresh one is made and dropped.
    admin: Client,
    meter: Client,
    name: String,
    pub(crate) url: String,
}

/// What PostgreSQL had written at some moment, and how many transactions had written it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reading {
    pub(crate) wal_bytes: i64,
    pub(crate) commits: i64,
}

impl Database {
    pub(crate) async fn create(url: &str) -> anyhow::Result<Self> {
        let admin = connect(url).await?;
        let name = format!("punctual_bench_{}_{}", std::process::id(), crate::clock::now().as_micros());
        let made = admin.batch_execute(&format!("CREATE DATABASE {name}")).await;
        made.context("cannot make a database for the run: its user needs the right CREATEDB")?;
        let url = with_database(url, &name)?;
        let meter = connect(&url).await?;
        Ok(Self { admin, meter, name, url })
    }

    pub(crate) async fn reading(&self) -> anyhow::Result<Reading> {
        let row = self
            .meter
            .query_one(
                // Transaction numbers, because the statistics lag behind.
                "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint, \
                 pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
                &[],
            )
            .await?;
        Ok(Reading { wal_bytes: row.get(0), commits: row.get(1) })
    }

    /// Lets the database finish what a large load left to it, so that it does not do so beside what is
    /// measured next. It may be forbidden, and then there is nothing to be done.
    pub(crate) async fn settle(&self) {
        for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
            if let Err(error) = self.meter.batch_execute(statement).await {
                tracing::debug!(%error, statement, "the database was not settled");
            }
        }
    }

    /// Holds a snapshot until the answer is dropped: what dies meanwhile cannot be cleaned away.
    pub(crate) async fn pin(&self) -> anyhow::Result<Client> {
        let client = connect(&self.url).await?;
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()").await?;
        Ok(client)
    }

    pub(crate) async fn drop(self) -> anyhow::Result<()> {
        drop(self.meter);
        let name = &self.name;
        self.admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await?;
        Ok(())
    }
}

async fn connect(url: &str) -> anyhow::Result<Client> {
    let mut config: Config = url.parse().context("not the address of a PostgreSQL")?;
    config.connect_timeout(Duration::from_secs(10)).application_name("punctual bench");
    let (client, connection) = config.connect(NoTls).await.context("cannot reach PostgreSQL")?;
    tokio::spawn(connection);
    Ok(client)
}

/// The address of another database on the same server.
fn with_database(url: &str, name: &str) -> anyhow::Result<String> {
    let (scheme, rest) = url.split_once("://").context("the bench needs the database as postgres://…")?;
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let host = rest.split_once('/').map_or(rest, |(host, _)| host);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Ok(format!("{scheme}://{host}/{name}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_is_named_at_the_same_address() {
        for (url, expected) in [
            ("postgres://me@127.0.0.1:5432/jobs", "postgres://me@127.0.0.1:5432/fresh"),
            ("postgresql://me:x@h1,h2", "postgresql://me:x@h1,h2/fresh"),
            ("postgres://h/db?sslmode=disable", "postgres://h/fresh?sslmode=disable"),
        ] {
            assert_eq!(with_database(url, "fresh").unwrap(), expected);
        }
        assert!(with_database("host=127.0.0.1 dbname=x", "fresh").is_err());
    }
}
