//! What moving logs out costs beside a million finished jobs without logs:
//! `cargo bench -p punctual-store-sqlite --bench archiving -- [folder]`.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use punctual_core::{JobId, ShardId, Span, Timestamp};
use punctual_store_sqlite::{Options, SqliteStore};
use rusqlite::{Connection, params};

const FINISHED: u64 = 1_000_000;
const LOGS: u64 = 1_000;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    Timestamp::saturating_from_micros(since.as_micros() as i64)
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let folder = arguments().next().map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(&folder).expect("a folder for the store");
    let path = folder.path().join("jobs.db");
    let open = || SqliteStore::open(&path, Options::new(Arc::new(now))).expect("a store");
    open().close().await.expect("it closes");
    let jobs = fill(&path);
    let store = open();
    println!("{FINISHED} finished jobs, {}\n", punctual_store::Store::description(&store));
    punctual_store_tests::archiving::measure(&store, &jobs).await;
    store.close().await.expect("it closes");
}

/// Answers those that will have a log, spread over all.
fn fill(path: &std::path::Path) -> Vec<JobId> {
    let mut conn = Connection::open(path).expect("the store's file");
    let transaction = conn.transaction().expect("nobody else is here");
    let text = "INSERT INTO history (id, task, state, due_at, submitted_at, finished_at, early, next_attempt, failures,
                                     node_failures, priority, attempt, worker, server, picked_up_at, started_at, ending)
                VALUES (?1, 1, 1, ?2, ?2, ?2, 0, 2, 0, 0, 0, 1, ?1, ?1, ?2, ?2, 1)";
    let mut jobs = Vec::new();
    {
        let mut insert = transaction.prepare(text).expect("the table is there");
        let begin = now() - Span::from_secs(86_400);
        for n in 0..FINISHED {
            let due = begin + Span::from_micros(n as i64 * 50_000);
            let job = JobId::new(due, ShardId((n % 64) as u16), n);
            insert.execute(params![job.to_bytes(), due.as_micros()]).expect("a row");
            if n % (FINISHED / LOGS) == 0 {
                jobs.push(job);
            }
        }
    }
    transaction.commit().expect("it is stored");
    jobs
}

/// Without the `--bench` that cargo adds.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench")
}
