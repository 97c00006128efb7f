//! What the end of an attempt means for its job. Decides; does nothing.

use crate::attempt::{Details, Ending, Failure, FailureClass, Last, Outcome, Ran};
use crate::give_backs::{GiveBacks, TakenBack};
use crate::job::Counters;
use crate::lifecycle::{self, JobEvent, JobState, Next};
use crate::retry::RetryPolicy;
use crate::shard::{CHECK_EVERY, Config, planted};
use crate::task::{DeliveryMode, OnLost, TaskSpec};
use crate::time::{Span, Timestamp};

/// How an attempt ended, as the owner learned of it.
#[derive(Debug, Clone)]
pub(super) enum End {
    Reported {
        outcome: Outcome,
        timed_out: bool,
        details: Option<Box<Details>>,
    },
    /// The worker was silent for too long.
    WorkerLost,
    /// The worker may not work any more, so that nobody listens to it.
    WorkerCutOff,
    /// The agent was silent for too long, while its worker was not.
    AgentLost {
        host: Option<String>,
    },
    /// The worker is connected and never received the attempt.
    NeverReceived,
    /// The worker is connected and does not know the attempt, which proves nothing, because the database has lost
    /// commits since the start.
    Denied,
    /// The attempt exceeded its timeout and its worker did not end it.
    Overdue,
}

impl End {
    /// How an attempt ended that nobody asked to end.
    #[must_use]
    pub(super) fn unrequested(self) -> Self {
        match self {
            Self::Reported { outcome, timed_out, details } => {
                Self::Reported { outcome: outcome.unrequested(), timed_out, details }
            }
            Self::WorkerLost
            | Self::WorkerCutOff
            | Self::AgentLost { .. }
            | Self::NeverReceived
            | Self::Denied
            | Self::Overdue => self,
        }
    }

    /// What to keep of the attempt besides how it ended.
    pub(super) fn details(&self) -> Option<Box<Details>> {
        match self {
            Self::Reported { outcome, details, .. } => details_of(outcome, details.as_deref()),
            Self::Overdue => Some(Box::new(Details { class: Some(FailureClass::Timeout), ..Details::default() })),
            Self::AgentLost { host: Some(host) } => {
                Some(Box::new(Details { host: Some(host.clone()), ..Details::default() }.cut()))
            }
            Self::WorkerLost
            | Self::WorkerCutOff
            | Self::AgentLost { host: None }
            | Self::NeverReceived
            | Self::Denied => None,
        }
    }
}

