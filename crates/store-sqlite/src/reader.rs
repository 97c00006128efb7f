//! A fixed number of read-only connections. Reads beyond that number wait.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use punctual_store::{Result, StoreError};
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::connection;
use crate::health::Health;
use crate::writer::Failure;

pub(crate) struct Readers {
    pool: Arc<Pool>,
    health: Arc<Health>,
}

struct Pool {
    free: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        // A read that panicked has not left the list half changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Readers {
    pub(crate) fn open(path: &Path, count: usize, health: &Arc<Health>) -> Result<Self> {
        let idle = (0..count).map(|_| connection::open_reader(path)).collect::<Result<Vec<_>>>()?;
        let pool = Pool { free: Semaphore::new(count), idle: Mutex::new(idle) };
        Ok(Self { pool: Arc::new(pool), health: Arc::clone(health) })
    }

    /// Runs `read` in one snapshot of the store.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> std::result::Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        self.health.readable()?;
        let pool = self.pool.clone();
        let permit = pool.free.acquire().await.map_err(|_| StoreError::Closed)?;
        // Given back by the blocking task: the caller may stop waiting before it ends.
        permit.forget();
        let task = tokio::task::spawn_blocking({
            let pool = pool.clone();
            move || {
                let borrowed = Borrowed { conn: pool.idle().pop(), pool: &pool };
                let conn = borrowed.conn.as_ref().expect("a permit stands for an idle connection");
                snapshot(conn, read)
            }
        });
        match task.await {
            Ok(result) => result.map_err(|failure| failure.into_error(&self.health)),
            Err(error) => Err(StoreError::Unavailable(format!("a read ended early: {error}"))),
        }
    }
}

/// Gives the connection back even when the read panics.
struct Borrowed<'a> {
    conn: Option<Connection>,
    pool: &'a Pool,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.pool.idle().extend(self.conn.take());
        self.pool.free.add_permits(1);
    }
}

fn snapshot<T>(
    conn: &Connection,
    read: impl FnOnce(&Connection) -> std::result::Result<T, Failure>,
) -> std::result::Result<T, Failure> {
    let tx = conn.unchecked_transaction()?;
    let value = read(conn)?;
    tx.commit()?;
    Ok(value)
}
