//! The store for clusters: PostgreSQL 15 or later, on a few connections with prepared
//! statements. No extensions, no advisory locks, no superuser.
//!
//! Batches of an owner go through lanes, in order and one round trip each; submissions that
//! arrive while one group is committed form the next. Renewals, the owner's reads and people's reads have
//! connections of their own, so that none waits behind another. Every connection is made
//! again when it is lost; meanwhile calls are answered with `Unavailable`. Decides nothing: it applies
//! what core decided, under the fence locked in the same transaction. The port is
//! `punctual-store`; the modules here carry its names.

mod archive;
mod artifacts;
mod audit;
mod authorities;
mod backfills;
mod batches;
mod cluster_secret;
mod codec;
mod connection;
mod enrolments;
mod health;
mod identities;
mod instance;
mod jobs;
mod leases;
mod link;
mod logs;
mod members;
mod memory;
mod migrate;
mod namespaces;
mod nodes;
mod notices;
mod options;
mod partitions;
mod pipeline;
#[cfg(test)]
mod plans;
mod queues;
mod quotas;
mod requesters;
mod retention;
mod running_places;
mod schedules;
mod secrets;
mod target;
mod tasks;
mod tls;
mod transitions;
mod trouble;
mod workers;
mod workflows;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use punctual_core::{JobId, Span, TaskId};
use punctual_store::{Result, Store, StoreError};

pub use health::{Health, health};
pub use migrate::{migrate, migrations, pending_sql};
pub use options::{Clock, LANES, Migrate, Options};

use connection::{Class, Conn};
use instance::Instance;
use jobs::{Submitter, Submitting};
use link::{Link, Origin, Pool};
use memory::Memory;
use transitions::{Applying, Lanes};

/// The text of `queries/<name>.sql`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// A handle; clones share the connections, which end with the last of them.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

struct Shared {
    origin: Arc<Origin>,
    lanes: Lanes,
    submitter: Submitter,
    heartbeat: Link,
    leases: Link,
    logs: Link,
    owner_reads: Pool,
    people_reads: Pool,
    /// For dispatches and steps of backfills: they wait for each other, and nobody else waits for them.
    steps: Pool,
    /// For runs of workflows that are started and changed: people wait for them.
    runs: Pool,
    maintenance: Arc<Pool>,
    instance: Arc<Instance>,
    memory: Memory,
    clock: Option<Clock>,
    shard_count: u16,
    description: String,
    /// Which of them the log names already.
    unreadable_tasks: Mutex<HashSet<TaskId>>,
    /// `None`: not even its id can be read.
    unreadable_jobs: Mutex<HashSet<Option<JobId>>>,
    /// Of the tables about notifications: which, and the row's key.
    unreadable_reports: Mutex<HashSet<(&'static str, String)>>,
    is_closed: AtomicBool,
}

/// The owner's loads must not queue behind somebody's list of a million jobs.
const OWNER_CONNECTIONS: usize = 2;
const PEOPLE_CONNECTIONS: usize = 2;
/// Made when it is needed.
const STEP_CONNECTIONS: usize = 1;
/// Made when they are needed. A start of a run is half a dozen statements, and while one waits for its commit others are sent.
const RUN_CONNECTIONS: usize = 4;
/// One prunes while another makes a partition that a batch waits for.
const MAINTENANCE_CONNECTIONS: usize = 2;

impl PostgresStore {
    /// Connects, and brings an older schema up to date.
    pub async fn connect(options: Options) -> Result<Self> {
        if options.lanes == 0 {
            return Err(StoreError::Inconsistent("a store needs at least one lane".to_owned()));
        }
        let origin = Arc::new(Origin::new(&options.url)?);
        let conn = origin.open(Class::Maintenance).await?;
        let described = describe(&conn).await?;
        match options.migrate {
            Migrate::Apply => drop(migrate::run(&conn).await?),
            Migrate::Check => migrate::check(&conn).await?,
        }
        let shard_count = leases::shard_count(&conn, options.shard_count).await?;
        drop(conn);
        let memory = Memory::new(options.history_step);
        let instance = Arc::new(Instance::new(options.generation, shard_count, memory.clone()));
        let link = |class| Link::new(origin.clone(), class, instance.clone());
        let pool = |class, count| Pool::new(&origin, class, count, &instance);
        let maintenance = Arc::new(pool(Class::Maintenance, MAINTENANCE_CONNECTIONS));
        let applying = Applying {
            links: (0..options.lanes).map(|_| link(Class::Lane)).collect(),
            maintenance: maintenance.clone(),
            memory: memory.clone(),
        };
        let submitting = Submitting { link: link(Class::Submit), known_tasks: memory.tasks.clone(), shard_count };
        let shared = Shared {
            lanes: Lanes::start(applying),
            submitter: Submitter::start(submitting),
            heartbeat: link(Class::Heartbeat),
            leases: link(Class::Leases),
            logs: link(Class::Submit),
            owner_reads: pool(Class::Owner, OWNER_CONNECTIONS),
            people_reads: pool(Class::People, PEOPLE_CONNECTIONS),
            steps: pool(Class::Submit, STEP_CONNECTIONS),
            runs: pool(Class::Submit, RUN_CONNECTIONS),
            maintenance,
            instance: instance.clone(),
            origin: origin.clone(),
            memory,
            clock: options.clock,
            shard_count,
            description: described,
            unreadable_tasks: Mutex::default(),
            unreadable_jobs: Mutex::default(),
            unreadable_reports: Mutex::default(),
            is_closed: AtomicBool::new(false),
        };
        let store = Self { shared: Arc::new(shared) };
        store.make_partitions(options.history_step).await?;
        Ok(store)
    }

