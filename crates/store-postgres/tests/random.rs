//! The store and the model give the same answers to the same operations.

mod common;

use common::Database;
use punctual_store_tests::random::{AnswerCounts, compare};

const STEPS: usize = 150;

async fn compare_all(seeds: std::ops::Range<u64>) {
    let mut seen = AnswerCounts::default();
    // A plan that is refused everything, or nothing, would compare little.
    let least = seeds.clone().count();
    let database = Database::new();
    for seed in seeds {
        database.empty();
        let store = database.store().await;
        compare(seed, STEPS, &store, &mut seen).await;
        store.close().await.unwrap();
    }
    assert!(seen.rarest() > least, "{seen:?}");
}

// Two tests, so that they can share two processors.
#[tokio::test]
async fn random_operations_have_the_same_answers_as_on_the_model() {
    compare_all(0..50).await;
}

#[tokio::test]
async fn other_random_operations_have_the_same_answers_as_on_the_model() {
    compare_all(150..200).await;
}
