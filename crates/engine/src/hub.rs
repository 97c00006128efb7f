//! Tells those who watch jobs that something changed.

use std::collections::HashMap;
use std::sync::Mutex;

use punctual_core::JobId;
use punctual_core::shard::event::Change;
use tokio::sync::{broadcast, oneshot};

/// Changes that a slow watcher may be behind before it is told that it missed some.
const BACKLOG_MAX: usize = 4096;

pub type Changes = broadcast::Receiver<Change>;

pub(crate) struct Hub {
    changes: broadcast::Sender<Change>,
    finishes: Mutex<HashMap<JobId, Vec<oneshot::Sender<()>>>>,
}

impl Hub {
    pub(crate) fn new() -> Self {
        Self { changes: broadcast::Sender::new(BACKLOG_MAX), finishes: Mutex::default() }
    }

    pub(crate) fn watch(&self) -> Changes {
        self.changes.subscribe()
    }

    /// Resolves when the job has finished. Subscribe before reading the job, or its
    /// end may fall in between.
    pub(crate) fn finish_of(&self, id: JobId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut finishes = self.finishes.lock().expect("no panic while the lock is held");
        let waiting = finishes.entry(id).or_default();
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        receiver
    }

    pub(crate) fn publish(&self, changes: Vec<Change>) {
        let mut finishes = self.finishes.lock().expect("no panic while the lock is held");
        if !finishes.is_empty() {
            for change in changes.iter().filter(|change| change.state.is_final()) {
                for waiting in finishes.remove(&change.id).unwrap_or_default() {
                    let _ = waiting.send(());
                }
            }
        }
        drop(finishes);
        if self.changes.receiver_count() > 0 {
            for change in changes {
                let _ = self.changes.send(change);
            }
        }
    }

    /// Forgets those who stopped waiting for jobs that never finish.
    pub(crate) fn tidy(&self) {
        let mut finishes = self.finishes.lock().expect("no panic while the lock is held");
        finishes.retain(|_, waiting| {
            waiting.retain(|sender| !sender.is_closed());
            !waiting.is_empty()
        });
    }
}
