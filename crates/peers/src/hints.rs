//! Word of new jobs on its way to their owner. What accumulated while the last message was
//! on its way is the next one; what does not fit is dropped, and the owner's sweep finds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punctual_core::job::Input;
use punctual_core::{JobRow, ServerId};
use punctual_proto::BATCH_BYTES_MAX;
use punctual_proto::peer as wire;
use punctual_proto::peer::peer_client::PeerClient;
use tokio::sync::mpsc;

use crate::convert;
use crate::signed::SignedChannel;

/// More than this waiting means that the peer does not keep up: its sweep is faster.
const QUEUED_MAX: usize = 20_000;
/// Jobs of one message.
const BATCH_MAX: usize = 2000;
const SEND_LIMIT: Duration = Duration::from_secs(2);
/// A row without its input and tracing id, on the wire.
const ROW_BYTES: usize = 64;

/// In the environment, for tests of the system: hints may be lost and repeated, and `drop` or
/// `twice` makes sure that they are.
const TEST_HINTS: &str = "PUNCTUAL_TEST_HINTS";

/// How often each hint is sent.
fn copies() -> usize {
    match std::env::var(TEST_HINTS).as_deref() {
        Ok("drop") => 0,
        Ok("twice") => 2,
        _ => 1,
    }
}

/// The queue to one peer. Dropping it ends the sender.
pub(crate) struct Hints {
    queue: mpsc::UnboundedSender<Vec<JobRow>>,
    /// Bounds the queue, in jobs.
    queued: Arc<AtomicUsize>,
    copies: usize,
}

impl Hints {
    pub(crate) fn start(client: PeerClient<SignedChannel>, peer: ServerId) -> Self {
        let (queue, rows) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        tokio::spawn(run(client, peer, rows, Arc::clone(&queued)));
        Self { queue, queued, copies: copies() }
    }

    pub(crate) fn send(&self, jobs: Vec<JobRow>) {
        for _ in 1..self.copies {
            self.send_once(jobs.clone());
        }
        if self.copies > 0 {
            self.send_once(jobs);
        }
    }

    fn send_once(&self, jobs: Vec<JobRow>) {
        let count = jobs.len();
        if self.queued.fetch_add(count, Ordering::Relaxed) + count > QUEUED_MAX {
            self.queued.fetch_sub(count, Ordering::Relaxed);
            return;
        }
        let _ = self.queue.send(jobs);
    }
}

async fn run(
    mut client: PeerClient<SignedChannel>,
    peer: ServerId,
    mut rows: mpsc::UnboundedReceiver<Vec<JobRow>>,
    queued: Arc<AtomicUsize>,
) {
    while let Some(first) = rows.recv().await {
        let mut waiting = first;
        while let Ok(more) = rows.try_recv() {
            waiting.extend(more);
        }
        queued.fetch_sub(waiting.len(), Ordering::Relaxed);
        for batch in Batches(waiting.into_iter().peekable()) {
            let request = wire::HintRequest { jobs: batch };
            let sent = tokio::time::timeout(SEND_LIMIT, client.hint(request)).await;
            if !matches!(sent, Ok(Ok(_))) {
                tracing::debug!(%peer, "hints were lost; the owner's sweep finds their jobs");
                break;
            }
        }
    }
}

/// Cuts rows into messages.
struct Batches(std::iter::Peekable<std::vec::IntoIter<JobRow>>);

impl Iterator for Batches {
    type Item = Vec<wire::HintedJob>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            let Some(row) = self.0.next() else { break };
            bytes += ROW_BYTES + row.tracing_id.as_ref().map_or(0, String::len);
            if let Input::Inline(input) = &row.input {
                bytes += input.len();
            }
            batch.push(convert::hint_to_wire(&row));
        }
        (!batch.is_empty()).then_some(batch)
    }
}
