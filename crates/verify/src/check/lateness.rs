//! How late jobs begin.

use std::time::Duration;

use super::story::{Story, is_cancel, is_delete, stories};
use crate::clock::Moment;
use crate::history::History;

/// After a fault is over and its time to recover has passed, and in quiet times.
const LATE_MAX_US: i64 = 5_000_000;
/// A job that was due so long before a fault has begun before it.
const BEGIN_WITHIN_US: i64 = 1_000_000;

/// A job that is due while something is broken begins when it is mended; any other, on time.
pub(super) fn what_is_due_begins_in_time(story: &Story<'_>) -> Option<String> {
    if story.was_asked(is_delete) || story.was_asked(is_cancel) {
        return None;
    }
    let (acknowledged, due_us) = story.acknowledged()?;
    let Some(first) = story.executions.first() else {
        // A strict job whose worker died between its start and its begin is lost, and says so.
        return (story.state() != "lost").then(|| "it never began".to_owned());
    };
    let late_us = too_late_us(story, acknowledged.real_us.max(due_us), first.begin.real_us)?;
    Some(format!("it began {} ms after it should have", late_us / 1000))
}

/// The same holds for what failed and is tried again.
pub(super) fn retries_begin_in_time(story: &Story<'_>) -> Option<String> {
    for (failures, record) in (1..).zip(story.job?.attempts.iter().filter(|record| record.state == "failed")) {
        let ended = story.execution(record.attempt).and_then(|execution| execution.end);
        let next = story.executions.iter().find(|execution| execution.attempt == record.attempt + 1);
        let (Some((ended, _)), Some(next)) = (ended, next) else { continue };
        let wait_us = story.rules.retry_initial_ms as f64 * 1000.0 * story.rules.retry_factor.powi(failures - 1);
        if let Some(late_us) = too_late_us(story, ended.real_us + wait_us as i64, next.begin.real_us) {
            return Some(format!("attempt {} began {} ms after it should have", next.attempt, late_us / 1000));
        }
    }
    None
}

/// By how much a begin is later than anything excuses.
fn too_late_us(story: &Story<'_>, expected_us: i64, begun_us: i64) -> Option<i64> {
    let start_us = match (story.world.first_fault, story.world.well_again) {
        (Some(first), Some(again)) => {
            let broken_us = first.real_us - BEGIN_WITHIN_US..again.real_us;
            if broken_us.contains(&expected_us) { broken_us.end } else { expected_us }
        }
        // Nobody said until when it is broken.
        (Some(_), None) => return None,
        (None, _) => expected_us,
    };
    let late_us = begun_us - start_us;
    (late_us > LATE_MAX_US).then_some(late_us)
}

/// How late the first attempts of some jobs began.
#[derive(Debug, Clone, Default)]
pub struct Lateness {
    sorted_us: Vec<i64>,
}

impl Lateness {
    pub(crate) fn new(mut late_us: Vec<i64>) -> Self {
        late_us.sort_unstable();
        Self { sorted_us: late_us }
    }

    pub fn count(&self) -> usize {
        self.sorted_us.len()
    }

    /// The lateness that this part of them stays below or reaches, in milliseconds.
    pub fn at(&self, part: f64) -> f64 {
        let place = (part * self.sorted_us.len() as f64).ceil() as usize;
        self.sorted_us.get(place.saturating_sub(1)).map_or(0.0, |us| *us as f64 / 1000.0)
    }

    pub fn early(&self) -> usize {
        self.sorted_us.iter().filter(|us| **us < 0).count()
    }
}

/// Counted from when each was due: of those that `is_in` names, and of the others.
pub fn late_by_due(history: &History, is_in: impl Fn(i64) -> bool) -> (Lateness, Lateness) {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for story in stories(history) {
        let (Some((_, due_us)), Some(first)) = (story.acknowledged(), story.executions.first()) else { continue };
        let late_us = first.begin.real_us - due_us;
        if is_in(due_us) { inside.push(late_us) } else { outside.push(late_us) }
    }
    (Lateness::new(inside), Lateness::new(outside))
}

/// Counted from when each was due and its client knew of it: one whose submission took several
/// tries is not late for that.
pub fn late_by_answer(history: &History) -> Lateness {
    Lateness::new(delays(history).iter().map(|delay| delay.begun_us - delay.expected_us).collect())
}

/// Counted from when a client first sent it, answered or not: of the jobs whose keys begin so.
pub fn late_by_call(history: &History, key: &str) -> Lateness {
    let mut late_us = Vec::new();
    for story in stories(history).iter().filter(|story| story.key.starts_with(key)) {
        if let (Some(call), Some(first)) = (story.submits.first(), story.executions.first()) {
            late_us.push(first.begin.boot_us - call.invoked.boot_us);
        }
    }
    Lateness::new(late_us)
}

