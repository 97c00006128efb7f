//! What a stream to a server carries: everything that gathered since its last message.
//!
//! There is no timer: the transport asks for the next message when it can take one, so an
//! idle stream sends at once and a busy one sends large batches. Only the newest stream is
//! given anything; one that was replaced ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::Stream;
use futures_util::stream::unfold;
use punctual_proto::BATCH_BYTES_MAX;
use punctual_proto::convert::id_bytes;
use punctual_proto::worker as wire;

use crate::ledger::{Held, Ledger, State, outcome_bytes};

/// One stream to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionNo(u64);

/// More would only make the server's transaction longer, not the batch cheaper.
const OUTCOMES_LEN_MAX: usize = 4096;

/// A piece of a log; small enough that many attempts share a message.
const LOG_PIECE_BYTES_MAX: usize = 64 << 10;

/// The stream was replaced by a newer one.
struct Replaced;

/// The hello, then whatever there is to send, until the stream is closed.
pub(crate) fn messages(
    ledger: Arc<Ledger>,
    session: SessionNo,
    hello: wire::Hello,
) -> impl Stream<Item = wire::WorkerMessage> + Send + 'static {
    let hello = wire::WorkerMessage { hello: Some(hello), ..Default::default() };
    unfold((Some(hello), ledger), move |(hello, ledger)| async move {
        let message = match hello {
            Some(hello) => Some(hello),
            None => ledger.next_message(session).await,
        };
        message.map(|message| (message, (None, ledger)))
    })
}

impl Ledger {
    /// A new stream: everything that is not acknowledged will be sent on it.
    /// Answers the credit to be told in its hello.
    pub(crate) fn open_session(&self) -> (SessionNo, u32) {
        let mut state = self.state();
        state.session += 1;
        state.up = false;
        state.credit_told = state.credit();
        state.unsent.clear();
        let State { held, unsent, logs, .. } = &mut *state;
        for (key, held) in held {
            let log = match held {
                Held::Running { log, .. } => Some(&*log),
                Held::Finished(finished) => {
                    finished.sent_at = None;
                    unsent.push_back(*key);
                    finished.log.as_ref()
                }
            };
            if let Some(log) = log
                && log.rewind()
            {
                logs.push_back(log.clone());
            }
        }
        (SessionNo(state.session), state.credit_told)
    }

    pub(crate) fn welcomed(&self) {
        self.state().up = true;
    }

    /// The stream is gone: its sending side ends, whatever it still waits for.
    pub(crate) fn close_session(&self) {
        let mut state = self.state();
        state.session += 1;
        state.up = false;
        drop(state);
        self.outgoing.notify_one();
        self.progress.notify_one();
    }

    /// The stream that is up, if one is.
    pub(crate) fn up(&self) -> Option<SessionNo> {
        let state = self.state();
        state.up.then_some(SessionNo(state.session))
    }

    /// Sends again what was sent `age` ago and never acknowledged.
    pub(crate) fn resend(&self, age: Duration, now: Instant) {
        let mut state = self.state();
        let State { held, unsent, .. } = &mut *state;
        for (key, held) in held {
            if let Held::Finished(finished) = held
                && finished.sent_at.is_some_and(|sent_at| now.duration_since(sent_at) >= age)
            {
                finished.sent_at = None;
                unsent.push_back(*key);
            }
        }
        drop(state);
        self.outgoing.notify_one();
    }

    async fn next_message(&self, session: SessionNo) -> Option<wire::WorkerMessage> {
        loop {
            match self.compose(session, Instant::now()) {
                Ok(Some(message)) => return Some(message),
                Ok(None) => self.outgoing.notified().await,
                Err(Replaced) => {
                    // The wake-up may have been meant for the stream that replaced this one.
                    self.outgoing.notify_one();
                    return None;
                }
            }
        }
    }

    /// Everything there is to say, up to the size of a batch; `None` when there is nothing.
    fn compose(&self, session: SessionNo, now: Instant) -> Result<Option<wire::WorkerMessage>, Replaced> {
        let mut state = self.state();
        if state.session != session.0 {
            return Err(Replaced);
        }
        let mut message = wire::WorkerMessage::default();
        let credit = state.credit();
        if credit != state.credit_told {
            state.credit_told = credit;
            message.credit = Some(credit);
        }
        let bytes = state.take_logs(&mut message.logs);
        // An outcome must not overtake the log of its attempt.
        if state.logs.is_empty() {
            state.take_outcomes(&mut message.outcomes, bytes, now);
        }
        Ok((message != wire::WorkerMessage::default()).then_some(message))
    }
}

#[cfg(test)]
impl Ledger {
    /// How many outcomes the next message of a stream carries.
    pub(crate) fn compose_outcomes(&self, session: SessionNo, now: Instant) -> usize {
        match self.compose(session, now) {
            Ok(Some(message)) => message.outcomes.len(),
            Ok(None) | Err(Replaced) => 0,
        }
    }
}

impl State {
    fn take_logs(&mut self, chunks: &mut Vec<wire::LogChunk>) -> usize {
        let mut bytes = 0;
        while bytes < BATCH_BYTES_MAX
            && let Some(log) = self.logs.front()
        {
            let Some(piece) = log.take(LOG_PIECE_BYTES_MAX) else {
                self.logs.pop_front();
                continue;
            };
            bytes += 48 + piece.bytes.len();
            chunks.push(wire::LogChunk {
                job_id: id_bytes(log.job().to_bytes()),
                attempt: log.attempt().0,
                offset: piece.offset,
                bytes: piece.bytes,
            });
        }
        bytes
    }

    fn take_outcomes(&mut self, outcomes: &mut Vec<wire::Outcome>, mut bytes: usize, now: Instant) {
        outcomes.reserve(self.unsent.len().min(OUTCOMES_LEN_MAX));
        while bytes < BATCH_BYTES_MAX
            && outcomes.len() < OUTCOMES_LEN_MAX
            && let Some(key) = self.unsent.pop_front()
        {
            // Acknowledged or stopped since it was queued.
            let Some(Held::Finished(finished)) = self.held.get_mut(&key) else {
                continue;
            };
            finished.sent_at = Some(now);
            bytes += outcome_bytes(&finished.outcome);
            outcomes.push(finished.outcome.clone());
        }
    }
}
