//! What one server gave this worker and has not acknowledged yet, and what is to be told to it.
//!
//! An attempt is here from the moment its assignment was read until its outcome is
//! acknowledged; the lists in a hello and in heartbeats are read from here. One lock, held
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
pub(crate) use state::{Held, State, UNACKED_LEN_MAX, outcome_bytes};
use state::{Kept, not_started};

pub(crate) type Key = (JobId, AttemptNo);

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
    pub(crate) only_in_memory: usize,
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

    /// The server has these: forget them. Answers those that are on disk too.
    pub(crate) fn acked(&self, keys: impl IntoIterator<Item = Key>) -> Vec<Key> {
        let mut on_disk = Vec::new();
        let mut state = self.state();
        for key in keys {
            // An acknowledgement of an attempt that still runs is meant for an older outcome.
            if !matches!(state.held.get(&key), Some(Held::Finished(_))) {
                continue;
            }
            if state.forget(key) == Some(Kept::OnDisk) {
                on_disk.push(key);
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
        on_disk
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

    /// Ends attempts and forgets them, with their outcomes. Answers those that are on disk.
    pub(crate) fn stop(&self, keys: impl IntoIterator<Item = Key>) -> Vec<Key> {
        let mut state = self.state();
        let on_disk = keys.into_iter().filter(|&key| state.forget(key) == Some(Kept::OnDisk)).collect();
        drop(state);
        self.progress.notify_one();
        on_disk
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
    pub(crate) fn adopt(&self, outcomes: Vec<(Key, wire::Outcome)>) {
        let mut state = self.state();
        for (key, outcome) in outcomes {
            if state.held.contains_key(&key) {
                continue;
            }
            state.keep(key, outcome, None, Kept::OnDisk);
        }
    }

    /// Outcomes that are in memory only; from here on they count as being on disk.
    pub(crate) fn take_unspooled(&self) -> Vec<wire::Outcome> {
        let mut outcomes = Vec::new();
        for held in self.state().held.values_mut() {
            if let Held::Finished(finished) = held
                && finished.kept == Kept::InMemory
            {
                finished.kept = Kept::OnDisk;
                outcomes.push(finished.outcome.clone());
            }
        }
        self.progress.notify_one();
        outcomes
    }

    pub(crate) fn held(&self) -> Vec<wire::AttemptRef> {
        self.state().held.keys().map(|&(job, attempt)| attempt_ref(job, attempt)).collect()
    }

    pub(crate) fn drain(&self) {
        self.state().draining = true;
        self.outgoing.notify_one();
    }

    pub(crate) fn left(&self) -> Left {
        let state = self.state();
        let only_in_memory = |held: &&Held| matches!(held, Held::Finished(finished) if finished.kept == Kept::InMemory);
        Left {
            running: state.running,
            unacked: state.held.len() - state.running,
            only_in_memory: state.held.values().filter(only_in_memory).count(),
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
