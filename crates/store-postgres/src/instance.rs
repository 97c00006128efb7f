//! Which database this is. After a restart, a failover or a restore, the database may have
//! forgotten the newest epochs, and a server could go on under a number that was given twice.
//! So whenever a connection meets another instance than the one on record, a new
//! generation begins: every shard gets an epoch that no earlier generation reached, and every store drops what it
//! remembers.
//!
//! Owners keep their leases. Their next batch is fenced, and their next renewal shows the new epochs.
//!
//! Only some new instances have lost commits. A plain restart has not, and can be recognized: the same cluster, on the
//! same timeline, with the same tables, no earlier in its write-ahead log than this server has seen it. In every other case
//! the records of starts from before the generation are marked as incomplete (`whole_since`).

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_core::shard::write::Epoch;
use punctual_store::StoreError;
use tokio_postgres::error::SqlState;

use crate::codec;
use crate::connection::Conn;
use crate::memory::Memory;
use crate::trouble::Trouble;

type Done<T> = std::result::Result<T, Trouble>;

/// What tells one instance from another: the cluster, its timeline and its start.
const MARKS: [(&str, &str); 3] = [
    ("system", "SELECT system_identifier::text FROM pg_control_system()"),
    ("timeline", "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"),
    (STARTED, "SELECT extract(epoch FROM pg_postmaster_start_time())::text"),
];
const STARTED: &str = "started";

/// A restored dump has other tables, also on the same instance.
const TABLES: &str = "SELECT 'shard'::regclass::oid";

const META: &str = "SELECT key, value FROM meta WHERE key IN ('fingerprint', 'generation', 'shard_count', 'tables')";

/// Numbers of nodes that are left out when a generation begins: those that were given in what the database has lost.
const NODES_LEFT_OUT: i64 = 1_000;

pub(crate) struct Instance {
    /// For tests: the generation, whatever the database is.
    pub(crate) fixed: Option<i64>,
    shard_count: u16,
    memory: Memory,
    known: Mutex<Known>,
    /// The position in the write-ahead log up to which this server has seen it durable.
    wal_seen: AtomicI64,
}

/// The instance that this store works with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Known {
    generation: i64,
    /// 0 before the first connection.
    tables: u32,
}

/// What the database says of itself, and what it has on record.
#[derive(Debug, Default)]
struct Record {
    fingerprint: String,
    generation: i64,
    /// `None` in a database of an earlier version of this program.
    tables: Option<u32>,
    shard_count: u16,
}

/// Whether a new instance has all that the former one committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// The database is new.
    None,
    Whole,
    MayBeLost,
}

