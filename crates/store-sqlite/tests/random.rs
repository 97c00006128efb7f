//! The store and the model give the same answers to the same operations.

use std::path::Path;
use std::sync::Arc;

use punctual_store_sqlite::{Durability, Options, SqliteStore};
use punctual_store_tests::fixture::{SHARDS, at};
use punctual_store_tests::random::{AnswerCounts, compare};
use tempfile::TempDir;

const STEPS: usize = 150;

/// In memory where that is possible: hundreds of stores are made here, and what a loss of
/// power would do to them is not asked.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

async fn compare_all(seeds: std::ops::Range<u64>) {
    let mut seen = AnswerCounts::default();
    // A plan that is refused everything, or nothing, would compare little.
    let least = seeds.clone().count();
    for seed in seeds {
        let folder = folder();
        let options = Options {
            shard_count: SHARDS,
            durability: Durability::Normal,
            wal_kept_bytes: 0,
            ..Options::new(Arc::new(|| at(0)))
        };
        let store = SqliteStore::open(&folder.path().join("jobs.db"), options).unwrap();
        compare(seed, STEPS, &store, &mut seen).await;
    }
    assert!(seen.rarest() > least, "{seen:?}");
}

// Two tests, so that they can share two processors.
#[tokio::test]
async fn random_operations_have_the_same_answers_as_on_the_model() {
    compare_all(0..150).await;
}

#[tokio::test]
async fn other_random_operations_have_the_same_answers_as_on_the_model() {
    compare_all(150..300).await;
}
