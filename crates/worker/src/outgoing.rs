//! Composes the messages of a stream to a server: everything that gathered since the last one.
//!
//! There is no timer. The transport asks for the next message when it can send one, so an idle stream sends at once and
//! a busy one sends large batches. Only the newest stream to a server gets messages; a replaced stream ends.

use std::sync::Arc;
use std::time::Instant;

use futures_util::Stream;
use futures_util::stream::unfold;
use punctual_core::id_map::IdMap;
use punctual_proto::BATCH_BYTES_MAX;
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;
use tokio::sync::oneshot;

use crate::held::{HeldAttempt, HeldAttempts, HeldState, Key, LinkNo, LinkState, outcome_bytes};

/// Numbers the streams of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionNo(pub(crate) u64);

/// More outcomes would only make the server's transaction longer, not the batch cheaper.
const OUTCOMES_LEN_MAX: usize = 4096;

/// The maximum size of a piece of a log, small enough that many attempts share a message.
const LOG_PIECE_BYTES_MAX: usize = 64 << 10;

/// The error of a stream that a newer one has replaced.
struct ReplacedStream;

/// The hello that opens a stream after the server's greeting.
pub(crate) type Introduction = (SessionNo, wire::Hello);

/// The messages of a stream: the hello, then everything there is to send, until the stream is closed.
pub(crate) fn messages(
    held: Arc<HeldAttempts>,
    link: LinkNo,
    introduction: oneshot::Receiver<Introduction>,
) -> impl Stream<Item = wire::WorkerMessage> + Send + 'static {
    enum StreamStage {
        Silent(oneshot::Receiver<Introduction>),
        Open(SessionNo),
    }
    unfold((StreamStage::Silent(introduction), held), move |(stage, held)| async move {
        let (session, message) = match stage {
            StreamStage::Silent(introduction) => {
                let (session, hello) = introduction.await.ok()?;
                (session, wire::WorkerMessage { hello: Some(hello), ..Default::default() })
            }
            StreamStage::Open(session) => (session, held.next_message(link, session).await?),
        };
        Some((message, (StreamStage::Open(session), held)))
    })
}

impl HeldAttempts {
    async fn next_message(&self, link: LinkNo, session: SessionNo) -> Option<wire::WorkerMessage> {
        let outgoing = self.state().links.get(&link)?.outgoing.clone();
        loop {
            match self.compose(link, session, Instant::now()) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => outgoing.notified().await,
                Err(ReplacedStream) => {
                    // The wake-up may have been meant for the stream that replaced this one.
                    outgoing.notify_one();
                    return None;
                }
            }
        }
    }

    /// Composes the next message, up to the size of a batch; `None` if there is nothing to send.
    fn compose(
        &self,
        link: LinkNo,
        session: SessionNo,
        now: Instant,
    ) -> Result<Option<wire::WorkerMessage>, ReplacedStream> {
        let mut guard = self.state();
        let HeldState { links, held, credits, draining, .. } = &mut *guard;
        let state = links.get_mut(&link).filter(|link| link.session == session.0).ok_or(ReplacedStream)?;
        let credit = credits.take_untold(link);
        let leaving = *draining && credit.is_some();
        let mut message = wire::WorkerMessage { credit, leaving, ..Default::default() };
        let bytes = state.take_logs(&mut message.logs);
        // An outcome must not overtake the log of its attempt.
        if state.logs.is_empty() {
            state.take_outcomes(held, &mut message.outcomes, bytes, now);
        }
        Ok((message != wire::WorkerMessage::default()).then_some(message))
    }
}

#[cfg(test)]
impl HeldAttempts {
    /// How many outcomes the next message of a stream carries.
    pub(crate) fn compose_outcomes(&self, link: LinkNo, session: SessionNo, now: Instant) -> usize {
        match self.compose(link, session, now) {
            Ok(Some(message)) => message.outcomes.len(),
            Ok(None) | Err(ReplacedStream) => 0,
        }
    }
}

impl LinkState {
    fn take_logs(&mut self, chunks: &mut Vec<wire::LogChunk>) -> usize {
        let mut bytes = 0;
        while bytes < BATCH_BYTES_MAX
            && let Some(log) = self.logs.front()
        {
            let Some(piece) = log.take(LOG_PIECE_BYTES_MAX) else {
                self.logs.pop_front();
                continue;
            };
            bytes += 48 + piece.bytes.len() + piece.marks.len();
            chunks.push(wire::LogChunk {
                job_id: id_bytes(log.job().to_bytes()),
                attempt: log.attempt().0,
                offset: piece.offset,
                bytes: piece.bytes,
                marks: piece.marks,
                token: log.token(),
            });
        }
        bytes
    }

    fn take_outcomes(
        &mut self,
        held: &mut IdMap<Key, HeldAttempt>,
        outcomes: &mut Vec<wire::Outcome>,
        mut bytes: usize,
        now: Instant,
    ) {
        outcomes.reserve(self.unsent.len().min(OUTCOMES_LEN_MAX));
        while bytes < BATCH_BYTES_MAX
            && outcomes.len() < OUTCOMES_LEN_MAX
            && let Some(key) = self.unsent.pop_front()
        {
            // Acknowledged or stopped since it was queued.
            let Some(HeldAttempt::Finished(finished)) = held.get_mut(&key) else {
                continue;
            };
            finished.sent_at = Some(now);
            bytes += outcome_bytes(&finished.outcome);
            outcomes.push(finished.outcome.clone());
        }
    }
}
