//! Brings the schema up to date, and refuses one that it does not know.

use std::path::Path;

use punctual_core::Timestamp;
use punctual_store::StoreError;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use sha2::{Digest, Sha256};

use crate::fault::error_of;

pub(crate) struct Migration {
    version: u32,
    name: &'static str,
    text: &'static str,
}

/// In order, without gaps. A migration that was released is never edited.
pub(crate) const MIGRATIONS: [Migration; 17] = [
    Migration {
        version: 1,
        name: "first",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0001_first.sql")),
    },
    Migration {
        version: 2,
        name: "cluster",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0002_cluster.sql")),
    },
    Migration {
        version: 3,
        name: "artifacts",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0003_artifacts.sql")),
    },
    Migration {
        version: 4,
        name: "details",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0004_details.sql")),
    },
    Migration {
        version: 5,
        name: "log_archive",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0005_log_archive.sql")),
    },
    Migration {
        version: 6,
        name: "reruns",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0006_reruns.sql")),
    },
    Migration {
        version: 7,
        name: "schedules",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0007_schedules.sql")),
    },
    Migration {
        version: 8,
        name: "notices",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0008_notices.sql")),
    },
    Migration {
        version: 9,
        name: "give_backs",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0009_give_backs.sql")),
    },
    Migration {
        version: 10,
        name: "late_starts",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0010_late_starts.sql")),
    },
    Migration {
        version: 11,
        name: "attempt_due",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0011_attempt_due.sql")),
    },
    Migration {
        version: 12,
        name: "zone_data",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0012_zone_data.sql")),
    },
    Migration {
        version: 13,
        name: "workers",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0013_workers.sql")),
    },
    Migration {
        version: 14,
        name: "log_marks",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0014_log_marks.sql")),
    },
    Migration {
        version: 15,
        name: "last_success",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0015_last_success.sql")),
    },
    Migration {
        version: 16,
        name: "files",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0016_files.sql")),
    },
    Migration {
        version: 17,
        name: "tracing",
        text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0017_tracing.sql")),
    },
];

impl Migration {
    fn checksum(&self) -> Vec<u8> {
        Sha256::digest(self.text.as_bytes()).to_vec()
    }
}

/// Why the schema could not be brought up to date.
#[derive(Debug)]
pub(crate) enum Failed {
    Sqlite(rusqlite::Error),
    /// It is not one that this program knows.
    Refused(String),
}

impl Failed {
    pub(crate) fn into_error(self, path: &Path) -> StoreError {
        match self {
            Self::Sqlite(error) => error_of(path, "cannot migrate", &error),
            Self::Refused(reason) => StoreError::Schema(reason),
        }
    }
}

