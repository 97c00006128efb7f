//! What the end of an attempt means for its job. Decides; does nothing.

use crate::attempt::{Ending, Failure, Last, Outcome, Ran};
use crate::job::Counters;
use crate::lifecycle::{self, JobEvent, JobState, Next};
use crate::shard::Config;
use crate::task::{Delivery, OnLost, TaskSpec};
use crate::time::{Span, Timestamp};

/// How an attempt ended, as the owner learned of it.
#[derive(Debug, Clone)]
pub(super) enum End {
    Reported {
        outcome: Outcome,
        timed_out: bool,
    },
    /// Its worker was silent for too long.
    WorkerLost,
    /// Its worker is there and never received it.
    NeverReceived,
    /// It outlived its timeout and its worker did not end it.
    Overdue,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) ending: Ending,
    pub(super) reason: Option<String>,
    pub(super) output: Option<bytes::Bytes>,
    pub(super) then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Then {
    Settle { state: JobState, counters: Counters },
    Requeue { due_at: Timestamp, counters: Counters },
}

/// What the judge knows of the job.
pub(super) struct Case<'a> {
    pub(super) spec: &'a TaskSpec,
    /// With `next_attempt` already past the attempt that ended.
    pub(super) counters: Counters,
    pub(super) cancel_requested: bool,
    pub(super) now: Timestamp,
    /// From 0 to 1.
    pub(super) chance: f64,
    pub(super) config: &'a Config,
}

pub(super) fn judge(case: &Case<'_>, end: End) -> Verdict {
    match end {
        End::Reported { outcome: Outcome::Succeeded { output }, .. } => {
            Verdict { ending: Ending::Succeeded, reason: None, output, then: case.settle(JobEvent::Succeed) }
        }
        End::Reported { outcome: Outcome::Cancelled, .. } => Verdict {
            ending: Ending::Cancelled,
            reason: Some("ended on request".to_owned()),
            output: None,
            then: case.settle(JobEvent::EndCancelled),
        },
        End::Reported { outcome: Outcome::NotStarted { reason }, .. } => {
            case.not_started(reason, case.give_back_wait())
        }
        End::NeverReceived => case.not_started("the worker never received it".to_owned(), Span::ZERO),
        End::Reported { outcome: Outcome::Failed(failure), timed_out } => {
            let ending = if timed_out { Ending::TimedOut } else { Ending::Failed };
            case.failed(failure, ending)
        }
        End::Overdue => case.failed(
            Failure {
                ran: Ran::Unknown,
                ..Failure::new(format!("no end after {} and its grace time", case.spec.timeout))
            },
            Ending::TimedOut,
        ),
        End::WorkerLost => case.worker_lost(),
    }
}

impl Case<'_> {
    fn settle(&self, event: JobEvent) -> Then {
        self.settle_with(event, self.counters)
    }

    fn settle_with(&self, event: JobEvent, counters: Counters) -> Then {
        match lifecycle::next(JobState::Running, event) {
            Next::To(state) => Then::Settle { state, counters },
            Next::Ask | Next::Stale | Next::Refused => {
                unreachable!("{event:?} ends a running job in the transition table")
            }
        }
    }

    fn verdict(&self, ending: Ending, reason: String, then: Then) -> Verdict {
        Verdict { ending, reason: Some(reason), output: None, then }
    }

    /// Nothing ran, so no retry is consumed and no delivery mode forbids a new start.
    fn not_started(&self, reason: String, wait: Span) -> Verdict {
        let then = if self.cancel_requested {
            self.settle(JobEvent::EndCancelled)
        } else {
            Then::Requeue { due_at: self.now + wait, counters: self.counters }
        };
        self.verdict(Ending::NotStarted, reason, then)
    }

    /// A job that every worker gives back must not go round as fast as the store can write:
    /// the wait doubles with each start that was taken back, from 100 ms to 26 s.
    fn give_back_wait(&self) -> Span {
        let starts = self.counters.next_attempt.0.saturating_sub(1);
        let counted = u32::from(self.counters.failures) + u32::from(self.counters.node_failures);
        let given_back = starts.saturating_sub(counted);
        Span::from_millis(100 << given_back.saturating_sub(1).min(8))
    }

    fn failed(&self, failure: Failure, ending: Ending) -> Verdict {
        if failure.ran == Ran::Unknown && self.spec.delivery != Delivery::AtLeastOnce {
            let then = self.in_doubt();
            return self.verdict(ending, failure.reason, then);
        }
        let counters = Counters { failures: self.counters.failures.saturating_add(1), ..self.counters };
        let may_start_again = match self.spec.delivery {
            Delivery::AtLeastOnce => true,
            // No second start, ever.
            Delivery::AtMostOnce => false,
            Delivery::ExactlyOnce => failure.ran == Ran::No,
        };
        let then = if self.cancel_requested {
            self.settle_with(JobEvent::EndCancelled, counters)
        } else if failure.last == Last::Yes || !may_start_again {
            self.settle_with(JobEvent::Fail, counters)
        } else {
            self.retry_or(&self.spec.retry, counters.failures, failure.retry_after, counters, JobEvent::Fail)
        };
        self.verdict(ending, failure.reason, then)
    }

    fn worker_lost(&self) -> Verdict {
        let reason = format!("the worker was silent for {}", self.config.worker_silence);
        let then = self.in_doubt();
        self.verdict(Ending::WorkerLost, reason, then)
    }

    /// Nobody can know whether it ran. Counts as a loss, whoever says so, so that a job
    /// in doubt is not tried for ever.
    fn in_doubt(&self) -> Then {
        let counters = Counters { node_failures: self.counters.node_failures.saturating_add(1), ..self.counters };
        if self.cancel_requested {
            return self.settle_with(JobEvent::EndCancelled, counters);
        }
        let otherwise = match (self.spec.delivery, self.spec.on_lost) {
            (Delivery::AtMostOnce, _) | (Delivery::ExactlyOnce, OnLost::Hold) => {
                return self.settle_with(JobEvent::Lose, counters);
            }
            (Delivery::ExactlyOnce, OnLost::Fail) => return self.settle_with(JobEvent::Fail, counters),
            (Delivery::ExactlyOnce, OnLost::Rerun) => JobEvent::Lose,
            (Delivery::AtLeastOnce, _) => JobEvent::Fail,
        };
        if counters.node_failures >= self.config.quarantine_after {
            return self.settle_with(JobEvent::Quarantine, counters);
        }
        self.retry_or(&self.spec.node_retry, counters.node_failures, None, counters, otherwise)
    }

    fn retry_or(
        &self,
        policy: &crate::retry::RetryPolicy,
        retry: u16,
        at_least: Option<Span>,
        counters: Counters,
        otherwise: JobEvent,
    ) -> Then {
        let allowed = if self.config.has(super::Bug::OneRetryTooMany) { retry.saturating_sub(1).max(1) } else { retry };
        match policy.wait(allowed, self.chance) {
            Some(wait) => {
                let asked = at_least.unwrap_or(Span::ZERO).min(self.config.retry_after_max);
                Then::Requeue { due_at: self.now + wait.max(asked), counters }
            }
            None => self.settle_with(otherwise, counters),
        }
    }
}