/// What to keep of a report besides its outcome. The class is that of the outcome, whatever
/// else the worker says.
pub(super) fn details_of(outcome: &Outcome, details: Option<&Details>) -> Option<Box<Details>> {
    let class = match outcome {
        Outcome::Failed(failure) => Some(failure.class),
        Outcome::Succeeded { .. } | Outcome::Cancelled | Outcome::NotStarted { .. } => None,
    };
    // A class that says no more than that it failed is not worth a record.
    let tells_more = details.is_some() || class.is_some_and(|class| class != FailureClass::Task);
    tells_more.then(|| Box::new(Details { class, ..details.cloned().unwrap_or_default() }))
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ruling {
    pub(super) ending: Ending,
    pub(super) reason: Option<String>,
    pub(super) output: Option<bytes::Bytes>,
    pub(super) consequence: Consequence,
}

impl Ruling {
    /// The details to keep of the attempt. An attempt that ends its job although nothing ran says why it could not be
    /// started.
    pub(super) fn details(&self, known: Option<Box<Details>>) -> Option<Box<Details>> {
        let is_unstartable = self.ending == Ending::NotStarted
            && matches!(self.consequence, Consequence::Settle { state: JobState::Failed, .. });
        if !is_unstartable {
            return known;
        }
        let known = known.map(|known| *known).unwrap_or_default();
        Some(Box::new(Details { class: Some(FailureClass::Environment), ..known }))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Consequence {
    Settle { state: JobState, counters: Counters },
    Requeue { due_at: Timestamp, counters: Counters, give_backs: Option<Box<GiveBacks>> },
}

/// What the judge knows of the job.
pub(super) struct Case<'a> {
    pub(super) spec: &'a TaskSpec,
    /// The job's counters; `next_attempt` is already past the attempt that ended.
    pub(super) counters: Counters,
    /// Starts that were taken back before.
    pub(super) give_backs: Option<&'a GiveBacks>,
    /// When the attempt was due.
    pub(super) due_at: Timestamp,
    pub(super) cancel_requested: bool,
    pub(super) now: Timestamp,
    /// A random number from 0 to 1.
    pub(super) chance: f64,
    pub(super) config: &'a Config,
}

pub(super) fn judge(case: &Case<'_>, end: End) -> Ruling {
    match end {
        End::Reported { outcome: Outcome::Succeeded { output }, .. } => {
            Ruling { ending: Ending::Succeeded, reason: None, output, consequence: case.settle(JobEvent::Succeed) }
        }
        // Only if it was requested: see `End::unrequested`.
        End::Reported { outcome: Outcome::Cancelled, .. } => Ruling {
            ending: Ending::Cancelled,
            reason: Some("ended on request".to_owned()),
            output: None,
            consequence: case.settle(JobEvent::EndCancelled),
        },
        End::Reported { outcome: Outcome::NotStarted { reason }, .. } => case.not_started(TakenBack::GivenBack, reason),
        End::NeverReceived => case.not_started(TakenBack::NeverReceived, "the worker never received it".to_owned()),
        End::Reported { outcome: Outcome::Failed(failure), timed_out, .. } => {
            let ending = if timed_out { Ending::TimedOut } else { Ending::Failed };
            case.failed(failure, ending)
        }
        End::Overdue => case.failed(
            Failure {
                ran: Ran::Unknown,
                class: FailureClass::Timeout,
                ..Failure::new(format!("timed out after {} and its grace period", case.spec.timeout))
            },
            Ending::TimedOut,
        ),
        End::WorkerLost => case.silent("the worker"),
        End::WorkerCutOff => case.lost("the worker was revoked, or its certificate expired".to_owned()),
        End::AgentLost { .. } => case.silent("its agent"),
        End::Denied => {
            let reason =
                "its worker does not know it, and the database has lost commits since its start: it may have run";
            case.ruling(Ending::WorkerLost, reason.to_owned(), case.in_doubt(case.spec.delivery))
        }
    }
}

impl Case<'_> {
    fn settle(&self, event: JobEvent) -> Consequence {
        self.settle_with(event, self.counters)
    }

    fn settle_with(&self, event: JobEvent, counters: Counters) -> Consequence {
        match lifecycle::next(JobState::Running, event) {
            Next::To(state) => Consequence::Settle { state, counters },
            Next::Ask | Next::Stale | Next::Refused => {
                unreachable!("{event:?} ends a running job in the transition table")
            }
        }
    }

    fn ruling(&self, ending: Ending, reason: String, consequence: Consequence) -> Ruling {
        Ruling { ending, reason: Some(reason), output: None, consequence }
    }

    /// Nothing ran, so no retry is consumed and no delivery mode forbids a new start. A job that every worker gives back
    /// waits longer each time, and fails when its `start_retry` is used up or its `queue_timeout` is over: it was due
    /// when it was due, however often it was given back.
    fn not_started(&self, what: TakenBack, reason: String) -> Ruling {
        if self.cancel_requested {
            return self.ruling(Ending::NotStarted, reason, self.settle(JobEvent::EndCancelled));
        }
        let give_backs = GiveBacks::after(self.give_backs, what, self.due_at, &reason);
        let wait = match what {
            TakenBack::GivenBack => self.spec.start_retry.wait(self.counted(give_backs.count), self.chance),
            TakenBack::NeverReceived => wait_for_connection(give_backs.never_received),
        };
        let Some(wait) = wait else {
            let reason = match what {
                TakenBack::GivenBack if give_backs.count == 1 => format!("{reason} (given back once)"),
                TakenBack::GivenBack => format!("{reason} (given back {} times)", give_backs.count),
                TakenBack::NeverReceived => format!("{reason} ({} times)", give_backs.never_received),
            };
            return self.ruling(Ending::NotStarted, reason, self.settle(JobEvent::Fail));
        };
        let mut due_at = self.now + wait;
        let since = give_backs.last.as_ref().map_or(self.now, |last| last.since);
        if let Some(limit) = self.spec.queue_timeout {
            if self.now > since + limit {
                let reason = queue_timeout_reason(&reason, limit);
                return self.ruling(Ending::NotStarted, reason, self.settle(JobEvent::Fail));
            }
            // In memory by then, and not started before it is looked at.
            due_at = due_at.min(since + limit + CHECK_EVERY + CHECK_EVERY);
        }
        let give_backs = Some(Box::new(give_backs));
        self.ruling(Ending::NotStarted, reason, Consequence::Requeue { due_at, counters: self.counters, give_backs })
    }

    fn counted(&self, count: u16) -> u16 {
        if planted!(self.config, GiveBacksUnlimited) { count.min(self.spec.start_retry.max.max(1)) } else { count }
    }

    fn failed(&self, failure: Failure, ending: Ending) -> Ruling {
        if failure.ran == Ran::Unknown && self.spec.delivery != DeliveryMode::AtLeastOnce {
            let consequence = self.in_doubt(self.spec.delivery);
            return self.ruling(ending, failure.reason, consequence);
        }
        let counters = Counters { failures: self.counters.failures.saturating_add(1), ..self.counters };
        let may_start_again = match self.spec.delivery {
            DeliveryMode::AtLeastOnce => true,
            // No second start, ever.
            DeliveryMode::AtMostOnce => false,
            DeliveryMode::ExactlyOnce => failure.ran == Ran::No,
        };
        let consequence = if self.cancel_requested {
            self.settle_with(JobEvent::EndCancelled, counters)
        } else if failure.last == Last::Yes || !may_start_again || self.is_excepted(failure.class) {
            self.settle_with(JobEvent::Fail, counters)
        } else {
            self.retry_or(&self.spec.retry, counters.failures, failure.retry_after, counters, JobEvent::Fail)
        };
        self.ruling(ending, failure.reason, consequence)
    }

    fn is_excepted(&self, class: FailureClass) -> bool {
        self.spec.retry.except.contains(class) && !planted!(self.config, ExceptedIsRetried)
    }

    fn silent(&self, who: &str) -> Ruling {
        self.lost(format!("{who} was silent for {}", self.config.worker_silence))
    }

    fn lost(&self, reason: String) -> Ruling {
        let forgets_delivery = planted!(self.config, LostIsRetried);
        let delivery = if forgets_delivery { DeliveryMode::AtLeastOnce } else { self.spec.delivery };
        let consequence = self.in_doubt(delivery);
        self.ruling(Ending::WorkerLost, reason, consequence)
    }

    /// It is unknown whether the attempt ran. This counts as a loss in every case, so that a job in doubt is not
    /// retried for ever.
    fn in_doubt(&self, delivery: DeliveryMode) -> Consequence {
        let counters = Counters { node_failures: self.counters.node_failures.saturating_add(1), ..self.counters };
        if self.cancel_requested {
            return self.settle_with(JobEvent::EndCancelled, counters);
        }
        let otherwise = match (delivery, self.spec.on_lost) {
            (DeliveryMode::AtMostOnce, _) | (DeliveryMode::ExactlyOnce, OnLost::Hold) => {
                return self.settle_with(JobEvent::Lose, counters);
            }
            (DeliveryMode::ExactlyOnce, OnLost::Fail) => return self.settle_with(JobEvent::Fail, counters),
            (DeliveryMode::ExactlyOnce, OnLost::Rerun) => JobEvent::Lose,
            (DeliveryMode::AtLeastOnce, _) => JobEvent::Fail,
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
    ) -> Consequence {
        let allowed = if planted!(self.config, OneRetryTooMany) { retry.saturating_sub(1).max(1) } else { retry };
        match policy.wait(allowed, self.chance) {
            Some(wait) => {
                let asked = at_least.unwrap_or(Span::ZERO).min(self.config.retry_after_max);
                let give_backs = self.give_backs.map(|before| Box::new(before.after_run()));
                Consequence::Requeue { due_at: self.now + wait.max(asked), counters, give_backs }
            }
            None => self.settle_with(otherwise, counters),
        }
    }
}

/// The first time it goes to the next worker at once. `None` when it was tried too often.
fn wait_for_connection(never_received: u16) -> Option<Span> {
    let policy = RetryPolicy { max: GiveBacks::NEVER_RECEIVED_MAX - 1, jitter: 0.0, ..RetryPolicy::after_give_back() };
    if never_received <= 1 { Some(Span::ZERO) } else { policy.wait(never_received - 1, 0.0) }
}

/// Why a job that was given back fails when its time is over.
pub(super) fn queue_timeout_reason(reason: &str, limit: Span) -> String {
    format!("{reason} (not started within its queue_timeout of {limit})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::FailureClasses;
    use crate::task::{Probe, Run};

    const NOW: Timestamp = Timestamp::EPOCH;

    fn spec(except: &[FailureClass]) -> TaskSpec {
        let mut spec = TaskSpec::new(Run::Probe(Probe::default()));
        spec.retry.except = FailureClasses::from(except.to_vec());
        spec
    }

    fn ruling(spec: &TaskSpec, end: End) -> Consequence {
        let config = Config::default();
        let counters = Counters { next_attempt: crate::AttemptNo(2), ..Counters::NEW };
        judge(&case(spec, counters, None, &config), end).consequence
    }

    fn case<'a>(
        spec: &'a TaskSpec,
        counters: Counters,
        give_backs: Option<&'a GiveBacks>,
        config: &'a Config,
    ) -> Case<'a> {
        Case { spec, counters, give_backs, due_at: NOW, cancel_requested: false, now: NOW, chance: 0.0, config }
    }

    fn given_back() -> End {
        reported(Outcome::NotStarted { reason: "no such handler".into() })
    }

    #[test]
    fn a_job_that_is_given_back_too_often_fails_and_says_why() {
        let config = Config::default();
        let mut spec = spec(&[]);
        spec.start_retry.max = 2;
        for (before, fails) in [(0, false), (1, false), (2, true)] {
            let give_backs = GiveBacks { count: before, ..GiveBacks::default() };
            let ruling = judge(&case(&spec, Counters::NEW, Some(&give_backs), &config), given_back());
            let is_failed = matches!(ruling.consequence, Consequence::Settle { state: JobState::Failed, .. });
            assert_eq!(is_failed, fails, "{ruling:?}");
            if is_failed {
                assert_eq!(ruling.reason.as_deref(), Some("no such handler (given back 3 times)"));
                assert_eq!(ruling.ending, Ending::NotStarted);
                assert_eq!(ruling.details(None).unwrap().class, Some(FailureClass::Environment));
            }
        }
    }

    #[test]
    fn what_no_worker_ever_received_uses_up_a_budget_of_its_own() {
        let config = Config::default();
        let spec = spec(&[]);
        let max = GiveBacks::NEVER_RECEIVED_MAX;
        for (before, wait) in [
            (0, Some(Span::ZERO)),
            (1, Some(Span::from_millis(100))),
            (max - 1, Some(Span::from_secs(300))),
            (max, None),
        ] {
            let give_backs = GiveBacks { count: 19, never_received: before, last: None };
            let consequence =
                judge(&case(&spec, Counters::NEW, Some(&give_backs), &config), End::NeverReceived).consequence;
            match (consequence, wait) {
                (Consequence::Requeue { due_at, give_backs, .. }, Some(wait)) => {
                    assert_eq!(due_at, NOW + wait);
                    assert_eq!(give_backs.unwrap().count, 19);
                }
                (Consequence::Settle { state: JobState::Failed, .. }, None) => {}
                (consequence, wait) => panic!("{consequence:?} instead of {wait:?}"),
            }
        }
    }

    fn failed(class: FailureClass) -> Outcome {
        Outcome::Failed(Failure { class, ..Failure::new("no luck") })
    }

    fn reported(outcome: Outcome) -> End {
        End::Reported { outcome, timed_out: false, details: None }
    }

    #[track_caller]
    fn is_final(consequence: Consequence) {
        assert!(matches!(consequence, Consequence::Settle { state: JobState::Failed, .. }), "{consequence:?}");
    }

    #[track_caller]
    fn is_retried(consequence: Consequence) {
        assert!(matches!(consequence, Consequence::Requeue { .. }), "{consequence:?}");
    }

    #[test]
    fn a_failure_of_a_class_that_is_excepted_is_final_and_others_are_retried() {
        for excepted in FailureClass::ALL {
            let spec = spec(&[excepted]);
            for class in FailureClass::ALL {
                let consequence = ruling(&spec, reported(failed(class)));
                if class == excepted { is_final(consequence) } else { is_retried(consequence) }
            }
        }
    }

    #[test]
    fn a_failure_that_is_not_retried_still_counts() {
        let consequence = ruling(&spec(&[FailureClass::Limit]), reported(failed(FailureClass::Limit)));
        assert!(
            matches!(consequence, Consequence::Settle { counters: Counters { failures: 1, .. }, .. }),
            "{consequence:?}"
        );
    }

    #[test]
    fn an_attempt_that_the_owner_ended_has_failed_by_timeout() {
        is_final(ruling(&spec(&[FailureClass::Timeout]), End::Overdue));
        is_retried(ruling(&spec(&[FailureClass::Task]), End::Overdue));
    }

    #[test]
    fn what_is_excepted_does_not_hold_for_the_loss_of_a_worker() {
        let mut all = spec(&FailureClass::ALL);
        is_retried(ruling(&all, End::WorkerLost));
        is_retried(ruling(&all, End::NeverReceived));
        is_retried(ruling(&all, reported(Outcome::NotStarted { reason: "no such handler".into() })));
        // Nobody knows whether it ran, which is a loss where that matters.
        all.delivery = DeliveryMode::ExactlyOnce;
        all.on_lost = OnLost::Rerun;
        let in_doubt = Outcome::Failed(Failure { ran: Ran::Unknown, ..Failure::new("no answer") });
        is_retried(ruling(&all, reported(in_doubt)));
    }

    #[test]
    fn the_policy_after_a_loss_excepts_nothing_from_failures() {
        let mut spec = spec(&[]);
        spec.node_retry.except = FailureClasses::from(FailureClass::ALL.to_vec());
        is_retried(ruling(&spec, reported(failed(FailureClass::Task))));
        is_retried(ruling(&spec, End::WorkerLost));
    }

    fn details(outcome: Outcome, details: Option<Details>) -> Option<Details> {
        let end = End::Reported { outcome, timed_out: false, details: details.map(Box::new) };
        end.details().map(|details| *details)
    }

    #[test]
    fn the_class_of_a_failure_is_kept_with_what_else_is_known() {
        let known = Details { exit_code: Some(3), sandbox: Some("full".into()), ..Details::default() };
        let with = |class| Some(Details { class, ..known.clone() });
        assert_eq!(details(failed(FailureClass::Task), Some(known.clone())), with(Some(FailureClass::Task)));
        assert_eq!(details(failed(FailureClass::Limit), Some(known.clone())), with(Some(FailureClass::Limit)));
        let only = |class| Some(Details { class: Some(class), ..Details::default() });
        assert_eq!(details(failed(FailureClass::Network), None), only(FailureClass::Network));
        assert_eq!(details(failed(FailureClass::Task), None), None, "it would say no more than that it failed");
        assert_eq!(End::Overdue.details().map(|details| *details), only(FailureClass::Timeout));
        assert_eq!((End::WorkerLost.details(), End::NeverReceived.details()), (None, None));
    }

    #[test]
    fn only_a_failure_has_a_class() {
        let wrong = Details { class: Some(FailureClass::Limit), cpu_us: Some(7), ..Details::default() };
        let known = Details { cpu_us: Some(7), ..Details::default() };
        assert_eq!(details(Outcome::Succeeded { output: None }, Some(wrong.clone())), Some(known.clone()));
        assert_eq!(details(Outcome::Cancelled, Some(wrong)), Some(known));
        assert_eq!(details(Outcome::Succeeded { output: None }, None), None);
    }
}
