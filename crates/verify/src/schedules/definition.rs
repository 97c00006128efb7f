//! The definitions of a run's schedules, and when they fire by them: worked out here with `recurrence` alone, so
//! that the servers' own planning is not asked about itself.

use jiff::SignedDuration;
use punctual_api::{CatchUpRequest, RuleRequest, ScheduleRequest};
use punctual_core::schedule::recurrence::{Rule, Schedule, ScheduleSpec, delay_us, seed};
use punctual_core::schedule::{CatchUpMode, Overlap};
use punctual_core::{Span, Timestamp};
use serde::{Deserialize, Serialize};

use crate::witness::Work;

/// One definition of a schedule. An edit makes another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Definition {
    pub(crate) beats: Vec<Beat>,
    pub(crate) zone: String,
    /// 0 for none.
    pub(crate) jitter_us: i64,
    /// The schedule does not fire from this time on.
    pub(crate) end_us: i64,
    /// How long each run takes.
    pub(crate) sleep_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Beat {
    Every { every_us: i64, anchor_us: i64 },
    Cron(String),
}

/// What a schedule does about runs that meet and times that were missed. Edits leave it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Policy {
    pub(crate) overlap: Overlap,
    pub(crate) mode: CatchUpMode,
    pub(crate) max: u32,
    pub(crate) window_us: i64,
    pub(crate) per_minute: u32,
    pub(crate) late_after_us: Option<i64>,
    /// `None` for the servers' setting.
    #[serde(default)]
    pub(crate) missed_after_us: Option<i64>,
}

impl Policy {
    /// Missed times that run after all, at most.
    pub(crate) fn budget(&self) -> usize {
        match self.mode {
            CatchUpMode::None => 0,
            CatchUpMode::Last => 1,
            CatchUpMode::All => self.max as usize,
        }
    }

    /// How late a time may be that is not missed. The servers of our runs give times up sooner than the shortest default of
    /// a schedule, so that their setting counts where a schedule has none.
    pub(crate) fn grace_us(&self, of_servers_us: i64) -> i64 {
        self.missed_after_us.unwrap_or(of_servers_us)
    }

    /// What has no effect with its mode would be refused.
    fn catch_up(&self) -> CatchUpRequest {
        let is_all = self.mode == CatchUpMode::All;
        CatchUpRequest {
            mode: Some(self.mode),
            max: is_all.then_some(self.max),
            window: (self.mode != CatchUpMode::None).then(|| Span::from_micros(self.window_us)),
            per_minute: is_all.then_some(self.per_minute),
        }
    }

    /// From one replayed run to the next.
    pub(crate) fn pause_us(&self) -> i64 {
        60_000_000 / i64::from(self.per_minute)
    }
}

/// A planned time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time {
    pub(crate) at_us: i64,
    /// `at_us` and its jitter.
    pub(crate) start_us: i64,
}

impl Definition {
    pub(crate) fn request(&self, name: &str, task: &str, policy: Policy) -> ScheduleRequest {
        let rules = self.beats.iter().map(|beat| match beat {
            Beat::Every { every_us, anchor_us } => RuleRequest {
                every: Some(Span::from_micros(*every_us)),
                anchor: Some(Timestamp::saturating_from_micros(*anchor_us)),
                ..RuleRequest::default()
            },
            Beat::Cron(text) => RuleRequest { cron: Some(text.clone()), ..RuleRequest::default() },
        });
        let work = Work { sleep_ms: self.sleep_ms, fail_first: 0 };
        ScheduleRequest {
            name: Some(name.to_owned()),
            task: Some(task.to_owned()),
            rules: rules.collect(),
            zone: Some(self.zone.clone()),
            end_at: Some(Timestamp::saturating_from_micros(self.end_us)),
            jitter: (self.jitter_us > 0).then(|| Span::from_micros(self.jitter_us)),
            overlap: Some(policy.overlap),
            catch_up: Some(policy.catch_up()),
            late_after: policy.late_after_us.map(Span::from_micros),
            missed_after: policy.missed_after_us.map(Span::from_micros),
            input: Some(serde_json::value::to_raw_value(&work).expect("work is plain data")),
            ..ScheduleRequest::default()
        }
    }

    /// All planned times from `from_us` on, up to `to_us` and without it, in their order.
    pub(crate) fn times(&self, name: &str, from_us: i64, to_us: i64) -> Vec<Time> {
        let rules = self.beats.iter().map(|beat| match beat {
            Beat::Every { every_us, anchor_us } => {
                Rule::Interval { every: SignedDuration::from_micros(*every_us), anchor: Some(instant(*anchor_us)) }
            }
            Beat::Cron(text) => text.parse().expect("our own expressions can be read"),
        });
        let mut spec = ScheduleSpec::new(Rule::Once(instant(0)), self.zone.clone());
        spec.rules = rules.collect();
        spec.end_at = Some(instant(self.end_us));
        let schedule = Schedule::new(spec, name).expect("our own definitions mean something");
        let (seed, jitter_us) = (seed(name), self.jitter_us.unsigned_abs());
        let time = |at_us: i64| {
            let delay_us = if jitter_us > 0 { delay_us(seed, at_us, jitter_us) } else { 0 };
            Time { at_us, start_us: at_us + delay_us as i64 }
        };
        schedule.between(instant(from_us), instant(to_us)).map(|planned| time(planned.at.as_microsecond())).collect()
    }
}

fn instant(us: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(us).expect("a time of our own")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn definition(beats: Vec<Beat>) -> Definition {
        Definition { beats, zone: "UTC".to_owned(), jitter_us: 0, end_us: 100 * SECOND, sleep_ms: 0 }
    }

    fn seconds(definition: &Definition, from: i64, to: i64) -> Vec<i64> {
        let times = definition.times("some", from * SECOND, to * SECOND);
        times.into_iter().map(|time| time.at_us / SECOND).collect()
    }

    #[test]
    fn times_are_those_of_all_beats_up_to_the_end() {
        let every = Beat::Every { every_us: 7 * SECOND, anchor_us: SECOND };
        assert_eq!(seconds(&definition(vec![every.clone()]), 0, 20), [1, 8, 15]);
        let both = definition(vec![every, Beat::Cron("*/20 * * * * *".to_owned())]);
        assert_eq!(seconds(&both, 8, 30), [8, 15, 20, 22, 29]);
        assert_eq!(seconds(&both, 90, 200), [92, 99]);
    }

    #[test]
    fn jitter_delays_starts_and_leaves_times_alone() {
        let plain = definition(vec![Beat::Cron("* * * * * *".to_owned())]);
        let jittered = Definition { jitter_us: SECOND, ..plain.clone() };
        let (plain, jittered) = (plain.times("some", 0, 50 * SECOND), jittered.times("some", 0, 50 * SECOND));
        assert_eq!(plain.len(), 50);
        for (time, late) in plain.iter().zip(&jittered) {
            assert_eq!(time.at_us, late.at_us);
            assert!((late.at_us..late.at_us + SECOND).contains(&late.start_us));
        }
        assert!(jittered.iter().any(|time| time.start_us > time.at_us + SECOND / 2));
    }
}
