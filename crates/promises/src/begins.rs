//! When and how often the work of a job really begins.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::AttemptNo;
use punctual_core::attempt::{Ending, Outcome, Ran};
use punctual_core::task::{DeliveryMode, OnLost};

use crate::{Command, Execution, JobHistory, RunHistory, StartRecord};

pub(crate) fn an_attempt_begins_at_most_once(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let mut begun = BTreeSet::new();
    let twice = job.executions.iter().find(|execution| !begun.insert(execution.attempt))?;
    Some(format!("attempt {} began twice", twice.attempt))
}

/// A source without sight of commits knows only at the end of the run whether a start is on record.
pub(crate) fn nothing_begins_before_its_start_is_durable(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let unknown = job.executions.iter().find(|execution| execution.start == StartRecord::Missing)?;
    Some(format!("attempt {} began and its start was not on record", unknown.attempt))
}

/// By the clock of the store. Nothing is tolerated. Without sight of requeues only the first due time is known, which a
/// retry may not begin before either.
pub(crate) fn nothing_begins_early(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let run_now = |order: &&crate::Order| order.command == Command::RunNow;
    let asked_at = job.orders.iter().filter(run_now).map(|order| order.asked_at.wall).min();
    if job.moves.iter().any(|moved_at| asked_at.is_none_or(|asked_at| asked_at > *moved_at)) {
        return Some("its due time was changed and nobody asked for it".to_owned());
    }
    job.executions.iter().find_map(|execution| {
        let due_at = execution.due_at?;
        (execution.begin.wall < due_at)
            .then(|| format!("attempt {} began {} early", execution.attempt, due_at.since(execution.begin.wall)))
    })
}

/// `at_most_once`, and `exactly_once` unless its policy says otherwise: one execution that can have had an effect, until an
/// operator asks for another.
pub(crate) fn strict_modes_begin_once(job: &JobHistory, _: &RunHistory) -> Option<String> {
    strict_modes_begin_once_in(job, job.executions.iter())
}

/// The same, of some of the executions.
pub(crate) fn strict_modes_begin_once_in<'a>(
    job: &JobHistory,
    executions: impl Iterator<Item = &'a Execution>,
) -> Option<String> {
    let excuses_proven_failure = match (job.rules.delivery, job.rules.on_lost) {
        (DeliveryMode::AtLeastOnce, _) | (DeliveryMode::ExactlyOnce, OnLost::Rerun) => return None,
        (DeliveryMode::ExactlyOnce, OnLost::Hold | OnLost::Fail) => true,
        (DeliveryMode::AtMostOnce, _) => false,
    };
    let had_no_effect = |attempt: AttemptNo| {
        let report = job.report(attempt).map(|report| &report.outcome);
        matches!(report, Some(Outcome::Failed(failure)) if failure.ran == Ran::No)
    };
    let mut began: BTreeMap<u32, BTreeSet<AttemptNo>> = BTreeMap::new();
    for execution in executions.filter(|execution| !(excuses_proven_failure && had_no_effect(execution.attempt))) {
        began.entry(execution.rerun).or_default().insert(execution.attempt);
    }
    let twice = began.values().find(|attempts| attempts.len() > 1)?;
    let attempts: Vec<u32> = twice.iter().map(|attempt| attempt.0).collect();
    Some(format!("{:?} and attempts {attempts:?} began", job.rules.delivery))
}

pub(crate) fn what_is_taken_back_never_began(job: &JobHistory, _: &RunHistory) -> Option<String> {
    what_is_taken_back_never_began_in(job, job.executions.iter())
}

/// The same, of some of the executions.
pub(crate) fn what_is_taken_back_never_began_in<'a>(
    job: &JobHistory,
    mut executions: impl Iterator<Item = &'a Execution>,
) -> Option<String> {
    let is_taken_back = |attempt| job.end(attempt).is_some_and(|end| end.ending == Ending::NotStarted);
    let execution = executions.find(|execution| is_taken_back(execution.attempt))?;
    Some(format!("attempt {} began and is on record as not started", execution.attempt))
}

/// Except for a worker that was given up while it was only out of reach, if the delivery mode or an operator allows another
/// attempt after that. If the source does not say which workers were out of reach, every attempt that was given up is
/// excused.
pub(crate) fn attempts_do_not_overlap(job: &JobHistory, run: &RunHistory) -> Option<String> {
    let ended_at = |execution: &Execution| {
        let died_at = run.faults.as_ref().and_then(|faults| faults.died.get(&execution.worker).copied());
        execution.end.or(died_at).map(|end| end.steady)
    };
    let was_given_up = |execution: &Execution| {
        let was_cut_off = run.faults.as_ref().is_none_or(|faults| faults.unreachable.contains_key(&execution.worker));
        let ending = job.end(execution.attempt).map(|end| end.ending);
        was_cut_off && matches!(ending, Some(Ending::WorkerLost | Ending::TimedOut))
    };
    let goes_on_after_loss = match job.rules.delivery {
        DeliveryMode::AtLeastOnce => true,
        DeliveryMode::ExactlyOnce => job.rules.on_lost == OnLost::Rerun,
        DeliveryMode::AtMostOnce => false,
    };
    for (place, earlier) in job.executions.iter().enumerate() {
        for later in &job.executions[place + 1..] {
            if ended_at(earlier).is_some_and(|ended_at| ended_at <= later.begin.steady) {
                continue;
            }
            // What was on its way to such a worker may even begin after its successor did.
            let is_given_up = was_given_up(earlier) || was_given_up(later);
            let may_follow = goes_on_after_loss || earlier.rerun != later.rerun;
            if !(is_given_up && may_follow) {
                return Some(format!("attempts {} and {} ran at the same time", earlier.attempt, later.attempt));
            }
        }
    }
    None
}

/// Attempts are numbered from 1, without gaps.
pub(crate) fn attempt_numbers_grow(job: &JobHistory, _: &RunHistory) -> Option<String> {
    let mut last = AttemptNo(0);
    for start in &job.starts {
        if start.attempt != last.next() {
            return Some(format!("attempt {} was started after attempt {last}", start.attempt));
        }
        last = start.attempt;
    }
    None
}
