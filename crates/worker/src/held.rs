//! The attempts that this worker holds: assigned, and not yet acknowledged by a server.
//!
//! An attempt is held from the moment its assignment was read until its outcome is acknowledged, whichever server
//! assigned it; the list in a hello is read from here. There is one lock. It is held for short and bounded work only
//! and never while an executor runs, because the heartbeat needs it.

mod links;
mod owners;
mod state;
mod survey;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::JobId;
use punctual_core::schedule::ScheduledRun;
use punctual_core::shard::event::Report;
use punctual_core::shard::write::Epoch;
use punctual_exec::{Cancel, LogOutlet, LogSink};
use punctual_proto::ShortBytes;
use punctual_proto::convert::outcome_to_wire_in;
use punctual_proto::worker as wire;
use tokio::sync::Notify;

use crate::attempts::{Attempt, GivenSecrets};
use crate::tasks::RunnableTask;
pub(crate) use links::{HelloContent, IsAlias, LinkNo, LinkStage, LinkState, PeerAddress, ServerGreeting};
use owners::EpochCheck;
pub(crate) use state::{HeldAttempt, HeldState, SpoolState, UNACKED_LEN_MAX, outcome_bytes};
use state::{Posting, not_started};
pub(crate) use survey::{LinkSurvey, Survey};

pub(crate) type Key = (JobId, AttemptNo);
pub(crate) type KeyedOutcome = (Key, wire::Outcome);

pub(crate) struct HeldAttempts {
    state: Mutex<HeldState>,
    started: Instant,
    /// Signals that an outcome arrived while its server could not be reached, so that it may have to be spooled.
    pub(crate) unspooled: Notify,
    /// Signals that the time of the next division of credits has changed.
    pub(crate) planned: Notify,
    /// Signals that a server announced its peers.
    pub(crate) servers: Notify,
    /// Signals a worker that is shutting down that an attempt was finished, spooled or acknowledged.
    pub(crate) progress: Notify,
}

/// An assignment as it was read: what to run, or why it cannot be run here.
pub(crate) struct ReceivedAssignment {
    pub(crate) key: Key,
    pub(crate) epoch: Epoch,
    /// The attempt's token, sent with every report and log of the attempt.
    pub(crate) token: Bytes,
    pub(crate) task: Result<Arc<RunnableTask>, String>,
    pub(crate) input: Option<Bytes>,
    pub(crate) tracing_id: Option<String>,
    pub(crate) scheduled_run: Option<Box<ScheduledRun>>,
    pub(crate) secrets: GivenSecrets,
}

/// The work that a worker still has to finish before it can leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct RemainingWork {
    pub(crate) running: usize,
    pub(crate) unacked: usize,
    pub(crate) not_on_disk: usize,
    /// The number of servers with an established stream.
    pub(crate) connected: usize,
}