    /// Those for now, and those after them.
    async fn make_partitions(&self, step: Span) -> Result<()> {
        use punctual_store::Leases;
        let now = self.now().await?;
        for at in [now, now + step] {
            let memory = &self.shared.memory;
            for partitions in [&memory.partitions, &memory.occurrence_partitions] {
                partitions.ensure(&self.shared.maintenance, at.as_micros(), now).await?;
            }
        }
        Ok(())
    }

    /// Answers what is queued and ends the connections.
    /// Calls after this are answered with `Closed`.
    pub async fn close(&self) -> Result<()> {
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.submitter.close().await;
        self.shared.lanes.close().await;
        self.shared.owner_reads.close();
        self.shared.people_reads.close();
        self.shared.steps.close();
        self.shared.runs.close();
        self.shared.maintenance.close();
        Ok(())
    }

    fn open(&self) -> Result<()> {
        if self.shared.is_closed.load(Ordering::Relaxed) { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// The time of a clock that stands still, or nothing: then PostgreSQL's own counts.
    fn test_now(&self) -> Option<i64> {
        self.shared.clock.as_ref().map(|clock| clock().as_micros())
    }
}

/// Such as `postgresql 15.18, synchronous_commit=on`.
async fn describe(conn: &Conn) -> Result<String> {
    let row = conn
        .query_opt(
            "SELECT split_part(current_setting('server_version'), ' ', 1), current_setting('server_version_num')::int,
                    current_setting('synchronous_commit'), current_setting('fsync')",
            &[],
        )
        .await?
        .ok_or_else(|| StoreError::Unavailable("PostgreSQL does not describe itself".to_owned()))?;
    let (version, number, commit, fsync): (String, i32, String, String) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    if number < 150_000 {
        return Err(StoreError::Schema(format!("this is PostgreSQL {version}, and at least 15 is needed")));
    }
    if commit == "off" || fsync == "off" {
        tracing::warn!(synchronous_commit = commit, fsync, "PostgreSQL may lose what it has acknowledged");
    }
    let fsync = if fsync == "off" { ", fsync=off" } else { "" };
    Ok(format!("postgresql {version}, synchronous_commit={commit}{fsync}"))
}

#[async_trait]
impl Store for PostgresStore {
    fn description(&self) -> String {
        self.shared.description.clone()
    }

    async fn probe(&self) -> Result<()> {
        self.open()?;
        let conn = self.shared.heartbeat.conn().await?;
        conn.execute(sql!("probe"), &[]).await?;
        let missing = conn.query_opt(sql!("missing_table"), &[&migrate::tables()]).await?;
        missing.map_or(Ok(()), |row| Err(trouble::missing_table(row.get(0))))
    }
}
