//! The model keeps the promises that it is used to check.

use std::sync::Arc;

use punctual_store_tests::conformance_tests;
use punctual_store_tests::fixture::{Fixture, SHARDS, at};
use punctual_store_tests::model::ModelStore;

async fn model() -> Fixture {
    Fixture::new(Arc::new(ModelStore::new(SHARDS, at(0))), ())
}

conformance_tests!(model);
