//! The store for one machine: one SQLite file, one writer thread, group commit.
//!
//! Every write goes through the writer and is answered after its COMMIT; reads
//! have connections of their own and never wait for it. The file belongs to one
//! process at a time. Decides nothing: it applies what core decided, under the
//! fence read in the same transaction. The port is `punctual-store`; the modules
//! here carry its names.

mod answers;
mod archive;
mod artifacts;
mod audit;
mod authorities;
mod backfills;
mod batches;
mod check;
mod cluster_secret;
mod codec;
mod commits;
mod connection;
mod enrolments;
mod fault;
mod health;
mod identities;
mod jobs;
mod leases;
mod lock;
mod logs;
mod members;
mod migrate;
mod namespaces;
mod notices;
mod options;
mod queues;
mod quotas;
mod reader;
mod requesters;
mod retention;
mod running_places;
mod schedules;
mod secrets;
mod tasks;
mod transitions;
mod workers;
mod workflows;
mod writer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::{JobId, TaskId};
use punctual_store::{Result, Store};

pub use check::{Checked, check_whole};
pub use commits::DataLoss;
pub use options::{Clock, Durability, Options};

use commits::{Beside, Commits, Past};
use health::Health;
use lock::Antechamber;
use reader::Readers;
use rusqlite::Connection;
use writer::{Db, Failure, Writer};

/// The whole text of `queries/<name>.sql`, as a literal.
macro_rules! sql_text {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/queries/", $name, ".sql"))
    };
}
pub(crate) use sql_text;

/// The statement of `queries/<name>.sql`, without the comment above it. Prepared statements are found by their whole text,
/// and the comment is mostly longer than the rest.
macro_rules! sql {
    ($name:literal) => {
        const { $crate::statement_of($crate::sql_text!($name)) }
    };
}
pub(crate) use sql;

/// The text behind the lines at its beginning that are comments.
const fn statement_of(text: &str) -> &str {
    let bytes = text.as_bytes();
    let mut begin = 0;
    while begin + 1 < bytes.len() && bytes[begin] == b'-' && bytes[begin + 1] == b'-' {
        while begin < bytes.len() && bytes[begin] != b'\n' {
            begin += 1;
        }
        begin += 1;
    }
    text.split_at(begin).1
}

/// A handle; clones share one open file, which is closed with the last of them.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    // In the order of dropping: the writer drains first, the lock goes last.
    writer: Writer,
    health: Arc<Health>,
    path: PathBuf,
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
    ///
    /// Refuses a file that another process has open, one that is damaged, and one that lacks commits which were
    /// acknowledged.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        let antechamber = Antechamber::enter(path)?;
        let beside = Beside::read(path)?;
        beside.check_presence(path)?;
        beside.check_header(path)?;
        let lock = antechamber.lock(path)?;
        let mut conn = connection::open_writer(path, &options)?;
        let past = examine(&mut conn, path, &beside, &options)?;
        migrate::run(&mut conn, migrate::MIGRATIONS, (options.clock)()).map_err(|error| error.into_error(path))?;
        let shard_count = leases::shard_count(&conn, path, options.shard_count)?;
        if past == Past::MayBeLost {
            commits::begin_generation(path, &conn, (options.clock)())?;
        }
        let log = connection::grow_wal(path, options.wal_kept_bytes)?;
        let commits = Commits::open(path, &conn, log, options.durability)?;
        let files = [path.to_owned(), lock::beside(path, "-wal")];
        let health = Health::new(path, &files).map_err(|error| fault::error_of_io(path, "cannot watch", &error))?;
        let health = Arc::new(health);
        let owner_reads = Readers::open(path, OWNER_CONNECTIONS, &health)?;
        let people_reads = Readers::open(path, PEOPLE_CONNECTIONS, &health)?;
        let writer = Writer::start(Db::new(conn, Some(commits)), Arc::clone(&health))?;
        let shared = Shared {
            writer,
            health,
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
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

/// A start on a million jobs is to take no longer than people notice, unless there is a reason.
const CHECK_UNTOUCHED: Duration = Duration::from_millis(50);
/// After a kill, a power cut, or somebody's hand in the file.
const CHECK_TOUCHED: Duration = Duration::from_secs(2);

/// Looks for damage and for lost commits before anything is written.
fn examine(conn: &mut Connection, path: &Path, beside: &Beside, options: &Options) -> Result<Past> {
    let limit = if beside.is_untouched(path) { CHECK_UNTOUCHED } else { CHECK_TOUCHED };
    let checked = check::check_within(conn, path, limit)?;
    if !checked.is_whole() {
        tracing::info!(
            "the database is too large to be checked as a whole within {limit:?} of the start; `punctual doctor` does"
        );
    }
    beside.check_commits(path, conn, options.data_loss)
}

#[async_trait]
impl Store for SqliteStore {
    fn description(&self) -> String {
        format!("sqlite, synchronous={}", self.shared.durability.as_str())
    }

    fn location(&self) -> Option<PathBuf> {
        Some(self.shared.path.clone())
    }

    async fn probe(&self) -> Result<()> {
        // The commit is counted in the database, so it writes a page.
        self.write(1, |_| Ok(())).await?;
        self.shared.health.recovered()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_statement_is_the_text_without_the_comment_above_it() {
        assert_eq!(super::statement_of("-- One.\n-- Two.\nSELECT 1 -- three\n"), "SELECT 1 -- three\n");
        assert_eq!(super::statement_of("SELECT 1"), "SELECT 1");
        assert!(sql!("take_job").starts_with("DELETE FROM job"));
    }
}
