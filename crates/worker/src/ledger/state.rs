//! The ledger's content. Every change keeps its counts true.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use punctual_core::attempt::Outcome;
use punctual_core::shard::event::Report;
use punctual_exec::{Cancel, LogSink};
use punctual_proto::convert::outcome_to_wire;
use punctual_proto::worker as wire;

use super::Key;

/// Above this no more work is taken until a server acknowledges some of it.
const UNACKED_BYTES_MAX: usize = 64 << 20;
/// With the slots, keeps a hello below the size of a message.
pub(crate) const UNACKED_LEN_MAX: usize = 1 << 16;

pub(crate) struct State {
    pub(crate) held: HashMap<Key, Held>,
    pub(crate) running: usize,
    pub(crate) unsent: VecDeque<Key>,
    pub(crate) logs: VecDeque<LogSink>,
    unacked_bytes: usize,
    /// Numbers the streams to this server, one at a time; see `outgoing`.
    pub(crate) session: u64,
    /// The server has answered on the stream.
    pub(crate) up: bool,
    /// How many attempts the server may have in flight here, as configured.
    share: u32,
    pub(super) draining: bool,
    overfull: bool,
    pub(crate) credit_told: u32,
}

pub(crate) enum Held {
    Running { cancel: Cancel, log: LogSink },
    Finished(Finished),
}

pub(crate) struct Finished {
    pub(crate) outcome: wire::Outcome,
    /// Kept only if something was printed.
    pub(crate) log: Option<LogSink>,
    pub(super) kept: Kept,
    pub(crate) sent_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    InMemory,
    /// Handed to the spool, which has not said yet how that went.
    OnItsWay,
    OnDisk,
}

impl Kept {
    pub(super) fn is_known_to_the_spool(self) -> bool {
        match self {
            Self::InMemory => false,
            Self::OnItsWay | Self::OnDisk => true,
        }
    }
}

impl State {
    pub(super) fn new(share: u32) -> Self {
        Self {
            held: HashMap::new(),
            running: 0,
            unsent: VecDeque::new(),
            logs: VecDeque::new(),
            unacked_bytes: 0,
            session: 0,
            up: false,
            share,
            draining: false,
            overfull: false,
            credit_told: 0,
        }
    }

    pub(super) fn refusal(&self) -> Option<&'static str> {
        if self.draining {
            Some("the worker is about to leave")
        } else if self.running >= self.share as usize {
            Some("no free slot")
        } else {
            None
        }
    }

    pub(crate) fn credit(&self) -> u32 {
        if self.draining || self.overfull { 0 } else { self.share }
    }

    pub(super) fn keep(&mut self, key: Key, outcome: wire::Outcome, log: Option<LogSink>, kept: Kept) {
        self.unacked_bytes += outcome_bytes(&outcome);
        self.held.insert(key, Held::Finished(Finished { outcome, log, kept, sent_at: None }));
        self.weigh();
    }

    pub(super) fn forget(&mut self, key: Key) -> Option<Kept> {
        match self.held.remove(&key)? {
            Held::Running { cancel, log } => {
                log.close();
                cancel.stop();
                self.running -= 1;
                None
            }
            Held::Finished(finished) => {
                self.unacked_bytes -= outcome_bytes(&finished.outcome);
                self.weigh();
                Some(finished.kept)
            }
        }
    }

    fn weigh(&mut self) {
        let unacked_len = self.held.len() - self.running;
        // Half the limit ends it: a worker at the limit would tell a new credit at every outcome.
        let (bytes_max, len_max) = match self.overfull {
            false => (UNACKED_BYTES_MAX, UNACKED_LEN_MAX),
            true => (UNACKED_BYTES_MAX / 2, UNACKED_LEN_MAX / 2),
        };
        let overfull = self.unacked_bytes > bytes_max || unacked_len > len_max;
        if overfull != self.overfull {
            self.overfull = overfull;
            tracing::warn!(overfull, unacked_len, "outcomes wait for a server: work is taken only below a limit");
        }
    }
}

/// About what an outcome takes in a message.
pub(crate) fn outcome_bytes(outcome: &wire::Outcome) -> usize {
    use wire::outcome::Result as R;
    let text = match &outcome.result {
        Some(R::Succeeded(succeeded)) => succeeded.output.as_ref().map_or(0, Bytes::len),
        Some(R::Failed(failed)) => failed.reason.len(),
        Some(R::NotStarted(not_started)) => not_started.reason.len(),
        Some(R::Cancelled(_)) | None => 0,
    };
    48 + text
}

pub(super) fn not_started((id, attempt): Key, reason: String) -> wire::Outcome {
    outcome_to_wire(&Report { id, attempt, outcome: Outcome::NotStarted { reason }, timed_out: false })
}