/// Applies what is missing, all of it or none of it.
pub(crate) fn run(conn: &mut Connection, known: &[Migration], now: Timestamp) -> std::result::Result<(), Failed> {
    let unavailable = Failed::Sqlite;
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(unavailable)?;
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS migration (
             version INTEGER PRIMARY KEY,
             name TEXT NOT NULL,
             checksum BLOB NOT NULL,
             applied_at INTEGER NOT NULL
         ) STRICT",
    )
    .map_err(unavailable)?;
    let newest: u32 =
        tx.query_row("SELECT coalesce(max(version), 0) FROM migration", [], |row| row.get(0)).map_err(unavailable)?;
    let known_newest = known.last().map_or(0, |migration| migration.version);
    if newest > known_newest {
        return Err(Failed::Refused(format!(
            "the store has schema {newest} and this program knows {known_newest}; use the newer program"
        )));
    }
    for migration in known {
        let applied: Option<Vec<u8>> = tx
            .query_row("SELECT checksum FROM migration WHERE version = ?1", [migration.version], |row| row.get(0))
            .optional()
            .map_err(unavailable)?;
        match applied {
            Some(checksum) if checksum == migration.checksum() => {}
            Some(_) => {
                return Err(Failed::Refused(format!(
                    "migration {} ({}) is not the one that made this store; use the program that made it, \
                     or restore the store from a backup",
                    migration.version, migration.name
                )));
            }
            None => {
                tx.execute_batch(migration.text).map_err(unavailable)?;
                tx.execute(
                    "INSERT INTO migration (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)",
                    (migration.version, migration.name, migration.checksum(), now.as_micros()),
                )
                .map_err(unavailable)?;
            }
        }
    }
    tx.commit().map_err(unavailable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated() -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        run(&mut conn, &MIGRATIONS, Timestamp::EPOCH).unwrap();
        conn
    }

    fn refusal(conn: &mut Connection, known: &[Migration]) -> String {
        match run(conn, known, Timestamp::EPOCH) {
            Err(Failed::Refused(text)) => text,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut conn = migrated();
        run(&mut conn, &MIGRATIONS, Timestamp::EPOCH).unwrap();
    }

    #[test]
    fn an_edited_migration_is_refused() {
        let edited = Migration { version: 1, name: "first", text: "CREATE TABLE other (x)" };
        let known: Vec<Migration> = [edited].into_iter().chain(MIGRATIONS.into_iter().skip(1)).collect();
        let text = refusal(&mut migrated(), &known);
        assert!(text.contains("migration 1 (first) is not the one"), "{text}");
    }

    #[test]
    fn a_newer_schema_is_refused() {
        let text = refusal(&mut migrated(), &[]);
        let newest = MIGRATIONS.last().map_or(0, |migration| migration.version);
        assert_eq!(text, format!("the store has schema {newest} and this program knows 0; use the newer program"));
    }

    #[test]
    fn a_migration_that_fails_leaves_nothing_behind() {
        let mut conn = migrated();
        let version = MIGRATIONS.last().map_or(0, |migration| migration.version) + 1;
        let broken = Migration { version, name: "broken", text: "CREATE TABLE fine (x); CREATE TABLE fine (x)" };
        let known: Vec<Migration> = MIGRATIONS.into_iter().chain([broken]).collect();
        assert!(run(&mut conn, &known, Timestamp::EPOCH).is_err());
        let made: i64 =
            conn.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'fine'", [], |row| row.get(0)).unwrap();
        assert_eq!(made, 0);
    }

    #[test]
    fn a_store_from_before_schedules_keeps_what_it_had() {
        let mut conn = Connection::open_in_memory().unwrap();
        run(&mut conn, &MIGRATIONS[..6], Timestamp::EPOCH).unwrap();
        conn.execute_batch(
            "INSERT INTO shard VALUES (3, 7, NULL, 0);
             INSERT INTO job VALUES (3, 10, x'01', 1, 0, 1, 0, 0, 0, 5, NULL, x'aa');
             INSERT INTO history (id, task, state, due_at, submitted_at, finished_at, early, next_attempt, failures,
                                  node_failures, priority)
             VALUES (x'02', 1, 1, 10, 5, 11, 0, 2, 0, 0, 0);",
        )
        .unwrap();
        run(&mut conn, &MIGRATIONS, Timestamp::EPOCH).unwrap();
        let found: String = conn
            .query_row(
                "SELECT concat_ws(' ', epoch, watermark, hex(job.id), hex(job.input), job.source IS NULL, hex(history.id),
                                  history.source IS NULL)
                 FROM shard, job, history",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(found, "7 0 01 AA 1 02 1");
    }

    #[test]
    fn migrations_are_numbered_without_gaps() {
        for (place, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version as usize, place + 1);
        }
    }

    /// Run with UPDATE_SCHEMA=1 after adding a migration, and review the difference.
    #[test]
    fn the_schema_is_the_one_in_schema_sql() {
        let conn = migrated();
        let mut statement = conn
            .prepare("SELECT sql || ';' FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY tbl_name, rowid")
            .unwrap();
        let parts = statement.query_map([], |row| row.get(0)).unwrap();
        let parts: Vec<String> = parts.collect::<rusqlite::Result<_>>().unwrap();
        let schema = format!("{}\n", parts.join("\n\n"));
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.sql");
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &schema).unwrap();
        }
        assert_eq!(schema, std::fs::read_to_string(path).unwrap_or_default());
    }
}
