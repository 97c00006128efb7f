//! A database for each test, on the server that all tests share.

#![allow(dead_code, reason = "each test uses some of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_local_postgres::shared;
use punctual_store_postgres::{Options, PostgresStore};
use punctual_store_tests::fixture::{SHARDS, at};

/// Dropped with everything in it.
pub(crate) struct Database {
    name: String,
    pub(crate) url: String,
}

impl Database {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        // One of a process that had this number before.
        shared().drop_database(&name).unwrap();
        let url = shared().create_database(&name).unwrap();
        Self { name, url }
    }

    pub(crate) fn execute(&self, sql: &str) -> String {
        shared().execute_in(&self.name, sql).unwrap()
    }

    /// The same database for another user.
    pub(crate) fn url_as(&self, user: &str, password: &str) -> String {
        let (_, server) = self.url.split_once('@').unwrap();
        let schema = format!("options=-csearch_path%3D{user}");
        let joint = if server.contains('?') { '&' } else { '?' };
        format!("postgresql://{user}:{password}@{server}{joint}{schema}")
    }

    /// As it was made.
    pub(crate) fn empty(&self) {
        self.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    }

    /// As cases expect it: four shards, time that stands still, epochs that count from one.
    pub(crate) fn options(&self) -> Options {
        options(&self.url)
    }

    pub(crate) async fn store(&self) -> PostgresStore {
        PostgresStore::connect(self.options()).await.unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = shared().drop_database(&self.name);
    }
}

pub(crate) fn options(url: &str) -> Options {
    Options { shard_count: SHARDS, clock: Some(Arc::new(|| at(0))), generation: Some(0), ..Options::new(url) }
}
