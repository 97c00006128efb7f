//! Brings the schema up to date, and refuses one that it does not know.

use punctual_core::Timestamp;
use punctual_store::{Result, StoreError};
use sha2::{Digest, Sha256};
use tokio_postgres::error::SqlState;

use crate::connection::{Class, Conn};
use crate::link::Origin;
use crate::trouble::Trouble;

pub(crate) struct Migration {
    version: i32,
    name: &'static str,
    text: &'static str,
}

/// The tables of the latest schema.
pub(crate) fn tables() -> Vec<&'static str> {
    let schema = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/schema.sql"));
    schema.lines().filter_map(|line| line.strip_prefix("TABLE ")?.split(' ').next()).collect()
}

/// In order, without gaps. A migration that was released is never edited.
pub(crate) const MIGRATIONS: [Migration; 16] = [
    Migration {
        version: 1,
        name: "first",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0001_first.sql")),
    },
    Migration {
        version: 2,
        name: "artifacts",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0002_artifacts.sql")),
    },
    Migration {
        version: 3,
        name: "details",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0003_details.sql")),
    },
    Migration {
        version: 4,
        name: "log_archive",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0004_log_archive.sql")),
    },
    Migration {
        version: 5,
        name: "reruns",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0005_reruns.sql")),
    },
    Migration {
        version: 6,
        name: "schedules",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0006_schedules.sql")),
    },
    Migration {
        version: 7,
        name: "notices",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0007_notices.sql")),
    },
    Migration {
        version: 8,
        name: "give_backs",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0008_give_backs.sql")),
    },
    Migration {
        version: 9,
        name: "late_starts",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0009_late_starts.sql")),
    },
    Migration {
        version: 10,
        name: "attempt_due",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0010_attempt_due.sql")),
    },
    Migration {
        version: 11,
        name: "zone_data",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0011_zone_data.sql")),
    },
    Migration {
        version: 12,
        name: "workers",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0012_workers.sql")),
    },
    Migration {
        version: 13,
        name: "log_marks",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0013_log_marks.sql")),
    },
    Migration {
        version: 14,
        name: "last_success",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0014_last_success.sql")),
    },
    Migration {
        version: 15,
        name: "files",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0015_files.sql")),
    },
    Migration {
        version: 16,
        name: "tracing",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0016_tracing.sql")),
    },
];

impl Migration {
    fn checksum(&self) -> Vec<u8> {
        Sha256::digest(self.text.as_bytes()).to_vec()
    }
}

/// How a migration stands in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigrationState {
    Applied {
        at: Timestamp,
    },
    Pending,
    /// The database has it and this program does not know it.
    Unknown {
        at: Timestamp,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    pub version: u32,
    pub name: String,
    pub state: MigrationState,
}

/// Every migration that the program or the database knows, in order. Changes nothing.
pub async fn migrations(url: &str) -> Result<Vec<MigrationStatus>> {
    let conn = Origin::new(url)?.open(Class::Maintenance).await?;
    Ok(status(&conn).await?)
}

/// What `migrate` would run, for those who look first. Changes nothing.
pub async fn pending_sql(url: &str) -> Result<String> {
    let pending: Vec<u32> = migrations(url)
        .await?
        .into_iter()
        .filter(|known| known.state == MigrationState::Pending)
        .map(|known| known.version)
        .collect();
    let texts = MIGRATIONS.iter().filter(|known| pending.contains(&known.version.unsigned_abs()));
    Ok(texts.map(|known| format!("-- {} {}\n{}\n", known.version, known.name, known.text)).collect())
}

/// Applies what is missing, all of it or none of it. The answer is what was applied by this
/// call: others may do the same at the same time.
pub async fn migrate(url: &str) -> Result<Vec<MigrationStatus>> {
    let conn = Origin::new(url)?.open(Class::Maintenance).await?;
    let applied = run(&conn, &MIGRATIONS).await?;
    let mut known = status(&conn).await?;
    known.retain(|known| applied.contains(&known.version));
    Ok(known)
}

/// Refuses a schema that is not the newest one.
pub(crate) async fn check(conn: &Conn) -> Result<()> {
    for known in status(conn).await? {
        match known.state {
            MigrationState::Applied { .. } => {}
            MigrationState::Pending => {
                return Err(StoreError::Schema(format!(
                    "migration {} ({}) is missing; migrate the store first",
                    known.version, known.name
                )));
            }
            MigrationState::Unknown { .. } => return Err(too_new(known.version as i32, &MIGRATIONS)),
        }
    }
    let applied = read(conn).await?;
    compare(&applied, &MIGRATIONS).map(drop)
}

struct Applied {
    version: i32,
    name: String,
    checksum: Vec<u8>,
    at: i64,
}

async fn read(conn: &Conn) -> std::result::Result<Vec<Applied>, Trouble> {
    let rows = conn.query("SELECT version, name, checksum, applied_at FROM migration ORDER BY version", &[]).await?;
    let read = |row: tokio_postgres::Row| Applied {
        version: row.get(0),
        name: row.get(1),
        checksum: row.get(2),
        at: row.get(3),
    };
    Ok(rows.into_iter().map(read).collect())
}

