//! What the store keeps of attempts and jobs, compared with what workers reported: details, acknowledged outcomes, states.

use punctual_core::attempt::{AttemptRecord, Details, Ending, Failure, FailureClass, Outcome};
use punctual_core::lifecycle::{JobEvent, Next, next};
use punctual_core::{AttemptNo, JobState};

use super::job_facts::{JobFact, JobFacts};

/// What is on record about an attempt is what its worker said of it, and how it failed.
pub(super) fn details_are_true(job_facts: &JobFacts<'_>) -> Option<String> {
    job_facts.facts.iter().find_map(|(_, line)| {
        let (attempt, kept, ending, reason) = match line {
            JobFact::Resolved(resolve) => (resolve.attempt, &resolve.details, None, &resolve.reason),
            line => {
                line.ended().map(|record| (record.attempt, &record.details, Some(record.ending), &record.reason))?
            }
        };
        let is_reported = match ending {
            Some(Ending::WorkerLost | Ending::NotStarted) => false,
            // Or the owner ended it, for a reason of its own.
            Some(Ending::TimedOut) => is_reason(job_facts, attempt, reason.as_deref()),
            Some(Ending::Succeeded | Ending::Failed | Ending::Cancelled) | None => true,
        };
        let (said, class) = if is_reported {
            let class = match job_facts.reported(attempt) {
                Some((_, Outcome::Failed(failure), _)) => Some(failure.class),
                Some((_, Outcome::Cancelled, _)) if is_failed(line) => Some(Failure::unrequested_cancel().class),
                _ => None,
            };
            (job_facts.reported_details(attempt), class)
        } else {
            let is_settled_as_failed = matches!(line, JobFact::Settled(settle) if settle.state == JobState::Failed);
            let class = match ending {
                Some(Ending::TimedOut) => Some(FailureClass::Timeout),
                Some(Ending::NotStarted) if is_settled_as_failed => Some(FailureClass::Environment),
                _ => None,
            };
            (None, class)
        };
        let is_worth_keeping = said.is_some() || class.is_some_and(|class| class != FailureClass::Task);
        let expected = is_worth_keeping.then(|| Details { class, ..said.cloned().unwrap_or_default() });
        (kept.as_deref() != expected.as_ref())
            .then(|| format!("attempt {attempt} is on record with {kept:?} instead of {expected:?}"))
    })
}

/// What was reported counts as a failure.
fn is_failed(line: &JobFact<'_>) -> bool {
    match line {
        JobFact::Resolved(resolve) => resolve.state == JobState::Failed,
        line => line.ended().is_some_and(|record| record.ending == Ending::Failed),
    }
}

fn is_reason(job_facts: &JobFacts<'_>, attempt: AttemptNo, reason: Option<&str>) -> bool {
    matches!(job_facts.reported(attempt), Some((_, Outcome::Failed(failure), _)) if reason == Some(&failure.reason))
}

/// A worker forgets an outcome only when somebody else remembers it.
pub(super) fn acknowledged_outcomes_are_on_record(job_facts: &JobFacts<'_>) -> Option<String> {
    job_facts.facts.iter().find_map(|(at, line)| {
        let JobFact::Acked(attempt) = line else { return None };
        let said = job_facts.reported(*attempt).map(|(_, outcome, _)| outcome);
        let is_record = |line: &JobFact<'_>| match line {
            JobFact::Stale(of) => of == attempt,
            JobFact::Resolved(resolve) => resolve.attempt == *attempt,
            JobFact::Settled(settle) => {
                let is_of_it = settle.attempt.as_ref().is_some_and(|record| record.attempt == *attempt);
                is_of_it && (says(line, said) || natural_states(said).contains(&settle.state))
            }
            line => line.ended().is_some_and(|record| record.attempt == *attempt) && says(line, said),
        };
        let is_kept = job_facts.facts.iter().any(|(taken, line)| taken <= at && is_record(line));
        (!is_kept).then(|| format!("the outcome of attempt {attempt} was acknowledged and is nowhere: {said:?}"))
    })
}

fn says(line: &JobFact<'_>, said: Option<&Outcome>) -> bool {
    let Some(record) = line.ended() else { return false };
    match said {
        Some(Outcome::Succeeded { .. }) => record.ending == Ending::Succeeded,
        Some(Outcome::Failed(_)) => matches!(record.ending, Ending::Failed | Ending::TimedOut),
        Some(Outcome::Cancelled) => match record.ending {
            Ending::Cancelled => true,
            // Nobody had asked for it.
            Ending::Failed => record.reason == Some(Failure::unrequested_cancel().reason),
            Ending::Succeeded | Ending::TimedOut | Ending::WorkerLost | Ending::NotStarted => false,
        },
        // It was given back, and so never ran.
        Some(Outcome::NotStarted { .. }) | None => record.ending == Ending::NotStarted,
    }
}

/// What a job comes to by the outcome. A late report that an attempt was cancelled counts as a failure of a job that has failed.
fn natural_states(said: Option<&Outcome>) -> &'static [JobState] {
    match said {
        Some(Outcome::Succeeded { .. }) => &[JobState::Succeeded],
        Some(Outcome::Failed(_)) => &[JobState::Failed],
        Some(Outcome::Cancelled) => &[JobState::Cancelled, JobState::Failed],
        Some(Outcome::NotStarted { .. }) | None => &[JobState::Scheduled],
    }
}

