//! Measures how late jobs began. What is too late is judged by `punctual-promises`.

use std::time::Duration;

use punctual_core::attempt::Ending;

use super::translate::{run_history, worker};
use crate::clock::Moment;
use crate::history::History;

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
    for job in run_history(history).jobs {
        let (Some(acknowledged), Some(first)) = (job.submission.acknowledged, job.executions.first()) else { continue };
        let due_us = acknowledged.due_at.as_micros();
        let late_us = first.begin.wall.as_micros() - due_us;
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
    let run = run_history(history);
    let late_us = run.jobs.iter().filter(|job| job.key.starts_with(key)).filter_map(|job| {
        let begun = job.executions.first()?.begin;
        Some(begun.steady.as_micros() - job.submission.asked_at.steady.as_micros())
    });
    Lateness::new(late_us.collect())
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
    for job in run_history(history).jobs {
        let by_worker = |place: &usize| job.executions[*place].worker == worker(pid);
        for place in (0..job.executions.len()).filter(by_worker) {
            let end = job.end(job.executions[place].attempt);
            let is_given_up = end.is_some_and(|end| end.ending == Ending::WorkerLost);
            if let Some(next) = job.executions.get(place + 1).filter(|_| is_given_up) {
                last = last.max(Some((next.begin.steady.as_micros() - since.boot_us) / 1000));
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
    let run = run_history(history);
    let delays = run.jobs.into_iter().filter_map(|job| {
        let acknowledged = job.submission.acknowledged?;
        let expected_us = acknowledged.at.wall.max(acknowledged.due_at).as_micros();
        let begun_us = job.executions.first()?.begin.wall.as_micros();
        Some(Delay { job: job.name, expected_us, begun_us })
    });
    delays.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let lateness = Lateness::new((1..=100).rev().map(|ms| ms * 1000).collect());
        assert_eq!([lateness.at(0.5), lateness.at(0.99), lateness.at(1.0)], [50.0, 99.0, 100.0]);
        assert_eq!((lateness.count(), lateness.early()), (100, 0));
        assert_eq!(Lateness::new(vec![-1, 5]).early(), 1);
        assert_eq!(Lateness::default().at(0.99), 0.0);
    }
}