/// Of the jobs that should have begun from `from` on for `within`, how late the latest was.
pub fn latest_ms(history: &History, from: Moment, within: Duration) -> i64 {
    let to_us = from.real_us + within.as_micros() as i64;
    let late = delays(history).into_iter().filter(|delay| (from.real_us..to_us).contains(&delay.expected_us));
    late.map(|delay| delay.ms()).max().unwrap_or(0)
}

/// How long after `since` the last job began that was more than a second late.
pub fn recovered_ms(history: &History, since: Moment) -> i64 {
    let late = delays(history).into_iter().filter(|delay| delay.ms() > 1000 && delay.begun_us > since.real_us);
    late.map(|delay| (delay.begun_us - since.real_us) / 1000).max().unwrap_or(0)
}

/// How long after `since` the last job that this process had begun, and that was given up,
/// began elsewhere. `None` if there was no such job.
pub fn again_after_loss_ms(history: &History, pid: u32, since: Moment) -> Option<i64> {
    let mut last = None;
    for story in stories(history) {
        for (place, execution) in story.executions.iter().enumerate().filter(|(_, execution)| execution.pid == pid) {
            let is_given_up = story.record(execution.attempt).is_some_and(|record| record.state == "worker_lost");
            if let Some(next) = story.executions.get(place + 1).filter(|_| is_given_up) {
                last = last.max(Some(next.begin.ms_since(since)));
            }
        }
    }
    last
}

/// When a job should have begun, and when it did.
#[derive(Debug, Clone)]
pub struct Delay {
    pub job: String,
    pub expected_us: i64,
    pub begun_us: i64,
}

/// The jobs that began latest, the latest first.
pub fn latest(history: &History, count: usize) -> Vec<Delay> {
    let mut delays = delays(history);
    delays.sort_by_key(|delay| std::cmp::Reverse(delay.ms()));
    delays.truncate(count);
    delays
}

impl Delay {
    pub fn ms(&self) -> i64 {
        (self.begun_us - self.expected_us) / 1000
    }
}

fn delays(history: &History) -> Vec<Delay> {
    let stories = stories(history);
    let delays = stories.iter().filter_map(|story| {
        let (acknowledged, due_us) = story.acknowledged()?;
        let begun_us = story.executions.first()?.begin.real_us;
        let job = story.name().to_owned();
        Some(Delay { job, expected_us: acknowledged.real_us.max(due_us), begun_us })
    });
    delays.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tale::Tale;
    use crate::history::Delivery::AtLeastOnce;

    #[test]
    fn a_job_that_begins_late_without_a_reason_is_found() {
        let found = "what is due begins in time";
        let after = |ms| Tale::new(AtLeastOnce).submit().wait(ms).runs(1, 10).ends("succeeded");
        after(5000).holds();
        after(5001).breaks(found);
        Tale::new(AtLeastOnce).submit_for(1000).wait(6001).runs(1, 10).ends("succeeded").breaks(found);
        let skipped = Tale::new(AtLeastOnce).submit().record(1, "worker_lost").ends("quarantined");
        skipped.breaks(found);
    }

    #[test]
    fn a_retry_that_begins_late_is_found() {
        let found = "retries begin in time";
        let after = |ms| Tale::new(AtLeastOnce).submit().fails(1, 10).wait(ms).runs(2, 10).ends("succeeded");
        after(6000).holds();
        after(6001).breaks(found);
        let twice = Tale::new(AtLeastOnce).submit().fails(1, 10).wait(1000).fails(2, 10);
        twice.wait(7001).runs(3, 10).ends("succeeded").breaks(found);
        let broken = Tale::new(AtLeastOnce).submit().fails(1, 10).fault(10_000, 12_000);
        broken.wait(17_001).runs(2, 10).ends("succeeded").breaks(found);
    }

    #[test]
    fn a_fault_excuses_until_it_should_be_over() {
        let found = "what is due begins in time";
        let broken = || Tale::new(AtLeastOnce).submit().wait(1000).fault(10_000, 12_000);
        broken().wait(16_999).runs(1, 10).ends("succeeded").holds();
        broken().wait(17_001).runs(1, 10).ends("succeeded").breaks(found);
        // Due long after.
        let later = Tale::new(AtLeastOnce).fault(1000, 1000).wait(5000).submit().wait(5001);
        later.runs(1, 10).ends("succeeded").breaks(found);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let lateness = Lateness::new((1..=100).rev().map(|ms| ms * 1000).collect());
        assert_eq!([lateness.at(0.5), lateness.at(0.99), lateness.at(1.0)], [50.0, 99.0, 100.0]);
        assert_eq!((lateness.count(), lateness.early()), (100, 0));
        assert_eq!(Lateness::new(vec![-1, 5]).early(), 1);
        assert_eq!(Lateness::default().at(0.99), 0.0);
    }
}
