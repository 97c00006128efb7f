//! What every store is held to.

use std::sync::Arc;

use punctual_store_sqlite::{Options, SqliteStore};
use punctual_store_tests::conformance_tests;
use punctual_store_tests::fixture::{Fixture, SHARDS, at};

async fn sqlite() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { shard_count: SHARDS, wal_kept_bytes: 0, ..Options::new(Arc::new(|| at(0))) };
    let store = SqliteStore::open(&folder.path().join("jobs.db"), options).unwrap();
    Fixture::new(Arc::new(store), folder)
}

conformance_tests!(sqlite);
