//! Which database this is. After a restart, a failover or a restore, the database may have
//! forgotten the newest epochs, and a server could go on under a number that was given twice.
//! So whenever a connection meets another instance than the one on record, a new
//! generation begins: every shard gets an epoch that no earlier generation reached.
//!
//! Owners keep their leases. Their next batch is fenced, and their next renewal shows the new epochs.

use tokio_postgres::error::SqlState;

use crate::connection::Conn;
use crate::trouble::Trouble;

#[derive(Debug)]
pub(crate) struct Instance {
    /// For tests: the generation, whatever the database is.
    pub(crate) fixed: Option<i64>,
}

/// What tells one instance from another: the cluster, its timeline and its start.
const MARKS: [(&str, &str); 3] = [
    ("system", "SELECT system_identifier::text FROM pg_control_system()"),
    ("timeline", "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"),
    ("started", "SELECT extract(epoch FROM pg_postmaster_start_time())::text"),
];

impl Instance {
    /// To be called on every new connection whose work depends on epochs.
    pub(crate) async fn confirm(&self, conn: &Conn) -> std::result::Result<(), Trouble> {
        if self.fixed.is_some() {
            return Ok(());
        }
        let fingerprint = fingerprint(conn).await?;
        let known = conn.query_opt("SELECT value FROM meta WHERE key = 'fingerprint'", &[]).await?;
        if known.is_some_and(|row| row.get::<_, String>(0) == fingerprint) {
            return Ok(());
        }
        let begun = begin_generation(conn, &fingerprint).await;
        if begun.is_err() {
            // Nobody uses the connection after this.
            let _ = conn.run("ROLLBACK").await;
        }
        begun
    }
}

async fn fingerprint(conn: &Conn) -> std::result::Result<String, Trouble> {
    let mut marks = Vec::new();
    for (name, query) in MARKS {
        match conn.query_opt(query, &[]).await {
            Ok(Some(row)) => marks.push(format!("{name}={}", row.get::<_, String>(0))),
            Ok(None) => {}
            Err(trouble) if is_refusal(&trouble) => {
                tracing::info!(mark = name, "PostgreSQL does not tell this; a failover is recognized without it");
            }
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(marks.join(" "))
}

fn is_refusal(trouble: &Trouble) -> bool {
    let refusals = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::UNDEFINED_FUNCTION, SqlState::FEATURE_NOT_SUPPORTED];
    trouble.code().is_some_and(|code| refusals.contains(code))
}

async fn begin_generation(conn: &Conn, fingerprint: &str) -> std::result::Result<(), Trouble> {
    conn.run("BEGIN; SELECT value FROM meta WHERE key = 'generation' FOR UPDATE").await?;
    // Another server may have been first.
    let known = conn.query_opt("SELECT value FROM meta WHERE key = 'fingerprint'", &[]).await?;
    if known.is_some_and(|row| row.get::<_, String>(0) == fingerprint) {
        return conn.run("COMMIT").await;
    }
    // Seconds, because a restored backup would count the same numbers again.
    let begun = conn
        .query(
            "UPDATE meta SET value =
                 greatest(value::bigint + 1, extract(epoch FROM clock_timestamp())::bigint)::text
             WHERE key = 'generation' RETURNING value::bigint",
            &[],
        )
        .await?;
    let generation: i64 = begun.first().map_or(0, |row| row.get(0));
    conn.execute("UPDATE meta SET value = $1 WHERE key = 'fingerprint'", &[&fingerprint]).await?;
    // The lock first: an UPDATE alone would not wait for batches that have passed their fence.
    conn.run("SELECT id FROM shard ORDER BY id FOR UPDATE").await?;
    conn.execute("UPDATE shard SET epoch = greatest(epoch + 1, $1::bigint << 20)", &[&generation]).await?;
    conn.run("COMMIT").await?;
    tracing::info!(generation, fingerprint, "the database is another instance than before; all epochs were raised");
    Ok(())
}
