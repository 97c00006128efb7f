//! How attempts and jobs ended, on record and in truth.

use std::collections::BTreeSet;

use super::story::{Story, is_cancel, is_delete};
use crate::history::{Answer, Call, Delivery, FinalAttempt};
use crate::witness::Ended;

/// Every acknowledged job has ended, in a way that what happened to it explains. One that
/// was not acknowledged may be there or not; if it is, the same holds.
pub(super) fn no_acknowledged_job_is_lost(story: &Story<'_>) -> Option<String> {
    let is_unknown = |call: &&Call| matches!(&call.answer, Answer::Fail { why } if why == "job_not_found");
    if story.orders.iter().any(is_unknown) {
        return Some("it was acknowledged, and a server did not know it".to_owned());
    }
    let Some(job) = story.job else {
        story.acknowledged()?;
        return Some("it was acknowledged and is not there".to_owned());
    };
    if !job.is_finished() {
        return Some(format!("it has not ended: {}", job.state));
    }
    let last = job.attempts.last().map(|record| record.state.as_str());
    let may_be = match job.state.as_str() {
        "succeeded" => last == Some("succeeded"),
        "failed" => matches!(last, Some("failed" | "timed_out")),
        "deleted" => job.attempts.is_empty() && story.was_asked(is_delete),
        "cancelled" => story.was_asked(is_cancel),
        "lost" => story.rules.delivery != Delivery::AtLeastOnce && matches!(last, Some("worker_lost" | "timed_out")),
        "quarantined" => last == Some("worker_lost"),
        _ => false,
    };
    (!may_be).then(|| format!("it is {} and its last attempt is {}", job.state, last.unwrap_or("none")))
}

/// What is on record as having ended did end so, by the witness.
pub(super) fn endings_are_true(story: &Story<'_>) -> Option<String> {
    story.job?.attempts.iter().find_map(|record| {
        let said = story.execution(record.attempt).map(|execution| execution.end.map(|(_, ended)| ended));
        let is_true = match record.state.as_str() {
            "succeeded" => said == Some(Some(Ended::Ok)),
            "failed" => said == Some(Some(Ended::Failed)),
            // Cancelled before the handler was called, or while it ran.
            "cancelled" => !matches!(said, Some(Some(Ended::Ok | Ended::Failed))),
            "worker_lost" | "not_started" | "timed_out" => true,
            _ => false,
        };
        (!is_true)
            .then(|| format!("attempt {} is {} on record, and the witness says {said:?}", record.attempt, record.state))
    })
}

/// An attempt has one end, a success is the last, and the state of the job is its outcome.
pub(super) fn one_outcome(story: &Story<'_>) -> Option<String> {
    let job = story.job?;
    let mut numbers = BTreeSet::new();
    if let Some(twice) = job.attempts.iter().find(|record| !numbers.insert(record.attempt)) {
        return Some(format!("attempt {} is on record twice", twice.attempt));
    }
    if let Some(open) = job.attempts.iter().find(|record| record.finished_us.is_none()).filter(|_| job.is_finished()) {
        return Some(format!("it has ended and attempt {} has not", open.attempt));
    }
    let ends_it = |record: &&FinalAttempt| matches!(record.state.as_str(), "succeeded" | "cancelled");
    let last = job.attempts.last()?.attempt;
    let earlier = job.attempts.iter().find(|record| ends_it(record) && record.attempt != last)?;
    Some(format!("attempt {} was {} and another followed", earlier.attempt, earlier.state))
}

/// An attempt is given up only when its worker died, or was out of reach.
pub(super) fn nobody_is_given_up_without_cause(story: &Story<'_>) -> Option<String> {
    story.job?.attempts.iter().filter(|record| record.state == "worker_lost").find_map(|record| {
        let ran_by = story.execution(record.attempt).map(|execution| execution.pid);
        // A worker that never began anything is not known, and is one that died early.
        let pid = ran_by.or_else(|| story.world.pid_of(&record.worker))?;
        let since = [story.world.died.get(&pid), story.world.cut_off.get(&pid)].into_iter().flatten().min();
        let has_cause = since.is_some_and(|since| record.finished_us.is_none_or(|at| at >= since.real_us));
        (!has_cause)
            .then(|| format!("attempt {} was given up, and its worker {pid} was there all the time", record.attempt))
    })
}

