//! Opens the store that the settings name, and closes it again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use punctual_store::{Store, StoreError, StoreFault};
use punctual_store_postgres::PostgresStore;
use punctual_store_sqlite::{DataLoss, SqliteStore};

use crate::clock;
use crate::config::{Connection, Database, Durability, ServerSettings};
use crate::exit::{conflict, failed, unreachable};

/// In the data folder.
pub(crate) const DATABASE_FILE: &str = "punctual.db";

/// What people do about a damaged file.
pub(crate) const CORRUPT_HINT: &str = "copy all its files (punctual.db*) first; then restore a backup, or repair a copy \
    with `sqlite3 punctual.db .recover | sqlite3 new.db`; see docs/health.md";

/// Between two tries to reach a database that is not there yet.
const TRY_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) enum OpenStore {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

impl OpenStore {
    pub(crate) async fn open(settings: &ServerSettings, data_loss: DataLoss) -> anyhow::Result<Self> {
        let opened = match &settings.database {
            Database::Embedded => Self::Sqlite(open_sqlite(settings, data_loss)?),
            Database::Postgres(connection) => Self::Postgres(wait_for_postgres(connection, settings).await?),
        };
        let stored = opened.as_store().shard_count();
        if let Some(asked) = settings.shards.filter(|asked| *asked != stored) {
            return Err(conflict(
                format!("the database has {stored} shards, and `shards` asks for {asked}"),
                "leave `shards` out: the first server fixed the number, and only a new database can have another",
            ));
        }
        Ok(opened)
    }

    pub(crate) fn as_store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    pub(crate) async fn close(self) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }
}

fn open_sqlite(settings: &ServerSettings, data_loss: DataLoss) -> anyhow::Result<SqliteStore> {
    let mut options = punctual_store_sqlite::Options::new(clock::wall());
    options.shard_count = settings.shards.unwrap_or(settings.database.usual_shards());
    options.durability = match settings.durability {
        Durability::Full => punctual_store_sqlite::Durability::Full,
        Durability::Normal => punctual_store_sqlite::Durability::Normal,
    };
    options.data_loss = data_loss;
    let path = settings.data_dir.join(DATABASE_FILE);
    let is_new = !path.exists();
    let store = SqliteStore::open(&path, options).map_err(not_opened)?;
    if is_new {
        tracing::info!(file = %path.display(), "made a new database");
    }
    Ok(store)
}

/// What is wrong, with what to do about it.
fn not_opened(error: StoreError) -> anyhow::Error {
    let hint = match &error {
        StoreError::InUse(_) => {
            "talk to that server, or stop it; another one needs a folder of its own: name it with --data-dir"
        }
        StoreError::Faulty { fault: StoreFault::DiskFull, .. } => {
            "make room on that disk, or name another folder with --data-dir"
        }
        StoreError::Faulty { fault: StoreFault::Corrupt, .. } => CORRUPT_HINT,
        StoreError::Faulty { fault: StoreFault::FileReplaced | StoreFault::ReadOnly, .. } => {
            "make the folder writable, or name another with --data-dir"
        }
        _ => return error.into(),
    };
    failed(error.to_string(), hint)
}

/// A database and its servers may be started together, so one that is not there yet is
/// waited for; one that is wrong is not.
async fn wait_for_postgres(connection: &Connection, settings: &ServerSettings) -> anyhow::Result<PostgresStore> {
    let mut options = punctual_store_postgres::Options::new(connection.reveal());
    options.shard_count = settings.shards.unwrap_or(settings.database.usual_shards());
    let limit = settings.database_wait;
    let begun = Instant::now();
    let mut told = None;
    loop {
        let reason = match PostgresStore::connect(options.clone()).await {
            Ok(store) => return Ok(store),
            Err(StoreError::Unavailable(reason)) => reason,
            // A standby that is about to be promoted, or a disk that is about to be emptied.
            Err(error @ StoreError::Faulty { .. }) => error.to_string(),
            Err(error) => {
                let message = format!("cannot use the database {connection}: {error}");
                return Err(failed(message, "see what is wrong with `punctual doctor` and `punctual migrate status`"));
            }
        };
        if begun.elapsed() >= limit.to_std() {
            let message = format!("the database {connection} could not be reached for {limit}: {reason}");
            return Err(unreachable(message, "start it, or correct `database`; `punctual doctor` checks it"));
        }
        if told.as_ref() != Some(&reason) {
            tracing::warn!(database = %connection, reason, "the database cannot be reached; waiting for it for up to {limit}");
            told = Some(reason);
        }
        tokio::time::sleep(TRY_EVERY).await;
    }
}
