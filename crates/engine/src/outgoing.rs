//! The queue of messages for one connection of a worker.
//!
//! The driver never waits for a worker, so the queue takes what it is given. A worker that does not read is not read either
//! from [`CROWDED_LEN`] entries on, and its connection ends at [`QUEUED_LEN_MAX`]: it connects again and says what it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use crate::streams::Outgoing;

/// Assignments, acknowledgements and other entries: more than a worker that reads leaves unread.
const CROWDED_LEN: usize = 32_768;
/// What the driver sends by itself, such as cancels and changes of the demand, adds up for a worker that never reads.
const QUEUED_LEN_MAX: usize = 524_288;

pub(crate) fn channel() -> (OutgoingSender, OutgoingReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let queue = Queue::default();
    (OutgoingSender { sender, queue: queue.clone() }, OutgoingReceiver { receiver, queue })
}

/// How many entries wait.
#[derive(Clone, Default)]
pub(crate) struct Queue(Arc<AtomicUsize>);

impl Queue {
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.load(Ordering::Relaxed) > CROWDED_LEN
    }
}

pub(crate) struct OutgoingSender {
    sender: mpsc::UnboundedSender<Outgoing>,
    pub(crate) queue: Queue,
}

/// The connection takes no more.
pub(crate) struct Full;

impl OutgoingSender {
    pub(crate) fn send(&self, message: Outgoing) -> Result<(), Full> {
        if self.queue.0.load(Ordering::Relaxed) >= QUEUED_LEN_MAX {
            return Err(Full);
        }
        // Counted first, or the receiver could take it off before it is counted.
        self.queue.0.fetch_add(message.len(), Ordering::Relaxed);
        let _ = self.sender.send(message);
        Ok(())
    }
}

/// The receiving side. Empty for good when the engine has ended the connection.
pub struct OutgoingReceiver {
    receiver: mpsc::UnboundedReceiver<Outgoing>,
    queue: Queue,
}

impl OutgoingReceiver {
    /// `None` when the connection has ended.
    pub async fn recv(&mut self) -> Option<Outgoing> {
        let message = self.receiver.recv().await?;
        self.queue.0.fetch_sub(message.len(), Ordering::Relaxed);
        Some(message)
    }

    /// Waits for the first message and takes up to `limit`. Zero when the connection has ended.
    pub async fn recv_many(&mut self, messages: &mut Vec<Outgoing>, limit: usize) -> usize {
        let before = messages.len();
        let taken = self.receiver.recv_many(messages, limit).await;
        let entries = messages[before..].iter().map(Outgoing::len).sum();
        self.queue.0.fetch_sub(entries, Ordering::Relaxed);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_reads_nothing_is_not_read_and_then_cut_off() {
        let (sender, mut receiver) = channel();
        let queue = sender.queue.clone();
        for _ in 0..=CROWDED_LEN {
            assert!(!queue.is_crowded());
            assert!(sender.send(Outgoing::default()).is_ok());
        }
        assert!(queue.is_crowded());
        let mut taken = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(receiver.recv_many(&mut taken, 2));
        assert!(!queue.is_crowded(), "it reads");
        while sender.send(Outgoing::default()).is_ok() {}
        assert_eq!(queue.0.load(Ordering::Relaxed), QUEUED_LEN_MAX, "an empty message counts as one entry");
    }
}