impl Story<'_> {
    /// All tries to submit it were refused.
    pub(super) fn was_refused(&self) -> bool {
        self.submits.iter().all(|call| matches!(call.answer, Answer::Fail { .. }))
    }
}

#[cfg(test)]
mod tests {
    use crate::check::tale::Tale;
    use crate::history::Delivery::{AtLeastOnce, AtMostOnce, ExactlyOnce};

    #[test]
    fn a_job_that_is_gone_or_hangs_is_found() {
        let found = "no acknowledged job is lost";
        Tale::new(AtLeastOnce).submit().breaks(found);
        Tale::new(AtLeastOnce).submit().runs(1, 10).breaks(found);
        Tale::new(AtLeastOnce).submit().ends("scheduled").breaks(found);
        Tale::new(AtLeastOnce).submit().begin(1, 10).record(1, "running").ends("running").breaks(found);
        Tale::new(AtLeastOnce).submit_unanswered().holds();
        Tale::new(AtLeastOnce).submit_unanswered().runs(1, 10).ends("succeeded").holds();
        Tale::new(AtLeastOnce).submit_unanswered().ends("scheduled").breaks(found);
    }

    #[test]
    fn a_state_that_nothing_explains_is_found() {
        let found = "no acknowledged job is lost";
        Tale::new(AtLeastOnce).submit().ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit().ends("deleted").breaks(found);
        Tale::new(AtLeastOnce).submit().ends("cancelled").breaks(found);
        Tale::new(AtLeastOnce).submit().fails(1, 10).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit().begin(1, 10).dies(10).record(1, "worker_lost").ends("lost").breaks(found);
        Tale::new(AtMostOnce).submit().begin(1, 10).dies(10).record(1, "worker_lost").ends("lost").holds();
    }

    #[test]
    fn an_ending_that_the_witness_did_not_see_is_found() {
        let found = "endings are true";
        Tale::new(AtLeastOnce).submit().record(1, "succeeded").ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit().begin(1, 10).record(1, "succeeded").ends("succeeded").breaks(found);
        let failed = Tale::new(AtMostOnce).submit().begin(1, 10).end(1, 10, "failed");
        failed.record(1, "succeeded").ends("succeeded").breaks(found);
        let good = Tale::new(AtMostOnce).submit().begin(1, 10).end(1, 10, "ok");
        good.record(1, "failed").ends("failed").breaks(found);
    }

    #[test]
    fn two_outcomes_are_found() {
        let found = "one outcome";
        Tale::new(AtLeastOnce).submit().runs(1, 10).record(1, "failed").ends("failed").breaks(found);
        Tale::new(AtLeastOnce).submit().runs(1, 10).wait(2000).runs(2, 10).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit().begin(1, 10).record(1, "running").ends("succeeded").breaks(found);
    }

    #[test]
    fn an_attempt_of_a_good_worker_that_was_given_up_is_found() {
        let found = "nobody is given up without cause";
        let given_up = |tale: Tale| tale.record(1, "worker_lost").ends("lost");
        let begun = || Tale::new(ExactlyOnce).submit().begin(1, 10);
        given_up(begun()).breaks(found);
        given_up(begun().dies(11)).breaks(found);
        given_up(begun().cut_off(11)).breaks(found);
        // Given up before anything happened to it.
        begun().record(1, "worker_lost").wait(1000).dies(10).ends("lost").breaks(found);
        given_up(begun().dies(10)).holds();
        given_up(begun().cut_off(10)).holds();
    }
}
