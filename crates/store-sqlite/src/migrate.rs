//! Brings the schema up to date, and refuses one that it does not know.

use std::path::Path;

use punctual_core::Timestamp;
use punctual_store::{AppliedMigration, Migration, StoreError, missing_migrations};
use rusqlite::{Connection, Row, TransactionBehavior};

use crate::fault::error_of;

pub(crate) const MIGRATIONS: &[Migration] = punctual_store::migrations![
    "0001_first",
    "0002_cluster",
    "0003_artifacts",
    "0004_details",
    "0005_log_archive",
    "0006_reruns",
    "0007_schedules",
    "0008_notices",
    "0009_give_backs",
    "0010_late_starts",
    "0011_attempt_due",
    "0012_zone_data",
    "0013_workers",
    "0014_log_marks",
    "0015_last_success",
    "0016_files",
    "0017_tracing",
    "0018_authority",
    "0019_enrolments",
    "0020_identities",
    "0021_audit",
    "0022_secrets",
    "0023_namespaces",
];

/// Why the schema could not be brought up to date.
#[derive(Debug)]
pub(crate) enum Failed {
    Sqlite(rusqlite::Error),
    /// It is not one that this program knows.
    Refused(StoreError),
}

impl Failed {
    pub(crate) fn into_error(self, path: &Path) -> StoreError {
        match self {
            Self::Sqlite(error) => error_of(path, "cannot migrate", &error),
            Self::Refused(error) => error,
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
    let applied = applied(&tx).map_err(unavailable)?;
    for migration in missing_migrations(&applied, known).map_err(Failed::Refused)? {
        tx.execute_batch(migration.text).map_err(unavailable)?;
        tx.execute(
            "INSERT INTO migration (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)",
            (migration.version, migration.name, migration.checksum(), now.as_micros()),
        )
        .map_err(unavailable)?;
    }
    tx.commit().map_err(unavailable)
}

fn applied(conn: &Connection) -> rusqlite::Result<Vec<AppliedMigration>> {
    let mut statement = conn.prepare("SELECT version, name, checksum, applied_at FROM migration ORDER BY version")?;
    let read = |row: &Row<'_>| {
        let at = Timestamp::saturating_from_micros(row.get("applied_at")?);
        Ok(AppliedMigration {
            version: row.get("version")?,
            name: row.get("name")?,
            checksum: row.get("checksum")?,
            at,
        })
    };
    statement.query_map([], read)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated() -> Connection {
        let mut conn = Connection::open_in_memory().unwrap();
        run(&mut conn, MIGRATIONS, Timestamp::EPOCH).unwrap();
        conn
    }

    fn refusal(conn: &mut Connection, known: &[Migration]) -> String {
        match run(conn, known, Timestamp::EPOCH) {
            Err(Failed::Refused(error)) => error.to_string(),
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut conn = migrated();
        run(&mut conn, MIGRATIONS, Timestamp::EPOCH).unwrap();
    }

    #[test]
    fn an_edited_migration_is_refused() {
        let edited = Migration { text: "CREATE TABLE other (x)", ..MIGRATIONS[0] };
        let text = refusal(&mut migrated(), &[&[edited], &MIGRATIONS[1..]].concat());
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
        assert!(run(&mut conn, &[MIGRATIONS, &[broken]].concat(), Timestamp::EPOCH).is_err());
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
        run(&mut conn, MIGRATIONS, Timestamp::EPOCH).unwrap();
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