async fn status(conn: &Conn) -> std::result::Result<Vec<MigrationStatus>, Trouble> {
    let applied = match read(conn).await {
        Err(trouble) if trouble.code() == Some(&SqlState::UNDEFINED_TABLE) => Vec::new(),
        applied => applied?,
    };
    let at = |micros| Timestamp::saturating_from_micros(micros);
    let known = MIGRATIONS.iter().map(|known| {
        let found = applied.iter().find(|applied| applied.version == known.version);
        let state = found.map_or(MigrationState::Pending, |found| MigrationState::Applied { at: at(found.at) });
        MigrationStatus { version: known.version.unsigned_abs(), name: known.name.to_owned(), state }
    });
    let unknown = applied.iter().filter(|applied| MIGRATIONS.iter().all(|known| known.version != applied.version));
    let unknown = unknown.map(|applied| MigrationStatus {
        version: applied.version.unsigned_abs(),
        name: applied.name.clone(),
        state: MigrationState::Unknown { at: at(applied.at) },
    });
    Ok(known.chain(unknown).collect())
}

/// `CREATE TABLE IF NOT EXISTS` of two servers at once can still collide, more than once.
const MAKE_TRIES: usize = 20;

/// Servers that start together wait for each other: the table is locked until the commit.
/// The answer is the versions that were applied.
pub(crate) async fn run(conn: &Conn, known: &[Migration]) -> Result<Vec<u32>> {
    let mut tries = 1;
    while let Err(trouble) = make_table(conn).await {
        // The name of the table, of its type, or a row of the catalogue: whichever was first.
        let taken = [SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
        let collided = trouble.is_duplicate() || trouble.code().is_some_and(|code| taken.contains(code));
        if !collided || tries == MAKE_TRIES {
            return Err(cannot(trouble));
        }
        tries += 1;
    }
    let applied = async {
        conn.run("BEGIN; LOCK TABLE migration IN SHARE ROW EXCLUSIVE MODE").await.map_err(cannot)?;
        let mut versions = Vec::new();
        for migration in compare(&read(conn).await.map_err(cannot)?, known)? {
            apply(conn, migration).await.map_err(cannot)?;
            versions.push(migration.version.unsigned_abs());
        }
        conn.run("COMMIT").await.map_err(cannot)?;
        Ok(versions)
    };
    let result = applied.await;
    if result.is_err() {
        // It is refused already; what a lost connection leaves behind is rolled back anyway.
        let _ = conn.run("ROLLBACK").await;
    }
    result
}

async fn make_table(conn: &Conn) -> std::result::Result<(), Trouble> {
    conn.run(
        "CREATE TABLE IF NOT EXISTS migration (
             version integer PRIMARY KEY,
             name text NOT NULL,
             checksum bytea NOT NULL,
             applied_at bigint NOT NULL
         )",
    )
    .await
}

async fn apply(conn: &Conn, migration: &Migration) -> std::result::Result<(), Trouble> {
    conn.run(migration.text).await?;
    conn.execute(
        "INSERT INTO migration (version, name, checksum, applied_at)
         VALUES ($1, $2, $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)",
        &[&migration.version, &migration.name, &migration.checksum()],
    )
    .await?;
    Ok(())
}

/// What is missing; an error if what is there is not what we would have made.
fn compare<'m>(applied: &[Applied], known: &'m [Migration]) -> Result<Vec<&'m Migration>> {
    let known_newest = known.last().map_or(0, |migration| migration.version);
    if let Some(newest) = applied.last().filter(|applied| applied.version > known_newest) {
        return Err(too_new(newest.version, known));
    }
    let mut missing = Vec::new();
    for migration in known {
        match applied.iter().find(|applied| applied.version == migration.version) {
            Some(applied) if applied.checksum == migration.checksum() => {}
            Some(_) => {
                return Err(StoreError::Schema(format!(
                    "migration {} ({}) is not the one that made this store; use the program that made it, \
                     or restore the store from a backup",
                    migration.version, migration.name
                )));
            }
            None => missing.push(migration),
        }
    }
    Ok(missing)
}

fn too_new(newest: i32, known: &[Migration]) -> StoreError {
    let known_newest = known.last().map_or(0, |migration| migration.version);
    StoreError::Schema(format!(
        "the store has schema {newest} and this program knows {known_newest}; use the newer program"
    ))
}

fn cannot(trouble: Trouble) -> StoreError {
    let taken = [SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    let hint = if trouble.code().is_some_and(|code| taken.contains(code)) {
        "; the schema holds tables of another program, so give the store a database or a search_path of its own"
    } else if trouble.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        "; the user needs the right to create tables in its schema"
    } else {
        ""
    };
    match StoreError::from(trouble) {
        StoreError::Schema(text) => StoreError::Schema(format!("cannot migrate: {text}{hint}")),
        StoreError::Unavailable(text) => StoreError::Unavailable(format!("cannot migrate: {text}")),
        other => other,
    }
}
