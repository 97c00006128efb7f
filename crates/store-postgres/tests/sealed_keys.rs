//! Sealed keys that are gone are gone from the data files too.

mod common;

use std::time::{Duration, Instant};

use common::Database;
use punctual_store::{RootKeyId, SealedKey, Secrets};
use punctual_store_postgres::PostgresStore;

fn key(label: &str, mark: &str) -> SealedKey {
    SealedKey { label: label.to_owned(), root_key: RootKeyId([1; 8]), sealed: mark.as_bytes().to_vec() }
}

/// Whether the file of the table has these bytes.
fn has(database: &Database, mark: &str) -> bool {
    database.execute("CHECKPOINT");
    let file = "pg_read_binary_file(pg_relation_filepath('sealed_key'))";
    database.execute(&format!("SELECT position(convert_to('{mark}', 'UTF8') IN {file}) > 0")).trim() == "t"
}

fn file(database: &Database) -> String {
    database.execute("SELECT pg_relation_filepath('sealed_key')")
}

#[tokio::test]
async fn a_key_that_was_dropped_leaves_the_file_of_its_table() {
    let database = Database::new();
    let store = PostgresStore::connect(database.options()).await.unwrap();
    store.keep_sealed_key(key("a", "the first sealed key")).await.unwrap();
    store.keep_sealed_key(key("b", "the last sealed key of the page")).await.unwrap();
    assert!(store.drop_sealed_key("b").await.unwrap());
    database.execute("VACUUM sealed_key");
    assert!(has(&database, "the last sealed key"), "an ordinary VACUUM leaves it, or this test shows nothing");
    let mut done = store.scrub_sealed_keys(None).await.unwrap();
    assert!(!has(&database, "the last sealed key") && has(&database, "the first sealed key"));
    assert_eq!(store.sealed_keys().await.unwrap(), [key("a", "the first sealed key")]);

    // PostgreSQL counts what was changed some seconds later.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let next = store.scrub_sealed_keys(Some(done)).await.unwrap();
        if next == done && next > 0 {
            break;
        }
        done = next;
        assert!(Instant::now() < deadline, "the removal is not counted");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let before = file(&database);
    assert_eq!(store.scrub_sealed_keys(Some(done)).await.unwrap(), done);
    assert_eq!(file(&database), before, "nothing is written anew if nothing has changed");
    store
        .rewrap_keys(RootKeyId([1; 8]), vec![SealedKey { root_key: RootKeyId([2; 8]), ..key("a", "sealed anew") }])
        .await
        .unwrap();
    while store.scrub_sealed_keys(Some(done)).await.unwrap() == done {
        assert!(Instant::now() < deadline, "the change is not counted");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(!has(&database, "the first sealed key") && has(&database, "sealed anew"));
}