/// Final states never change except as the table says, and nothing else happens.
pub(super) fn the_path_is_in_the_table(job_facts: &JobFacts<'_>) -> Option<String> {
    let mut state = JobState::Scheduled;
    for (_, line) in &job_facts.facts {
        let (event, to) = match line {
            JobFact::Started(_) => (JobEvent::Start, JobState::Running),
            JobFact::Settled(settle) => (settled_by(settle.state, settle.attempt.is_some()), settle.state),
            JobFact::Requeued(requeue) => (requeued_by(requeue.attempt.as_ref()), JobState::Scheduled),
            JobFact::Rerun(_) => (JobEvent::Rerun, JobState::Scheduled),
            JobFact::Resolved(resolve) => (settled_by(resolve.state, true), resolve.state),
            JobFact::CancelRequested => {
                if next(state, JobEvent::Cancel) != Next::Ask {
                    return Some(format!("a {state} job was asked to end"));
                }
                continue;
            }
            _ => continue,
        };
        if next(state, event) != Next::To(to) {
            return Some(format!("from {state} to {to} by {event:?}"));
        }
        state = to;
    }
    None
}

fn settled_by(state: JobState, had_attempt: bool) -> JobEvent {
    match state {
        JobState::Succeeded => JobEvent::Succeed,
        JobState::Lost => JobEvent::Lose,
        JobState::Quarantined => JobEvent::Quarantine,
        JobState::Deleted => JobEvent::Delete,
        JobState::Cancelled if had_attempt => JobEvent::EndCancelled,
        JobState::Cancelled => JobEvent::Cancel,
        JobState::Failed | JobState::Scheduled | JobState::Running => JobEvent::Fail,
    }
}

fn requeued_by(record: Option<&AttemptRecord>) -> JobEvent {
    match record.map(|record| record.ending) {
        None => JobEvent::RunNow,
        Some(Ending::NotStarted) => JobEvent::TakeBack,
        Some(_) => JobEvent::Retry,
    }
}

#[cfg(test)]
mod tests {
    use punctual_core::JobState;
    use punctual_core::attempt::{Details, Ending, FailureClass};

    use super::super::history_builder::{HistoryBuilder, failed_by, of_class, succeeded};

    const SUCCESS: Option<(u32, Ending)> = Some((1, Ending::Succeeded));

    #[test]
    fn details_that_are_lost_or_made_up_are_found() {
        let promise = "details are true";
        let known = || Some(Details { cpu_us: Some(7), ..Details::default() });
        let success = |said: Option<Details>, kept: Option<Details>| {
            let builder =
                HistoryBuilder::new(|_| {}).start(1).begin(1).end_with(1, succeeded(), said).with_details(kept);
            builder.settle(JobState::Succeeded, SUCCESS)
        };
        success(known(), known()).holds();
        success(known(), None).breaks(promise);
        success(None, known()).breaks(promise);
        let failure = |class, kept| {
            let builder = HistoryBuilder::new(|_| {}).start(1).begin(1).end(1, failed_by(class)).with_details(kept);
            builder.settle(JobState::Failed, Some((1, Ending::Failed)))
        };
        failure(FailureClass::Limit, of_class(FailureClass::Limit)).holds();
        failure(FailureClass::Limit, of_class(FailureClass::Network)).breaks(promise);
        failure(FailureClass::Limit, None).breaks(promise);
        failure(FailureClass::Task, None).holds();
        let lost = |said, kept| {
            let builder =
                HistoryBuilder::new(|_| {}).start(1).begin(1).settle(JobState::Lost, Some((1, Ending::WorkerLost)));
            builder.end_with(1, succeeded(), said).with_details(kept).resolve(1, JobState::Succeeded)
        };
        lost(known(), known()).holds();
        lost(known(), None).breaks(promise);
    }

    #[test]
    fn an_outcome_that_was_acknowledged_and_forgotten_is_found() {
        let ran = || HistoryBuilder::new(|_| {}).start(1).begin(1).end(1, succeeded());
        ran().acked(1).breaks("acknowledged outcomes are on record");
        ran()
            .settle(JobState::Lost, Some((1, Ending::WorkerLost)))
            .acked(1)
            .breaks("acknowledged outcomes are on record");
        ran().acked(1).settle(JobState::Succeeded, SUCCESS).breaks("acknowledged outcomes are on record");
        let lost = ran().settle(JobState::Lost, Some((1, Ending::WorkerLost)));
        lost.resolve(1, JobState::Succeeded).acked(1).holds();
    }

    #[test]
    fn a_step_that_is_not_in_the_table_is_found() {
        let path = "the path is in the table";
        HistoryBuilder::new(|_| {}).settle(JobState::Succeeded, SUCCESS).breaks(path);
        HistoryBuilder::new(|_| {}).succeed(1).start(2).breaks(path);
        HistoryBuilder::new(|_| {}).start(1).settle(JobState::Deleted, None).breaks(path);
        HistoryBuilder::new(|_| {}).succeed(1).resolve(1, JobState::Failed).breaks(path);
        HistoryBuilder::new(|_| {}).rerun().breaks(path);
    }
}
