//! What earlier versions left in plain text.

use std::sync::Arc;

use punctual_store::{CLUSTER_SECRET, ClusterSecret, RootKeyId, SealedKey, Secrets};
use punctual_store_sqlite::{Options, SqliteStore};
use punctual_store_tests::fixture::at;
use tempfile::TempDir;

fn open(folder: &TempDir) -> SqliteStore {
    let options = Options { wal_kept_bytes: 0, ..Options::new(Arc::new(|| at(0))) };
    SqliteStore::open(&folder.path().join("jobs.db"), options).unwrap()
}

#[tokio::test]
async fn the_plain_secret_of_earlier_versions_is_overwritten_when_it_is_sealed() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder).close().await.unwrap();
    let secret = *b"a secret that is in plain text..";
    let raw = rusqlite::Connection::open(folder.path().join("jobs.db")).unwrap();
    raw.execute("INSERT INTO meta (key, value) VALUES ('cluster_secret', ?1)", [secret]).unwrap();
    drop(raw);

    let store = open(&folder);
    assert_eq!(store.plain_cluster_secret().await.unwrap(), Some(ClusterSecret(secret)));
    let sealed =
        |byte| SealedKey { label: CLUSTER_SECRET.to_owned(), root_key: RootKeyId([byte; 8]), sealed: vec![byte; 72] };
    store.keep_sealed_key(SealedKey { label: "other".to_owned(), ..sealed(9) }).await.unwrap();
    assert!(store.plain_cluster_secret().await.unwrap().is_some(), "another key changes nothing");
    store.keep_sealed_key(sealed(1)).await.unwrap();
    assert_eq!(store.plain_cluster_secret().await.unwrap(), None);
    store.close().await.unwrap();
    let file = std::fs::read(folder.path().join("jobs.db")).unwrap();
    assert!(!file.windows(secret.len()).any(|bytes| bytes == secret), "it is still in the file");
}
