//! The store for one machine: one SQLite file, one writer thread, group commit.
//!
//! Every write goes through the writer and is answered after its COMMIT; reads
//! have connections of their own and never wait for it. The file belongs to one
//! process at a time. Decides nothing: it applies what core decided, under the
//! fence read in the same transaction. The port is `punctual-store`; the modules
//! here carry its names.

mod archive;
mod artifacts;
mod backfills;
mod codec;
mod connection;
mod jobs;
mod leases;
mod lock;
mod logs;
mod members;
mod migrate;
mod notices;
mod options;
mod reader;
mod retention;
mod schedules;
mod tasks;
mod transitions;
mod writer;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use punctual_core::{JobId, TaskId};
use punctual_store::{Result, Store};

pub use options::{Clock, Durability, Options};

use reader::Readers;
use writer::{Db, Failure, Writer};

/// The text of `queries/<name>.sql`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/", $name, ".sql"))
    };
}
pub(crate) use sql;

/// A handle; clones share one open file, which is closed with the last of them.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    // In the order of dropping: the writer drains first, the lock goes last.
    writer: Writer,
    owner_reads: Readers,
    people_reads: Readers,
    clock: Clock,
    durability: Durability,
    shard_count: u16,
    /// Which of them the log names already.
    unreadable_tasks: Mutex<HashSet<TaskId>>,
    /// `None`: not even its id can be read.
    unreadable_jobs: Mutex<HashSet<Option<JobId>>>,
    /// Of the tables about notifications: which, and the row's key.
    unreadable_reports: Mutex<HashSet<(&'static str, String)>>,
    _lock: lock::Lock,
}

/// The owner's loads must not queue behind somebody's list of a million jobs.
const OWNER_CONNECTIONS: usize = 2;
const PEOPLE_CONNECTIONS: usize = 2;

impl SqliteStore {
    /// Opens the file, or makes it. Brings an older schema up to date.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        let lock = lock::Lock::take(path)?;
        let mut conn = connection::open_writer(path, &options)?;
        migrate::run(&mut conn, &migrate::MIGRATIONS, (options.clock)())?;
        let shard_count = leases::shard_count(&conn, options.shard_count)?;
        connection::grow_wal(path, options.wal_kept_bytes)?;
        let owner_reads = Readers::open(path, OWNER_CONNECTIONS)?;
        let people_reads = Readers::open(path, PEOPLE_CONNECTIONS)?;
        let writer = Writer::start(Db::new(conn))?;
        let shared = Shared {
            writer,
            owner_reads,
            people_reads,
            clock: options.clock,
            durability: options.durability,
            shard_count,
            unreadable_tasks: Mutex::default(),
            unreadable_jobs: Mutex::default(),
            unreadable_reports: Mutex::default(),
            _lock: lock,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Answers what is queued, moves the log into the file and ends the writer.
    /// Calls after this are answered with `Closed`.
    pub async fn close(&self) -> Result<()> {
        self.shared.writer.close().await
    }

    /// Runs `run` in the writer's next transaction. `rows` is about how many rows it writes.
    async fn write<T: Send + 'static>(
        &self,
        rows: usize,
        run: impl FnOnce(&mut Db) -> std::result::Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        self.shared.writer.write(rows, run).await
    }
}

impl Store for SqliteStore {
    fn description(&self) -> String {
        format!("sqlite, synchronous={}", self.shared.durability.as_str())
    }
}