impl HeldAttempts {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            state: Mutex::new(HeldState::new(slots)),
            started: Instant::now(),
            unspooled: Notify::new(),
            planned: Notify::new(),
            servers: Notify::new(),
            progress: Notify::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, HeldState> {
        // No code under this lock leaves it half changed, so a panic elsewhere is no reason
        // to stop reporting.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records assignments and returns those to run. The others are given back. An assignment from a former owner of
    /// its shard is ignored, as if it had never been received.
    pub(crate) fn register(
        self: &Arc<Self>,
        link: LinkNo,
        assigned: Vec<ReceivedAssignment>,
        log_bytes_max: usize,
    ) -> Vec<Attempt> {
        let mut begun = Vec::with_capacity(assigned.len());
        let mut refused = 0;
        let mut surplus = 0;
        let mut state = self.state();
        for ReceivedAssignment { key, epoch, token, task, input, tracing_id, scheduled_run, secrets } in assigned {
            let shard = key.0.shard();
            match state.owners.hear(shard, epoch, link) {
                EpochCheck::Outdated => {
                    tracing::debug!(job = %key.0, attempt = %key.1, "a former owner of its shard assigned it");
                    continue;
                }
                EpochCheck::Known => {}
                EpochCheck::Changed => state.recount(),
            }
            if state.held.contains_key(&key) {
                tracing::warn!(job = %key.0, attempt = %key.1, "assigned again, and still held");
                continue;
            }
            let task = match state.refusal() {
                Some(reason) => {
                    surplus += 1;
                    Err(reason.to_owned())
                }
                None => task,
            };
            match task {
                Ok(task) => {
                    let cancel = Cancel::default();
                    let outlet: Arc<dyn LogOutlet> = self.clone();
                    let log = LogSink::with_token(key.0, key.1, token, log_bytes_max, outlet);
                    state.held.insert(key, HeldAttempt::Running { cancel: cancel.clone(), log: log.clone() });
                    state.began(shard);
                    begun.push(Attempt { key, task, input, tracing_id, scheduled_run, secrets, cancel, log });
                }
                Err(reason) => {
                    refused += 1;
                    state.keep(key, not_started(key, token, reason), None, SpoolState::InMemory);
                    state.post(key);
                }
            }
        }
        if refused > 0 {
            state.wake_senders();
        }
        if surplus > 0 {
            state.credits.refused(link, surplus);
            state.is_plan_due = true;
        }
        self.replan_if_due(&mut state);
        begun
    }

    /// Records the reports of attempts that ended. Attempts that were stopped meanwhile are not reported.
    pub(crate) fn finish(&self, reports: impl IntoIterator<Item = Report>) {
        let mut state = self.state();
        let mut short = ShortBytes::of_attempts();
        let mut in_doubt = false;
        for report in reports {
            let key = (report.id, report.attempt);
            let Some(HeldAttempt::Running { log, .. }) = state.held.get(&key) else {
                continue;
            };
            let (log, token) = (log.clone(), log.token());
            let closed = log.close();
            if closed.is_to_announce {
                // Before the outcome, which must not overtake it.
                state.queue_log(log.clone());
            }
            let log = closed.is_written.then_some(log);
            state.ended(report.id.shard());
            let outcome = wire::Outcome { token, ..outcome_to_wire_in(&report, &mut short) };
            state.keep(key, outcome, log, SpoolState::InMemory);
            in_doubt |= state.post(key) == Posting::InDoubt;
        }
        state.wake_senders();
        self.replan_if_due(&mut state);
        if in_doubt {
            self.unspooled.notify_one();
        }
        if state.draining {
            self.progress.notify_one();
        }
    }

    /// Forgets outcomes that a server acknowledged. Returns those that must be removed from the spool.
    pub(crate) fn acked(&self, keys: impl IntoIterator<Item = Key>) -> Vec<Key> {
        let mut spooled = Vec::new();
        let mut state = self.state();
        for key in keys {
            // An acknowledgement of an attempt that still runs is meant for an older outcome.
            if !matches!(state.held.get(&key), Some(HeldAttempt::Finished(_))) {
                continue;
            }
            if state.forget(key).is_some_and(SpoolState::is_known_to_the_spool) {
                spooled.push(key);
            }
        }
        self.replan_if_due(&mut state);
        if state.draining {
            self.progress.notify_one();
        }
        spooled
    }

    /// The token that proves to a server that this worker runs the attempt; empty unless it runs here.
    pub(crate) fn token(&self, key: Key) -> Bytes {
        match self.state().held.get(&key) {
            Some(HeldAttempt::Running { log, .. }) => log.token(),
            Some(HeldAttempt::Finished(_)) | None => Bytes::new(),
        }
    }

    /// Asks attempts to cancel.
    pub(crate) fn cancel(&self, keys: impl IntoIterator<Item = Key>) {
        let state = self.state();
        for key in keys {
            if let Some(HeldAttempt::Running { cancel, .. }) = state.held.get(&key) {
                cancel.cancel();
            }
        }
    }

    /// Ends attempts and forgets them with their outcomes. Returns those that must be removed from the spool.
    pub(crate) fn stop(&self, keys: impl IntoIterator<Item = Key>) -> Vec<Key> {
        let mut state = self.state();
        let is_spooled = |key: &Key| state.forget(*key).is_some_and(SpoolState::is_known_to_the_spool);
        let spooled = keys.into_iter().filter(is_spooled).collect();
        self.replan_if_due(&mut state);
        drop(state);
        self.progress.notify_one();
        spooled
    }

    /// Ends all running attempts without a report, because the worker is leaving.
    pub(crate) fn stop_all(&self) {
        let running: Vec<Key> = {
            let state = self.state();
            let running = state.held.iter().filter(|(_, held)| matches!(held, HeldAttempt::Running { .. }));
            running.map(|(key, _)| *key).collect()
        };
        self.stop(running);
    }

    /// Takes over the spooled outcomes of an earlier worker.
    pub(crate) fn adopt(&self, outcomes: Vec<KeyedOutcome>) {
        let mut state = self.state();
        for (key, outcome) in outcomes {
            if state.held.contains_key(&key) {
                continue;
            }
            state.keep(key, outcome, None, SpoolState::OnDisk);
        }
    }

    /// Takes the outcomes that are in memory only and whose server cannot be reached, for the spool to write. They are
    /// not durable until [`HeldAttempts::spooled`] says so.
    pub(crate) fn take_unspooled(&self) -> Vec<KeyedOutcome> {
        let mut outcomes = Vec::new();
        let mut guard = self.state();
        let HeldState { held, owners, links, .. } = &mut *guard;
        let is_up = |key: &Key| {
            let home = owners.link(key.0.shard());
            home.and_then(|home| links.get(&home)).is_some_and(LinkState::is_up)
        };
        for (key, held) in held {
            if let HeldAttempt::Finished(finished) = held
                && finished.kept == SpoolState::InMemory
                && !is_up(key)
            {
                finished.kept = SpoolState::OnItsWay;
                outcomes.push((*key, finished.outcome.clone()));
            }
        }
        outcomes
    }

    /// Records where the spool has put these outcomes.
    pub(crate) fn spooled(&self, outcomes: &[KeyedOutcome], kept: SpoolState) {
        let mut state = self.state();
        for (key, _) in outcomes {
            // Others were acknowledged meanwhile.
            if let Some(HeldAttempt::Finished(finished)) = state.held.get_mut(key)
                && finished.kept == SpoolState::OnItsWay
            {
                finished.kept = kept;
            }
        }
        drop(state);
        self.progress.notify_one();
    }

    pub(crate) fn drain(&self) {
        let mut state = self.state();
        state.draining = true;
        state.credits.stop();
        self.replan(&mut state);
    }

    /// Whether the server knows that this worker takes no more work, and has acknowledged every outcome.
    pub(crate) fn is_drained(&self, link: LinkNo) -> bool {
        let state = self.state();
        state.draining && state.credits.is_told_nothing(link) && state.held.len() == state.running
    }

    pub(crate) fn left(&self) -> RemainingWork {
        let state = self.state();
        let not_on_disk = |held: &&HeldAttempt| matches!(held, HeldAttempt::Finished(finished) if finished.kept != SpoolState::OnDisk);
        RemainingWork {
            running: state.running,
            unacked: state.held.len() - state.running,
            not_on_disk: state.held.values().filter(not_on_disk).count(),
            connected: state.links.values().filter(|link| link.is_up()).count(),
        }
    }
}

impl LogOutlet for HeldAttempts {
    fn ready(&self, log: LogSink) {
        self.state().queue_log(log);
    }
}

#[cfg(test)]
mod tests;
