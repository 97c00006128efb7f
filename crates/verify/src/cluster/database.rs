//! The database of a cluster.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Context;
use punctual_local_postgres::{Postgres, Settings};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    /// SQLite, for one server.
    Embedded,
    /// PostgreSQL with everything that keeps what it has said.
    Postgres,
    /// The same without waiting for the disk: what a killed process loses is nothing still.
    QuickPostgres,
    /// Two of them, of which the second follows, and has what the first acknowledges.
    Replicated,
    /// Two of them, of which the second follows as soon as it can.
    Lagging,
}

/// The name of the cluster's database in PostgreSQL.
const NAME: &str = "punctual";
/// The standby, as the primary knows it.
const STANDBY: &str = "standby";

pub struct Database {
    pub primary: Option<Postgres>,
    pub standby: Option<Postgres>,
}

impl Database {
    pub fn start(kind: &DatabaseKind, _folder: &Path) -> anyhow::Result<Self> {
        let settings = match kind {
            DatabaseKind::Embedded => return Ok(Self { primary: None, standby: None }),
            DatabaseKind::QuickPostgres => Settings::test(),
            DatabaseKind::Postgres | DatabaseKind::Replicated | DatabaseKind::Lagging => {
                Settings::durable().set("shared_buffers", "128MB")
            }
        };
        let primary = settings.start().context("cannot start PostgreSQL")?;
        primary.create_database(NAME)?;
        let mut standby = None;
        if matches!(kind, DatabaseKind::Replicated | DatabaseKind::Lagging) {
            // The name that the standby gives itself in its connection to the primary.
            let follower = settings.set("cluster_name", STANDBY).standby_of(&primary);
            standby = Some(follower.context("cannot make a standby")?);
        }
        if *kind == DatabaseKind::Replicated {
            primary.execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'"))?;
            primary.execute("SELECT pg_reload_conf()")?;
        }
        Ok(Self { primary: Some(primary), standby })
    }

    /// From now on the standby receives nothing any more.
    pub fn cut_standby_off(&self) -> anyhow::Result<()> {
        let standby = self.standby.as_ref().context("there is no standby")?;
        standby.execute("ALTER SYSTEM SET primary_conninfo = ''")?;
        standby.execute("SELECT pg_reload_conf()")?;
        while standby.execute("SELECT count(*) FROM pg_stat_wal_receiver")? != "0" {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(())
    }

    pub fn address(&self) -> Option<SocketAddr> {
        let primary = self.primary.as_ref()?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, primary.port())))
    }

    /// What a server is told, by way of a proxy if there is one.
    pub fn url(&self, proxy: Option<SocketAddr>) -> Option<String> {
        let primary = self.primary.as_ref()?;
        let url = primary.url_for(NAME);
        let direct = format!("127.0.0.1:{}", primary.port());
        Some(match (proxy, &self.standby) {
            (Some(proxy), _) => url.replace(&direct, &proxy.to_string()),
            (None, Some(standby)) => {
                let both = format!("{direct},127.0.0.1:{}", standby.port());
                format!("{}?target_session_attrs=read-write", url.replace(&direct, &both))
            }
            (None, None) => url,
        })
    }

    /// Runs SQL in the cluster's database.
    pub fn execute(&self, sql: &str) -> anyhow::Result<String> {
        let primary = self.primary.as_ref().context("the database is embedded")?;
        Ok(primary.execute_in(NAME, sql)?)
    }
}
