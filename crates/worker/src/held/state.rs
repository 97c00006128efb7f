//! The data behind the lock of [`super::HeldAttempts`]. Every method keeps the counters consistent.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use prost::Message;
use punctual_core::attempt::Outcome;
use punctual_core::credits::Credits;
use punctual_core::id_map::IdMap;
use punctual_core::shard::event::Report;
use punctual_core::{ServerId, ShardId, Timestamp};
use punctual_exec::{Cancel, LogSink};
use punctual_proto::convert::outcome_to_wire;
use punctual_proto::worker as wire;

use super::links::LinkState;
use super::owners::Owners;
use super::{Key, LinkNo};

/// When unacknowledged outcomes exceed this size, no more work is taken until a server acknowledges some of them.
const UNACKED_BYTES_MAX: usize = 64 << 20;
/// Together with the number of slots, keeps a hello below the maximum size of a message.
pub(crate) const UNACKED_LEN_MAX: usize = 1 << 16;

pub(crate) struct HeldState {
    pub(crate) held: IdMap<Key, HeldAttempt>,
    pub(crate) running: usize,
    pub(crate) links: BTreeMap<LinkNo, LinkState>,
    pub(super) owners: Owners,
    pub(crate) credits: Credits<LinkNo>,
    /// Servers that have asked for this worker, and for how long that holds.
    pub(super) invited: BTreeMap<ServerId, Timestamp>,
    /// When the credits are to be divided again.
    pub(crate) plan_at: Option<Timestamp>,
    /// Something happened that the division of slots depends on.
    pub(super) is_plan_due: bool,
    /// Logs of attempts whose owner is not known.
    pub(super) stray_logs: Vec<LogSink>,
    slots: u32,
    unacked_bytes: usize,
    pub(crate) draining: bool,
    overfull: bool,
}

pub(crate) enum HeldAttempt {
    Running {
        cancel: Cancel,
        log: LogSink,
    },
    /// Boxed: it is much larger, and every attempt passes through the map as a running one.
    Finished(Box<FinishedAttempt>),
}

pub(crate) struct FinishedAttempt {
    pub(crate) outcome: wire::Outcome,
    /// The log, kept only if the attempt printed something.
    pub(crate) log: Option<LogSink>,
    pub(super) kept: SpoolState,
    /// When the outcome was last put into a message to any server.
    pub(crate) sent_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Posting {
    ToItsOwner,
    /// Queued for every server that can be reached, or for none.
    InDoubt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpoolState {
    InMemory,
    /// Handed to the spool, which has not confirmed the write yet.
    OnItsWay,
    OnDisk,
}

impl SpoolState {
    pub(super) fn is_known_to_the_spool(self) -> bool {
        match self {
            Self::InMemory => false,
            Self::OnItsWay | Self::OnDisk => true,
        }
    }
}

impl HeldState {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            held: IdMap::default(),
            running: 0,
            links: BTreeMap::new(),
            owners: Owners::default(),
            credits: Credits::new(slots),
            invited: BTreeMap::new(),
            plan_at: None,
            is_plan_due: false,
            stray_logs: Vec::new(),
            slots,
            unacked_bytes: 0,
            draining: false,
            overfull: false,
        }
    }

    pub(super) fn refusal(&self) -> Option<&'static str> {
        if self.draining {
            Some("the worker is about to leave")
        } else if self.running >= self.slots as usize {
            Some("no free slot")
        } else {
            None
        }
    }

    /// The link to the shard's owner, if it is known.
    pub(super) fn home(&self, shard: ShardId) -> Option<LinkNo> {
        self.owners.link(shard)
    }

    pub(super) fn keep(&mut self, key: Key, outcome: wire::Outcome, log: Option<LogSink>, kept: SpoolState) {
        self.unacked_bytes += outcome_bytes(&outcome);
        let finished = FinishedAttempt { outcome, log, kept, sent_at: None };
        self.held.insert(key, HeldAttempt::Finished(Box::new(finished)));
        self.weigh();
    }

    /// Queues an outcome for the shard's owner, or for every reachable server if the owner is unknown. Returns how
    /// certain its delivery is.
    pub(super) fn post(&mut self, key: Key) -> Posting {
        match self.home(key.0.shard()).and_then(|home| self.links.get_mut(&home)).filter(|link| link.is_open()) {
            Some(home) => {
                home.unsent.push_back(key);
                if home.is_up() { Posting::ToItsOwner } else { Posting::InDoubt }
            }
            None => {
                self.post_to_all(key);
                Posting::InDoubt
            }
        }
    }

    pub(super) fn post_to_all(&mut self, key: Key) {
        for link in self.links.values_mut().filter(|link| link.is_open()) {
            link.unsent.push_back(key);
        }
    }

    pub(super) fn began(&mut self, shard: ShardId) {
        self.running += 1;
        match self.home(shard) {
            Some(home) => self.is_plan_due |= self.credits.began(home),
            None => self.recount(),
        }
    }

    pub(super) fn ended(&mut self, shard: ShardId) {
        self.running -= 1;
        let home = self.home(shard);
        match home {
            Some(home) => self.credits.ended(home),
            None => self.recount(),
        }
        // The slots of a server that is away go to the others as they become free.
        let is_open = home.and_then(|home| self.links.get(&home)).is_some_and(LinkState::is_open);
        self.is_plan_due |= !is_open;
    }

    /// Counts the running attempts of each server again, after shards have changed owners.
    pub(super) fn recount(&mut self) {
        let mut counts: BTreeMap<LinkNo, u32> = self.links.keys().map(|link| (*link, 0)).collect();
        let mut orphans = 0;
        for ((job, _), held) in &self.held {
            if matches!(held, HeldAttempt::Running { .. }) {
                let home = self.owners.link(job.shard());
                *home.and_then(|home| counts.get_mut(&home)).unwrap_or(&mut orphans) += 1;
            }
        }
        for (link, count) in counts {
            self.credits.set_active(link, count);
        }
        self.credits.set_orphans(orphans);
    }

    pub(super) fn forget(&mut self, key: Key) -> Option<SpoolState> {
        match self.held.remove(&key)? {
            HeldAttempt::Running { cancel, log } => {
                let _ = log.close();
                cancel.stop();
                self.ended(key.0.shard());
                None
            }
            HeldAttempt::Finished(finished) => {
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
            self.is_plan_due = true;
            if overfull {
                self.credits.pause()
            } else {
                self.credits.resume()
            }
            tracing::warn!(overfull, unacked_len, "outcomes wait for a server: work is taken only below a limit");
        }
    }
}

/// The approximate size of an outcome in a message.
pub(crate) fn outcome_bytes(outcome: &wire::Outcome) -> usize {
    use wire::outcome::Result as R;
    let text = match &outcome.result {
        Some(R::Succeeded(succeeded)) => succeeded.output.as_ref().map_or(0, Bytes::len),
        Some(R::Failed(failed)) => failed.reason.len(),
        Some(R::NotStarted(not_started)) => not_started.reason.len(),
        Some(R::Cancelled(_)) | None => 0,
    };
    let details = outcome.details.as_ref().map_or(0, |details| details.encoded_len());
    48 + outcome.token.len() + text + details
}

pub(super) fn not_started((id, attempt): Key, token: Bytes, reason: String) -> wire::Outcome {
    let outcome = Outcome::NotStarted { reason };
    wire::Outcome { token, ..outcome_to_wire(&Report { id, attempt, outcome, timed_out: false, details: None }) }
}
