//! Brings the schema up to date, and refuses one that it does not know.

use punctual_core::Timestamp;
use punctual_store::{
    AppliedMigration, Migration, MigrationState, MigrationStatus, Result, StoreError, migration_status,
    missing_migrations,
};
use tokio_postgres::error::SqlState;

use crate::connection::{Class, Conn};
use crate::link::Origin;
use crate::trouble::Trouble;

/// The tables of the latest schema.
pub(crate) fn tables() -> Vec<&'static str> {
    let schema = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/schema.sql"));
    schema.lines().filter_map(|line| line.strip_prefix("TABLE ")?.split(' ').next()).collect()
}

const MIGRATIONS: &[Migration] = punctual_store::migrations![
    "0001_first",
    "0002_artifacts",
    "0003_details",
    "0004_log_archive",
    "0005_reruns",
    "0006_schedules",
    "0007_notices",
    "0008_give_backs",
    "0009_late_starts",
    "0010_attempt_due",
    "0011_zone_data",
    "0012_workers",
    "0013_log_marks",
    "0014_last_success",
    "0015_files",
    "0016_tracing",
    "0017_authority",
    "0018_enrolments",
    "0019_identities",
    "0020_audit",
    "0021_secrets",
    "0022_namespaces",
    "0023_namespace_roles",
    "0024_openid",
    "0025_requesters",
    "0026_workflows",
    "0027_quotas",
    "0028_running_places",
    "0029_cluster_secret",
    "0030_log_bytes",
    "0031_run_steps",
    "0032_queues",
    "0033_run_bytes",
    "0034_batches",
];

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
    let texts = MIGRATIONS.iter().filter(|known| pending.contains(&known.version));
    Ok(texts.map(|known| format!("-- {} {}\n{}\n", known.version, known.name, known.text)).collect())
}

/// Applies what is missing, all of it or none of it. The answer is what was applied by this
/// call: others may do the same at the same time.
pub async fn migrate(url: &str) -> Result<Vec<MigrationStatus>> {
    let conn = Origin::new(url)?.open(Class::Maintenance).await?;
    let applied = run(&conn).await?;
    let mut known = status(&conn).await?;
    known.retain(|known| applied.contains(&known.version));
    Ok(known)
}

/// Refuses a schema that is not the newest one.
pub(crate) async fn check(conn: &Conn) -> Result<()> {
    match missing_migrations(&applied(conn).await?, MIGRATIONS)?.first() {
        None => Ok(()),
        Some(Migration { version, name, .. }) => {
            Err(StoreError::Schema(format!("migration {version} ({name}) is missing; migrate the store first")))
        }
    }
}

/// In order; none in a database that no store was ever made in.
async fn applied(conn: &Conn) -> std::result::Result<Vec<AppliedMigration>, Trouble> {
    let rows = conn.query("SELECT version, name, checksum, applied_at FROM migration ORDER BY version", &[]).await;
    let rows = match rows {
        Err(trouble) if trouble.code() == Some(&SqlState::UNDEFINED_TABLE) => return Ok(Vec::new()),
        rows => rows?,
    };
    let read = |row: &tokio_postgres::Row| AppliedMigration {
        version: row.get::<_, i32>("version").unsigned_abs(),
        name: row.get("name"),
        checksum: row.get("checksum"),
        at: Timestamp::saturating_from_micros(row.get("applied_at")),
    };
    Ok(rows.iter().map(read).collect())
}

async fn status(conn: &Conn) -> std::result::Result<Vec<MigrationStatus>, Trouble> {
    Ok(migration_status(&applied(conn).await?, MIGRATIONS))
}

/// `CREATE TABLE IF NOT EXISTS` of two servers at once can still collide, more than once.
const MAKE_TRIES: usize = 20;

/// Servers that start together wait for each other: the table is locked until the commit.
/// The answer is the versions that were applied.
pub(crate) async fn run(conn: &Conn) -> Result<Vec<u32>> {
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
    let applying = async {
        conn.run("BEGIN; LOCK TABLE migration IN SHARE ROW EXCLUSIVE MODE").await.map_err(cannot)?;
        let mut versions = Vec::new();
        for migration in missing_migrations(&applied(conn).await.map_err(cannot)?, MIGRATIONS)? {
            apply(conn, migration).await.map_err(cannot)?;
            versions.push(migration.version);
        }
        conn.run("COMMIT").await.map_err(cannot)?;
        Ok(versions)
    };
    let result = applying.await;
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
        &[&(migration.version as i32), &migration.name, &migration.checksum()],
    )
    .await?;
    Ok(())
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
