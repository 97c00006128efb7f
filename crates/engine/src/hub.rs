//! Tells those who watch jobs that something changed.

use std::collections::HashMap;
use std::sync::Mutex;

use punctual_core::JobId;
use punctual_core::shard::event::Change;
use tokio::sync::{broadcast, oneshot};

/// Changes that a slow watcher may be behind before it is told that it missed some.
const BACKLOG_MAX: usize = 4096;

/// Below this many jobs it is not worth looking for those that nobody waits for.
const TIDY_MIN: usize = 1024;

pub type Changes = broadcast::Receiver<Change>;

pub(crate) struct Hub {
    changes: broadcast::Sender<Change>,
    finishes: Mutex<Finishes>,
}

/// Who waits for the ends of which jobs.
#[derive(Default)]
struct Finishes {
    waiting: HashMap<JobId, Vec<oneshot::Sender<()>>>,
    /// With so many jobs, those that nobody waits for any more are forgotten.
    tidy_at: usize,
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
        finishes.tidy();
        let waiting = finishes.waiting.entry(id).or_default();
        waiting.retain(|sender| !sender.is_closed());
        waiting.push(sender);
        receiver
    }

    pub(crate) fn publish(&self, changes: Vec<Change>) {
        let mut finishes = self.finishes.lock().expect("no panic while the lock is held");
        if !finishes.waiting.is_empty() {
            for change in changes.iter().filter(|change| change.state.is_final()) {
                for waiting in finishes.waiting.remove(&change.id).unwrap_or_default() {
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
}

impl Finishes {
    /// Forgets those who stopped waiting for jobs that never finish, once there may be as many of them as of others.
    fn tidy(&mut self) {
        if self.waiting.len() < self.tidy_at {
            return;
        }
        self.waiting.retain(|_, waiting| {
            waiting.retain(|sender| !sender.is_closed());
            !waiting.is_empty()
        });
        self.tidy_at = (2 * self.waiting.len()).max(TIDY_MIN);
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::{ShardId, Timestamp};

    use super::*;

    #[test]
    fn jobs_that_nobody_waits_for_are_forgotten() {
        let hub = Hub::new();
        let job = |number| JobId::new(Timestamp::EPOCH, ShardId(0), number);
        let _kept = hub.finish_of(job(0));
        for number in 1..10 * TIDY_MIN as u64 {
            drop(hub.finish_of(job(number)));
        }
        let finishes = hub.finishes.lock().unwrap();
        assert!(finishes.waiting.len() <= TIDY_MIN && finishes.waiting.contains_key(&job(0)));
    }
}
