//! How often and how soon a job was tried again.

use super::story::Story;
use crate::history::Delivery;

/// A job that killed so many workers is set aside.
const QUARANTINE_AFTER: usize = 3;

/// An owner counts by its estimate of the store's clock, which lags behind it by up to 500 parts
/// in a million of the time since it last looked. The simulator allows as much.
const CLOCK_LAG_MS: i64 = 20;

/// Numbers without gaps; no retry too many; nothing given up too early. What was taken back
/// counts as nothing.
pub(super) fn retries_are_counted(story: &Story<'_>) -> Option<String> {
    let job = story.job?;
    for (place, record) in job.attempts.iter().enumerate() {
        if record.attempt as usize != place + 1 {
            return Some(format!("attempt {} is number {} on record", record.attempt, place + 1));
        }
    }
    let count = |state: &str| job.attempts.iter().filter(|record| record.state == state).count();
    let (failures, losses) = (count("failed") + count("timed_out"), count("worker_lost"));
    let retries = match story.rules.delivery {
        Delivery::AtLeastOnce => story.rules.retry_max as usize,
        Delivery::AtMostOnce | Delivery::ExactlyOnce => 0,
    };
    if failures > retries + 1 {
        return Some(format!("{failures} failures, where {retries} retries are allowed"));
    }
    if losses > QUARANTINE_AFTER.min(story.rules.node_retry_max as usize + 1) {
        return Some(format!("{losses} workers were lost with it"));
    }
    if job.state == "failed" && failures < retries + 1 {
        return Some(format!("it failed for good after {failures} failures, and {retries} retries are allowed"));
    }
    if job.state == "succeeded" && failures > story.fail_first as usize {
        return Some(format!("{failures} failures on record, and the handler fails {} times", story.fail_first));
    }
    None
}

/// From the end of a failed attempt to the begin of the next, by the witness.
pub(super) fn waits_are_kept(story: &Story<'_>) -> Option<String> {
    let mut failures = 0;
    for record in &story.job?.attempts {
        if record.state != "failed" {
            continue;
        }
        failures += 1;
        let ended = story.execution(record.attempt).and_then(|execution| execution.end);
        let next = story.executions.iter().find(|execution| execution.attempt > record.attempt);
        let (Some((ended, _)), Some(next)) = (ended, next) else { continue };
        let rules = story.rules;
        let full_ms = rules.retry_initial_ms as f64 * rules.retry_factor.powi(failures - 1);
        let least_ms = (full_ms * (1.0 - rules.retry_jitter)) as i64;
        let waited_ms = next.begin.ms_since(ended);
        if waited_ms < least_ms - CLOCK_LAG_MS {
            return Some(format!("attempt {} began {waited_ms} ms after a failure, not {least_ms}", next.attempt));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use crate::check::tale::Tale;
    use crate::history::Delivery::{AtLeastOnce, AtMostOnce};

    fn failing(times: u32) -> Tale {
        let mut tale = Tale::new(AtLeastOnce).submit();
        for attempt in 1..=times {
            tale = tale.fails(attempt, 10).wait(4_000);
        }
        tale
    }

    #[test]
    fn retries_too_many_or_too_few_are_found() {
        let found = "retries are counted";
        failing(4).ends("failed").holds();
        failing(3).runs(4, 10).ends("succeeded").holds();
        failing(5).ends("failed").breaks(found);
        failing(3).ends("failed").breaks(found);
        Tale::new(AtMostOnce).submit().fails(1, 10).wait(2000).record(2, "failed").ends("failed").breaks(found);
    }

    #[test]
    fn numbers_with_gaps_are_found() {
        let found = "retries are counted";
        Tale::new(AtLeastOnce).submit().runs(2, 10).ends("succeeded").breaks(found);
        failing(1).runs(3, 10).ends("succeeded").breaks(found);
        Tale::new(AtLeastOnce).submit().record(1, "not_started").runs(1, 10).ends("succeeded").breaks(found);
    }

    #[test]
    fn a_job_that_kills_its_workers_is_set_aside() {
        let lost = |times: u32| {
            (1..=times).fold(Tale::new(AtLeastOnce).submit(), |tale, attempt| {
                tale.begin(attempt, attempt).dies(attempt).record(attempt, "worker_lost")
            })
        };
        lost(3).ends("quarantined").holds();
        lost(4).ends("quarantined").breaks("retries are counted");
    }

    #[test]
    fn a_retry_that_comes_too_soon_is_found() {
        let found = "waits are kept";
        let second_after = |ms| Tale::new(AtLeastOnce).submit().fails(1, 10).wait(ms).runs(2, 10).ends("succeeded");
        second_after(800).holds();
        second_after(779).breaks(found);
        second_after(0).breaks(found);
        let third_after = |ms: i64| failing(2).wait(ms - 4_000).runs(3, 10).ends("succeeded");
        third_after(1600).holds();
        third_after(1579).breaks(found);
    }
}
