//! What every store is held to.

mod common;

use std::sync::Arc;

use common::Database;
use punctual_store_tests::conformance_tests;
use punctual_store_tests::fixture::Fixture;

async fn postgres() -> Fixture {
    let database = Database::new();
    let store = database.store().await;
    Fixture::new(Arc::new(store), database)
}

conformance_tests!(postgres);
