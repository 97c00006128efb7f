//! What one server gave this worker and has not acknowledged yet, and what is to be told to it.
//!
//! An attempt is here from the moment its assignment was read until its outcome is
//! acknowledged; the list in a hello is read from here. One lock, held
//! for short and bounded work only and never while an executor runs: the heartbeat needs it.

mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use punctual_core::attempt::AttemptNo;
use punctual_core::id::JobId;
use punctual_core::shard::event::Report;
use punctual_exec::{Cancel, LogOutlet, LogSink};
use punctual_proto::convert::{attempt_ref, outcome_to_wire};
use punctual_proto::worker as wire;
use tokio::sync::Notify;

use crate::attempts::Attempt;
use crate::tasks::RunnableTask;
use state::not_started;
pub(crate) use state::{Held, Kept, State, UNACKED_LEN_MAX, outcome_bytes};

pub(crate) type Key = (JobId, AttemptNo);
pub(crate) type KeyedOutcome = (Key, wire::Outcome);

pub(crate) struct Ledger {
    pub(crate) state: Mutex<State>,
    /// There may be something to send.
    pub(crate) outgoing: Notify,
    /// There may be something to spool: an outcome came while no server could be reached.
    pub(crate) unspooled: Notify,
    /// For a worker that leaves: something was finished, spooled or acknowledged. One for
    /// all servers of a worker.
    pub(crate) progress: Arc<Notify>,
}

/// An assignment as it was read: what to run, or why it cannot be run here.
pub(crate) struct Assigned {
    pub(crate) key: Key,
    pub(crate) task: Result<Arc<RunnableTask>, String>,
    pub(crate) input: Option<Bytes>,
    pub(crate) tracing_id: Option<String>,
}

/// What is left of the work, for a worker that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Left {
    pub(crate) running: usize,
    pub(crate) unacked: usize,
    pub(crate) not_on_disk: usize,
    pub(crate) connected: bool,
}

