//! When and how often something really begins.

use std::collections::{BTreeMap, BTreeSet};

use punctual_core::AttemptNo;
use punctual_core::attempt::{Ending, Failure, Outcome, Ran};
use punctual_core::shard::event::Command;
use punctual_core::task::{Delivery, OnLost};

use super::story::{Line, Story};
use crate::history::StartRecord;

pub(super) fn an_attempt_begins_at_most_once(story: &Story<'_>) -> Option<String> {
    let mut begun = BTreeSet::new();
    let (_, twice) = story.begins().find(|(_, attempt)| !begun.insert(*attempt))?;
    Some(format!("attempt {twice} began twice"))
}

pub(super) fn nothing_begins_before_its_start_is_durable(story: &Story<'_>) -> Option<String> {
    story.lines.iter().find_map(|(_, line)| match line {
        Line::Begin { attempt, start: StartRecord::Missing, .. } => {
            Some(format!("attempt {attempt} began and no start was on record"))
        }
        _ => None,
    })
}

/// By the store's own clock, and by the time the job was last due.
pub(super) fn nothing_begins_early(story: &Story<'_>) -> Option<String> {
    let mut due_at = story.id.due_at();
    let mut due: BTreeMap<AttemptNo, _> = BTreeMap::new();
    for (at, line) in &story.lines {
        match line {
            Line::Started(start) => {
                due.insert(start.attempt, due_at);
            }
            Line::Requeued(requeue) => {
                if requeue.attempt.is_none() && !story.asked(Command::RunNow, *at) {
                    return Some("it was moved in time and nobody asked for it".to_owned());
                }
                due_at = requeue.due_at;
            }
            Line::Rerun(rerun) => due_at = rerun.due_at,
            Line::Begin { attempt, .. } => {
                let due_at = due.get(attempt).copied().unwrap_or(due_at);
                if *at < due_at {
                    return Some(format!("attempt {attempt} began {} early", due_at.since(*at)));
                }
            }
            _ => {}
        }
    }
    None
}

/// `at_most_once`, and `exactly_once` unless its policy says otherwise: one begin
/// that can have had an effect, until an operator asks for another.
pub(super) fn strict_modes_begin_once(story: &Story<'_>) -> Option<String> {
    let spec = &story.task.spec;
    let excuses_proven = match (spec.delivery, spec.on_lost) {
        (Delivery::AtLeastOnce, _) | (Delivery::ExactlyOnce, OnLost::Rerun) => return None,
        (Delivery::ExactlyOnce, OnLost::Hold | OnLost::Fail) => true,
        (Delivery::AtMostOnce, _) => false,
    };
    // A begin belongs to the period in which its start was recorded.
    let mut period = 0;
    let mut period_of = BTreeMap::new();
    let mut began: BTreeMap<u32, BTreeSet<AttemptNo>> = BTreeMap::new();
    for (_, line) in &story.lines {
        match line {
            Line::Rerun(_) => period += 1,
            Line::Started(start) => {
                period_of.insert(start.attempt, period);
            }
            Line::Begin { attempt, .. } => {
                let failed_before_it_ran =
                    matches!(story.reported(*attempt), Some((_, Outcome::Failed(Failure { ran: Ran::No, .. }), _)));
                let was_taken_back = story.record(*attempt).is_some_and(|record| record.ending == Ending::NotStarted);
                if !(was_taken_back || failed_before_it_ran && excuses_proven) {
                    let period = period_of.get(attempt).copied().unwrap_or(period);
                    began.entry(period).or_default().insert(*attempt);
                }
            }
            _ => {}
        }
    }
    let twice = began.values().find(|attempts| attempts.len() > 1)?;
    Some(format!("{:?} and attempts {twice:?} began", spec.delivery))
}

pub(super) fn what_is_taken_back_never_began(story: &Story<'_>) -> Option<String> {
    story.begins().find_map(|(_, attempt)| {
        let record = story.record(attempt)?;
        (record.ending == Ending::NotStarted)
            .then(|| format!("attempt {attempt} began and is on record as not started"))
    })
}

