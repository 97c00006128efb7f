//! What people were told about their deletes and cancels.

use super::story::{Story, is_cancel, is_delete};
use crate::clock::Moment;
use crate::history::{Answer, Call};

/// Servers stamp starts by their measure of the store's clock, which is this much off at most.
const CLOCK_ERROR_US: i64 = 100_000;

pub(super) fn deleted_means_never(story: &Story<'_>) -> Option<String> {
    let is_granted = |call: &&&Call| is_delete(&call.asked) && matches!(call.answer, Answer::Ok { .. });
    story.orders.iter().find(is_granted)?;
    if let Some(execution) = story.executions.first() {
        return Some(format!("deleted, it was said, and attempt {} began", execution.attempt));
    }
    (story.state() != "deleted").then(|| format!("deleted, it was said, and it is {}", story.state()))
}

/// A worker that was given up may still begin what it had been given: nobody can tell it.
pub(super) fn cancelled_means_no_more(story: &Story<'_>) -> Option<String> {
    story.orders.iter().filter(|call| is_cancel(&call.asked)).find_map(|call| {
        let Answer::Ok { pending, .. } = call.answer else { return None };
        let told = call.returned?;
        if pending { started_after(story, told) } else { began_after(story, told) }
    })
}

fn began_after(story: &Story<'_>, told: Moment) -> Option<String> {
    if story.state() != "cancelled" {
        return Some(format!("cancelled, it was said, and it is {}", story.state()));
    }
    let was_given_up = |attempt| {
        let record = story.record(attempt);
        record.is_some_and(|record| matches!(record.state.as_str(), "worker_lost" | "timed_out"))
    };
    let late = story.executions.iter().find(|execution| execution.begin > told && !was_given_up(execution.attempt))?;
    Some(format!("cancelled, it was said, and attempt {} began", late.attempt))
}

fn started_after(story: &Story<'_>, told: Moment) -> Option<String> {
    let late = story.job?.attempts.iter().find(|record| record.started_us > told.real_us + CLOCK_ERROR_US)?;
    Some(format!("it was being asked to end, it was said, and attempt {} was started", late.attempt))
}

#[cfg(test)]
mod tests {
    use crate::check::tale::Tale;
    use crate::history::Delivery::{AtLeastOnce, AtMostOnce, ExactlyOnce};

    #[test]
    fn a_begin_of_a_deleted_job_is_found_before_and_after() {
        let found = "deleted means never";
        Tale::new(ExactlyOnce).submit().delete_granted().ends("deleted").holds();
        Tale::new(ExactlyOnce).submit().delete_granted().runs(1, 10).ends("succeeded").breaks(found);
        Tale::new(ExactlyOnce).submit().runs(1, 10).delete_granted().ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit().delete_granted().begin(1, 10).ends("deleted").breaks(found);
        Tale::new(AtLeastOnce).submit().delete_granted().ends("cancelled").breaks(found);
        Tale::new(AtLeastOnce).submit().delete_refused().runs(1, 10).ends("succeeded").holds();
        Tale::new(AtLeastOnce).submit().delete_unanswered().runs(1, 10).ends("succeeded").holds();
        Tale::new(AtLeastOnce).submit().delete_unanswered().ends("deleted").holds();
    }

    #[test]
    fn a_begin_after_a_cancel_is_found() {
        let found = "cancelled means no more";
        let cancelled = || Tale::new(AtLeastOnce).submit().cancel_granted();
        cancelled().ends("cancelled").holds();
        cancelled().wait(1).runs(1, 10).ends("succeeded").breaks(found);
        cancelled().wait(1).begin(1, 10).ends("cancelled").breaks(found);
        cancelled().wait(1).begin(1, 10).record(1, "not_started").ends("cancelled").breaks(found);
        let waits_for_a_retry = || Tale::new(AtLeastOnce).submit().fails(1, 10).cancel_granted();
        waits_for_a_retry().ends("cancelled").holds();
        waits_for_a_retry().wait(2000).runs(2, 10).ends("cancelled").breaks(found);
    }

    #[test]
    fn a_start_after_a_wish_to_cancel_is_found() {
        let found = "cancelled means no more";
        let asked = |delivery| Tale::new(delivery).submit().begin(1, 10).cancel_pending();
        asked(AtLeastOnce).end(1, 10, "cancelled").record(1, "cancelled").ends("cancelled").holds();
        asked(AtMostOnce).end(1, 10, "ok").record(1, "succeeded").ends("succeeded").holds();
        let retried = asked(AtLeastOnce).end(1, 10, "failed").record(1, "failed").wait(2000);
        retried.runs(2, 10).ends("succeeded").breaks(found);
        let lost = asked(AtLeastOnce).dies(10).record(1, "worker_lost").wait(2000);
        lost.runs(2, 11).ends("succeeded").breaks(found);
        let lost = asked(AtLeastOnce).dies(10).record(1, "worker_lost");
        lost.ends("cancelled").holds();
    }
}