impl Ledger {
    pub(crate) fn new(share: u32, progress: Arc<Notify>) -> Self {
        Self { state: Mutex::new(State::new(share)), outgoing: Notify::new(), unspooled: Notify::new(), progress }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // No code under this lock leaves it half changed, so a panic elsewhere is no reason
        // to stop reporting.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts assignments on record and says which of them are to be run. The others are
    /// given back.
    pub(crate) fn register(self: &Arc<Self>, assigned: Vec<Assigned>, log_bytes_max: usize) -> Vec<Attempt> {
        let mut begun = Vec::with_capacity(assigned.len());
        let mut refused = false;
        let mut state = self.state();
        for Assigned { key, task, input, tracing_id } in assigned {
            if state.held.contains_key(&key) {
                tracing::warn!(job = %key.0, attempt = %key.1, "assigned again, and still held");
                continue;
            }
            let task = match state.refusal() {
                Some(reason) => Err(reason.to_owned()),
                None => task,
            };
            match task {
                Ok(task) => {
                    let cancel = Cancel::default();
                    let outlet: Arc<dyn LogOutlet> = self.clone();
                    let log = LogSink::new(key.0, key.1, log_bytes_max, outlet);
                    state.held.insert(key, Held::Running { cancel: cancel.clone(), log: log.clone() });
                    state.running += 1;
                    begun.push(Attempt { key, task, input, tracing_id, cancel, log });
                }
                Err(reason) => {
                    refused = true;
                    state.keep(key, not_started(key, reason), None, Kept::InMemory);
                    state.unsent.push_back(key);
                }
            }
        }
        drop(state);
        if refused {
            self.outgoing.notify_one();
        }
        begun
    }

    /// Attempts ended. What was stopped meanwhile is not reported.
    pub(crate) fn finish(&self, reports: impl IntoIterator<Item = Report>) {
        let mut state = self.state();
        for report in reports {
            let key = (report.id, report.attempt);
            let Some(Held::Running { log, .. }) = state.held.get(&key) else {
                continue;
            };
            let log = log.close().then(|| log.clone());
            state.running -= 1;
            state.keep(key, outcome_to_wire(&report), log, Kept::InMemory);
            state.unsent.push_back(key);
        }
        let (up, draining) = (state.up, state.draining);
        drop(state);
        self.outgoing.notify_one();
        if !up {
            self.unspooled.notify_one();
        }
        if draining {
            self.progress.notify_one();
        }
    }

    /// The server has these: forget them. Answers those that the spool is to forget too.
    pub(crate) fn acked(&self, keys: impl IntoIterator<Item = Key>) -> Vec<Key> {
        let mut spooled = Vec::new();
        let mut state = self.state();
        for key in keys {
            // An acknowledgement of an attempt that still runs is meant for an older outcome.
            if !matches!(state.held.get(&key), Some(Held::Finished(_))) {
                continue;
            }
            if state.forget(key).is_some_and(Kept::is_known_to_the_spool) {
                spooled.push(key);
            }
        }
        let credit_changed = state.credit() != state.credit_told;
        let draining = state.draining;
        drop(state);
        if credit_changed {
            self.outgoing.notify_one();
        }
        if draining {
            self.progress.notify_one();
        }
        spooled
    }

    /// Asks attempts to end.
    pub(crate) fn cancel(&self, keys: impl IntoIterator<Item = Key>) {
        let state = self.state();
        for key in keys {
            if let Some(Held::Running { cancel, .. }) = state.held.get(&key) {
                cancel.cancel();
            }
        }
    }

    /// Ends attempts and forgets them, with their outcomes. Answers those that the spool is
    /// to forget too.
    pub(crate) fn stop(&self, keys: impl IntoIterator<Item = Key>) -> Vec<Key> {
        let mut state = self.state();
        let is_spooled = |key: &Key| state.forget(*key).is_some_and(Kept::is_known_to_the_spool);
        let spooled = keys.into_iter().filter(is_spooled).collect();
        drop(state);
        self.progress.notify_one();
        spooled
    }

    /// Ends everything that runs, without a report: the worker leaves.
    pub(crate) fn stop_all(&self) {
        let running: Vec<Key> = {
            let state = self.state();
            let running = state.held.iter().filter(|(_, held)| matches!(held, Held::Running { .. }));
            running.map(|(key, _)| *key).collect()
        };
        self.stop(running);
    }

    /// Outcomes that an earlier worker left behind.
    pub(crate) fn adopt(&self, outcomes: Vec<KeyedOutcome>) {
        let mut state = self.state();
        for (key, outcome) in outcomes {
            if state.held.contains_key(&key) {
                continue;
            }
            state.keep(key, outcome, None, Kept::OnDisk);
        }
    }

    /// Outcomes that are in memory only, on their way to the spool from here on. They are
    /// no safer for it until [`Ledger::spooled`] says so.
    pub(crate) fn take_unspooled(&self) -> Vec<KeyedOutcome> {
        let mut outcomes = Vec::new();
        for (key, held) in &mut self.state().held {
            if let Held::Finished(finished) = held
                && finished.kept == Kept::InMemory
            {
                finished.kept = Kept::OnItsWay;
                outcomes.push((*key, finished.outcome.clone()));
            }
        }
        outcomes
    }

    /// The spool is done with these: where they are now.
    pub(crate) fn spooled(&self, outcomes: &[KeyedOutcome], kept: Kept) {
        let mut state = self.state();
        for (key, _) in outcomes {
            // Others were acknowledged meanwhile.
            if let Some(Held::Finished(finished)) = state.held.get_mut(key)
                && finished.kept == Kept::OnItsWay
            {
                finished.kept = kept;
            }
        }
        drop(state);
        self.progress.notify_one();
    }

    pub(crate) fn held(&self) -> Vec<wire::AttemptRef> {
        self.state().held.keys().map(|&(job, attempt)| attempt_ref(job, attempt)).collect()
    }

    pub(crate) fn drain(&self) {
        self.state().draining = true;
        self.outgoing.notify_one();
    }

    /// The stream was told that no work is taken, and every outcome is acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        let state = self.state();
        state.draining && state.credit_told == 0 && state.held.len() == state.running
    }

    pub(crate) fn left(&self) -> Left {
        let state = self.state();
        let not_on_disk = |held: &&Held| matches!(held, Held::Finished(finished) if finished.kept != Kept::OnDisk);
        Left {
            running: state.running,
            unacked: state.held.len() - state.running,
            not_on_disk: state.held.values().filter(not_on_disk).count(),
            connected: state.up,
        }
    }
}