pub(super) fn attempt_numbers_grow(story: &Story<'_>) -> Option<String> {
    let mut last = AttemptNo(0);
    for (_, line) in &story.lines {
        if let Line::Started(start) = line {
            if start.attempt <= last {
                return Some(format!("attempt {} was started after attempt {last}", start.attempt));
            }
            last = start.attempt;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use punctual_core::JobState;
    use punctual_core::attempt::{Ending, Failure, Outcome, Ran};
    use punctual_core::shard::event::Command;
    use punctual_core::task::{Delivery, OnLost};

    use super::super::test_history::{Tale, failed, secs, worker};
    use crate::history::{Fact, StartRecord};
    use punctual_core::AttemptNo;

    #[test]
    fn a_plain_success_is_good() {
        Tale::new(|_| {}).succeed(1).acked(1).holds();
    }

    #[test]
    fn two_begins_of_one_attempt_are_found() {
        Tale::new(|_| {}).start(1).begin(1).begin(1).breaks("an attempt begins at most once");
        Tale::new(|_| {}).succeed(1).begin(1).breaks("an attempt begins at most once");
        Tale::new(|_| {})
            .fail_and_retry(1, secs(1))
            .start(2)
            .begin(2)
            .begin(1)
            .breaks("an attempt begins at most once");
    }

    #[test]
    fn a_begin_without_a_durable_start_is_found() {
        let tale = Tale::new(|_| {});
        let id = tale.id;
        let (attempt, worker, start) = (AttemptNo(1), worker(), StartRecord::Missing);
        tale.tell(Fact::Begin { id, attempt, worker, start }).breaks("nothing begins before its start is durable");
    }

    #[test]
    fn an_early_begin_is_found() {
        // The clock is at 5 s when it begins.
        let retried = |wait| Tale::new(|_| {}).fail_and_retry(1, wait).start(2).begin(2);
        retried(secs(1)).holds();
        retried(secs(60)).breaks("nothing begins early");
        let moved = Tale::new(|_| {});
        let later = moved.now() + secs(60);
        moved.ask(Command::RunNow).requeue(None, later).start(1).begin(1).breaks("nothing begins early");
        let tale = Tale::new(|_| {});
        let now = tale.now();
        tale.requeue(None, now).start(1).begin(1).breaks("nothing begins early");
    }

    #[test]
    fn a_second_begin_in_a_strict_mode_is_found() {
        let lost = |delivery, on_lost| {
            let tale = Tale::new(|spec| {
                spec.delivery = delivery;
                spec.on_lost = on_lost;
            });
            let due_at = tale.now() + secs(3);
            tale.start(1).begin(1).requeue(Some((1, Ending::WorkerLost)), due_at).start(2).begin(2)
        };
        lost(Delivery::AtMostOnce, OnLost::Rerun).breaks("strict modes begin once");
        lost(Delivery::ExactlyOnce, OnLost::Hold).breaks("strict modes begin once");
        lost(Delivery::ExactlyOnce, OnLost::Fail).breaks("strict modes begin once");
        // One slot, and the lost one may still hold it.
        lost(Delivery::ExactlyOnce, OnLost::Rerun).breaks("no worker gets more than it granted");
    }

    #[test]
    fn a_failure_before_anything_ran_excuses_exactly_once_only() {
        let proven = |delivery| {
            let tale = Tale::new(|spec| spec.delivery = delivery).start(1).begin(1);
            let failure = Failure { ran: Ran::No, ..Failure::new("exit code 1") };
            let tale = tale.end(1, Outcome::Failed(failure));
            let due_at = tale.now() + secs(1);
            tale.requeue(Some((1, Ending::Failed)), due_at).start(2).begin(2)
        };
        proven(Delivery::ExactlyOnce).holds();
        proven(Delivery::AtMostOnce).breaks("strict modes begin once");
    }

    #[test]
    fn a_rerun_is_a_new_beginning() {
        let tale = Tale::new(|spec| spec.delivery = Delivery::AtMostOnce).succeed(1);
        tale.ask(Command::Rerun).rerun().succeed(2).holds();
    }

    #[test]
    fn a_begin_of_what_was_taken_back_is_found() {
        let taken_back = || {
            let tale = Tale::new(|_| {}).start(1);
            let due_at = tale.now() + secs(1);
            tale.requeue(Some((1, Ending::NotStarted)), due_at)
        };
        taken_back().start(2).begin(2).holds();
        taken_back().begin(1).breaks("what is taken back never began");
        let cancelled = Tale::new(|_| {}).start(1).begin(1).settle(JobState::Cancelled, Some((1, Ending::NotStarted)));
        cancelled.breaks("what is taken back never began");
    }

    #[test]
    fn a_number_that_is_used_again_is_found() {
        Tale::new(|_| {}).fail_and_retry(1, secs(1)).start(1).breaks("attempt numbers grow");
        Tale::new(|_| {}).fail_and_retry(2, secs(1)).start(1).breaks("attempt numbers grow");
        Tale::new(|_| {}).start(1).start(1).breaks("attempt numbers grow");
        Tale::new(|_| {}).start(1).begin(1).end(1, failed()).holds();
    }
}