impl Instance {
    pub(crate) fn new(fixed: Option<i64>, shard_count: u16, memory: Memory) -> Self {
        Self { fixed, shard_count, memory, known: Mutex::default(), wal_seen: AtomicI64::new(0) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.known().generation.unsigned_abs()
    }

    /// To be called on every new connection before it is used.
    pub(crate) async fn confirm(&self, conn: &Conn) -> Done<()> {
        if self.fixed.is_some() {
            return Ok(());
        }
        let fingerprint = fingerprint(conn).await?;
        let tables = tables(conn).await?;
        let mut record = read_record(conn).await?;
        if record.fingerprint != fingerprint || record.tables != Some(tables) {
            let begun = self.begin_generation(conn, &fingerprint, tables).await;
            if begun.is_err() {
                // Nobody uses the connection after this.
                let _ = conn.run("ROLLBACK").await;
            }
            record = begun?;
        }
        if record.shard_count != self.shard_count {
            return Err(StoreError::Schema(format!(
                "the database has {} shards now, and this server was started with {}; restart it",
                record.shard_count, self.shard_count
            ))
            .into());
        }
        self.meet(Known { generation: record.generation, tables });
        Ok(())
    }

    /// Whoever began the generation, what is remembered from before it is wrong.
    fn meet(&self, met: Known) {
        let mut known = self.known();
        if *known != met {
            *known = met;
            self.memory.forget();
        }
    }

    /// Whether these are the tables that the connections were made for. A dump may be restored under them.
    pub(crate) fn has_tables(&self, tables: u32) -> bool {
        let known = self.known().tables;
        known == 0 || known == tables
    }

    /// Remembers how far the write-ahead log is durable. Where PostgreSQL does not tell, nothing is remembered.
    pub(crate) async fn look_at_wal(&self, conn: &Conn) {
        if self.fixed.is_none()
            && let Ok(Some(position)) = wal_position(conn, "pg_current_wal_flush_lsn").await
        {
            self.wal_seen.fetch_max(position, Ordering::Relaxed);
        }
    }

    async fn begin_generation(&self, conn: &Conn, fingerprint: &str, tables: u32) -> Done<Record> {
        conn.run("BEGIN; SELECT value FROM meta WHERE key = 'generation' FOR UPDATE").await?;
        // Another server may have been first.
        let mut record = read_record(conn).await?;
        let is_new = record.fingerprint != fingerprint || record.tables.is_some_and(|known| known != tables);
        if is_new {
            let past = self.past(conn, &record, fingerprint, tables).await?;
            record.generation = raise_epochs(conn, fingerprint).await?;
            if past == Past::MayBeLost {
                keep(conn, "whole_since", &(record.generation << 20).to_string()).await?;
                leave_numbers_out(conn, record.generation).await?;
            }
            let generation = record.generation;
            match past {
                Past::None => tracing::info!(generation, fingerprint, "the database is new"),
                Past::Whole => {
                    tracing::info!(generation, fingerprint, "PostgreSQL was restarted; all epochs were raised")
                }
                Past::MayBeLost => tracing::warn!(
                    generation,
                    fingerprint,
                    "the database is another instance than before and may have lost its last commits; all epochs were raised"
                ),
            }
        }
        keep(conn, "tables", &tables.to_string()).await?;
        conn.run("COMMIT").await?;
        Ok(Record { fingerprint: fingerprint.to_owned(), tables: Some(tables), ..record })
    }

    /// Anything that is not known for certain may have lost commits.
    async fn past(&self, conn: &Conn, record: &Record, fingerprint: &str, tables: u32) -> Done<Past> {
        if record.fingerprint.is_empty() && record.generation == 0 {
            return Ok(Past::None);
        }
        if !is_restart(&record.fingerprint, fingerprint) || record.tables.is_some_and(|known| known != tables) {
            return Ok(Past::MayBeLost);
        }
        // Without fsync, only a crash of the machine loses commits, and then more than these records is in doubt.
        let durable = "SELECT current_setting('synchronous_commit') <> 'off'";
        let is_durable = conn.query_opt(durable, &[]).await?.is_some_and(|row| row.get(0));
        let position = wal_position(conn, "pg_current_wal_insert_lsn").await?;
        let is_further = position.is_some_and(|position| position >= self.wal_seen.load(Ordering::Relaxed));
        Ok(if is_durable && is_further { Past::Whole } else { Past::MayBeLost })
    }
}

/// From which epoch on the records of starts are whole: what was committed under an earlier one may be lost.
pub(crate) async fn whole_since(conn: &Conn) -> Done<Epoch> {
    let row = conn.query_opt("SELECT value::bigint FROM meta WHERE key = 'whole_since'", &[]).await?;
    row.map_or(Ok(Epoch::default()), |row| codec::epoch(&row, 0))
}

async fn read_record(conn: &Conn) -> Done<Record> {
    let mut record = Record::default();
    for row in conn.query(META, &[]).await? {
        let (key, value): (String, String) = (row.get(0), row.get(1));
        match key.as_str() {
            "fingerprint" => record.fingerprint = value,
            "generation" => record.generation = value.parse().unwrap_or_default(),
            "tables" => record.tables = value.parse().ok(),
            _ => record.shard_count = value.parse().unwrap_or_default(),
        }
    }
    Ok(record)
}

async fn keep(conn: &Conn, key: &str, value: &str) -> Done<()> {
    let keep = "INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    conn.execute(keep, &[&key, &value]).await.map(drop)
}

async fn tables(conn: &Conn) -> Done<u32> {
    let row = conn.query_opt(TABLES, &[]).await?;
    row.map(|row| codec::value(&row, 0)).transpose().map(Option::unwrap_or_default)
}

async fn wal_position(conn: &Conn, function: &str) -> Done<Option<i64>> {
    match conn.query_opt(&format!("SELECT pg_wal_lsn_diff({function}(), '0/0')::bigint"), &[]).await {
        Ok(row) => row.map(|row| codec::value(&row, 0)).transpose(),
        Err(trouble) if is_refusal(&trouble) => Ok(None),
        Err(trouble) => Err(trouble),
    }
}

async fn fingerprint(conn: &Conn) -> Done<String> {
    let mut marks = Vec::new();
    for (name, query) in MARKS {
        match conn.query_opt(query, &[]).await {
            Ok(Some(row)) => marks.push(format!("{name}={}", row.get::<_, String>(0))),
            Ok(None) => {}
            Err(trouble) if is_refusal(&trouble) => {
                tracing::debug!(mark = name, "PostgreSQL does not tell this; a failover is recognized without it");
            }
            Err(trouble) => return Err(trouble),
        }
    }
    Ok(marks.join(" "))
}

/// Whether the cluster and the timeline are known and the same, and only the start differs.
fn is_restart(before: &str, after: &str) -> bool {
    let lasting = |fingerprint: &str| -> Vec<String> {
        fingerprint.split(' ').filter(|mark| !mark.starts_with(STARTED)).map(str::to_owned).collect()
    };
    let before = lasting(before);
    before.len() == MARKS.len() - 1 && before == lasting(after)
}

fn is_refusal(trouble: &Trouble) -> bool {
    let refusals = [SqlState::INSUFFICIENT_PRIVILEGE, SqlState::UNDEFINED_FUNCTION, SqlState::FEATURE_NOT_SUPPORTED];
    trouble.code().is_some_and(|code| refusals.contains(code))
}

async fn raise_epochs(conn: &Conn, fingerprint: &str) -> Done<i64> {
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
    Ok(generation)
}

/// Numbers that were given and lost are not given again: a server that has not noticed yet may still use them.
async fn leave_numbers_out(conn: &Conn, generation: i64) -> Done<()> {
    let tasks = "SELECT setval(sequence, greatest(nextval(sequence), $1::bigint << 20))
                 FROM CAST(pg_get_serial_sequence('task', 'number') AS regclass) AS named (sequence)";
    conn.query(tasks, &[&generation]).await?;
    let nodes = "SELECT setval(sequence, nextval(sequence) + $1::bigint)
                 FROM CAST(pg_get_serial_sequence('node', 'number') AS regclass) AS named (sequence)";
    conn.query(nodes, &[&NODES_LEFT_OUT]).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_new_start_of_the_same_cluster_on_the_same_timeline_is_a_restart() {
        let before = "system=7 timeline=00000001 started=100.5";
        assert!(is_restart(before, "system=7 timeline=00000001 started=200"));
        assert!(!is_restart(before, "system=7 timeline=00000002 started=200"));
        assert!(!is_restart(before, "system=8 timeline=00000001 started=200"));
        assert!(!is_restart("started=100", "started=200"), "nothing is known of the timeline");
        assert!(!is_restart("", before), "an operator emptied it to say that the data is older");
        assert!(!is_restart("system=7 started=1", "system=7 started=2"));
    }
}