impl LogOutlet for Ledger {
    fn ready(&self, log: LogSink) {
        self.state().logs.push_back(log);
        self.outgoing.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use punctual_core::{ShardId, Timestamp};

    use super::*;

    fn ledger() -> Arc<Ledger> {
        Arc::new(Ledger::new(8, Arc::new(Notify::new())))
    }

    fn key(random: u64) -> Key {
        let job = JobId::new(Timestamp::EPOCH, ShardId(0), random);
        (job, AttemptNo::FIRST)
    }

    /// Given back, which is the shortest way to an outcome.
    fn refuse(ledger: &Arc<Ledger>, keys: impl IntoIterator<Item = Key>) {
        let assigned = keys.into_iter().map(|key| Assigned {
            key,
            task: Err("not here".to_owned()),
            input: None,
            tracing_id: None,
        });
        assert!(ledger.register(assigned.collect(), 0).is_empty());
    }

    #[test]
    fn an_outcome_is_sent_again_when_it_was_not_acknowledged_in_time() {
        const AGE: Duration = Duration::from_secs(5);
        let ledger = ledger();
        let (session, _) = ledger.open_session();
        refuse(&ledger, [key(1), key(2)]);
        let sent_at = Instant::now();
        assert_eq!(ledger.compose_outcomes(session, sent_at), 2);
        ledger.acked([key(1)]);
        ledger.resend(AGE, sent_at + AGE / 2);
        assert_eq!(ledger.compose_outcomes(session, sent_at), 0);
        ledger.resend(AGE, sent_at + AGE);
        ledger.resend(AGE, sent_at + AGE);
        assert_eq!(ledger.compose_outcomes(session, sent_at), 1);
    }

    #[test]
    fn an_outcome_counts_as_on_disk_only_when_the_spool_has_written_it() {
        let ledger = ledger();
        refuse(&ledger, [key(1)]);
        let taken = ledger.take_unspooled();
        assert_eq!(taken.len(), 1);
        assert_eq!(ledger.take_unspooled(), [], "it is on its way");
        assert_eq!(ledger.left().not_on_disk, 1);
        ledger.spooled(&taken, Kept::InMemory);
        assert_eq!(ledger.take_unspooled(), taken, "it could not be written, and is tried again");
        ledger.spooled(&taken, Kept::OnDisk);
        assert_eq!(ledger.left().not_on_disk, 0);
        assert_eq!(ledger.acked([key(1)]), [key(1)]);
    }

    #[test]
    fn an_outcome_that_is_acknowledged_on_its_way_to_the_disk_is_deleted_there_too() {
        let ledger = ledger();
        refuse(&ledger, [key(1), key(2)]);
        let taken = ledger.take_unspooled();
        assert_eq!(ledger.acked([key(1)]), [key(1)]);
        assert_eq!(ledger.stop([key(2)]), [key(2)]);
        ledger.spooled(&taken, Kept::OnDisk);
        assert_eq!(ledger.left(), Left::default());
    }

    #[test]
    fn a_replaced_stream_is_given_nothing() {
        let ledger = ledger();
        let (old, _) = ledger.open_session();
        let (new, _) = ledger.open_session();
        refuse(&ledger, [key(1)]);
        assert_eq!(ledger.compose_outcomes(old, Instant::now()), 0);
        assert_eq!(ledger.compose_outcomes(new, Instant::now()), 1);
    }

    #[test]
    fn too_many_unacknowledged_outcomes_take_the_credit_away_until_half_are_gone() {
        let ledger = ledger();
        let many: Vec<Key> = (0..=UNACKED_LEN_MAX as u64).map(key).collect();
        refuse(&ledger, many.clone());
        assert_eq!(ledger.open_session().1, 0);
        let (first, rest) = many.split_at(UNACKED_LEN_MAX / 2);
        ledger.acked(first.iter().copied());
        assert_eq!(ledger.open_session().1, 0);
        ledger.acked(rest[..1].iter().copied());
        assert_eq!(ledger.open_session().1, 8);
    }
}
