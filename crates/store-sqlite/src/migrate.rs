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
    "0024_namespace_roles",
    "0025_openid",
    "0026_requesters",
    "0027_workflows",
    "0028_quotas",
    "0029_running_places",
    "0030_cluster_secret",
    "0031_log_bytes",
    "0032_due_runs",
    "0033_queues",
    "0034_run_bytes",
    "0035_batches",
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

    /// One row in each table that the migration makes anew or gives a namespace.
    #[test]
    fn what_was_there_before_namespaces_is_in_the_default_one() {
        let mut conn = Connection::open_in_memory().unwrap();
        run(&mut conn, &MIGRATIONS[..22], Timestamp::EPOCH).unwrap();
        conn.execute_batch(
            "INSERT INTO task VALUES (7, x'01', 'report', 3, 0, x'0d', 'probe', 'mail', '{}', 1, 2, 3, x'0a', 1);
             INSERT INTO job VALUES (3, 10, x'02', 7, 0, 1, 0, 0, 0, 5, NULL, x'aa', NULL, NULL, NULL);
             INSERT INTO history (id, task, state, due_at, submitted_at, finished_at, early, next_attempt, failures,
                                  node_failures, priority)
             VALUES (x'03', 7, 1, 10, 5, 11, 0, 2, 0, 0, 0);
             INSERT INTO artifact VALUES (x'0a', 'tool', 9, x'0b', 2, 1, NULL, 1, 1, 1);
             INSERT INTO schedule (shard, id, name, task, spec, revision, since, runs, failures, created_at, created_by,
                                   changed_at, changed_by, calendars)
             VALUES (3, x'04', 'nightly', 7, '{}', 1, 0, 0, 0, 0, 'ada', 0, 'ada', '[\"holidays\"]');
             INSERT INTO calendar VALUES (5, 'gone', '[]', 0, 'ada');
             DELETE FROM calendar;
             INSERT INTO calendar VALUES (2, 'holidays', '[]', 0, 'ada');
             INSERT INTO calendar_use VALUES ('holidays', x'04', 3, 'nightly');
             INSERT INTO notification_rule VALUES ('ops', '{}', 4, 0, 'ada', 0, 'ada', 9, 'state');
             INSERT INTO delivery VALUES (1, x'05', 'ops', 1, 'sent');
             INSERT INTO ailing VALUES (x'01', 1, 2, 3);
             INSERT INTO backfill (id, schedule, schedule_name, spec, created_at, created_by, version, state, total, made,
                                   passed_over, succeeded, failed, cancelled)
             VALUES (x'06', x'04', 'nightly', '{}', 0, 'ada', 1, 1, 0, 0, 0, 0, 0, 0);
             INSERT INTO idempotency VALUES ('k', x'0e', x'0f', 99);
             INSERT INTO secret VALUES ('default', 'token', 2, 0, 0, 'ada', 'ada', x'10');
             INSERT INTO secret_use VALUES ('default', 'token', x'01');",
        )
        .unwrap();
        run(&mut conn, MIGRATIONS, Timestamp::EPOCH).unwrap();
        let found = |table: &str, columns: &str| -> String {
            let text = format!("SELECT concat_ws(' ', {columns}) FROM {table}");
            conn.query_row(&text, [], |row| row.get(0)).unwrap()
        };
        for (table, columns, expected) in [
            (
                "task",
                "namespace, number, hex(id), name, revision, hex(digest), queue, used_until, hex(artifact), waits",
                "0 7 01 report 3 0D mail 3 0A 1",
            ),
            ("job", "namespace IS NULL, hex(id), hex(input)", "1 02 AA"),
            ("history", "namespace IS NULL, hex(id)", "1 03"),
            ("artifact", "namespace, name", "0 tool"),
            ("schedule", "namespace, name, task", "0 nightly 7"),
            ("calendar", "namespace, name, revision", "0 holidays 2"),
            ("calendar_use", "namespace, calendar, hex(schedule), shard, name", "0 holidays 04 3 nightly"),
            ("notification_rule", "namespace, name, revision, version, state", "0 ops 4 9 state"),
            ("delivery", "namespace, rule, summary", "0 ops sent"),
            ("ailing", "namespace, failures", "0 3"),
            ("backfill", "namespace, schedule_name", "0 nightly"),
            ("idempotency", "namespace, key, hex(answer), expires_at", "0 k 0F 99"),
            ("secret", "namespace, name, revision, hex(sealed)", "0 token 2 10"),
            ("secret_use", "namespace, secret, hex(task)", "0 token 01"),
            ("namespace", "id, name", "0 default"),
        ] {
            assert_eq!(found(table, columns), expected, "{table}");
        }
        conn.execute(
            "INSERT INTO calendar (namespace, name, dates, changed_at, changed_by) VALUES (1, 'n', '[]', 0, '')",
            [],
        )
        .unwrap();
        assert_eq!(conn.last_insert_rowid(), 6, "the revision of a calendar that is gone is not given again");
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
