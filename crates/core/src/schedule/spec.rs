//! The stored form of a schedule's rules and policies.

use std::ops::RangeInclusive;

use punctual_recurrence::OnClosedDay;
use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// The maximum number of times that wait for the previous run. Later ones are skipped: a schedule that is a thousand
/// runs behind will not catch up by waiting.
pub const OVERLAP_QUEUE_MAX: usize = 1000;

/// Missed times that are run after all, at most.
pub const CATCH_UP_MAX: u32 = 10_000;

pub const PAUSE_AFTER_MAX: u16 = 1000;

/// What `missed_after` of a schedule may be.
pub const MISSED_AFTER_RANGE: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(3600);

/// The lower limit of `missed_after` for schedules without a setting of their own: some hundred milliseconds of a slow
/// commit are no outage.
pub const MISSED_AFTER_FLOOR: Span = Span::from_secs(1);

/// How old a missed time may be that [`CatchUpMode::All`] runs, unless the schedule says otherwise.
const WINDOW: Span = Span::from_secs(86_400);

/// When it fires, and what then. Two schedules with equal specs share one [`super::Plan`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// Its calendars are empty: they are shared, and referred to by name.
    pub when: punctual_recurrence::ScheduleSpec,
    #[serde(default, skip_serializing_if = "CalendarNames::is_empty")]
    pub calendars: CalendarNames,
    #[serde(default)]
    pub overlap: Overlap,
    #[serde(default)]
    pub catch_up: CatchUp,
    /// It ends after so many runs by plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<u32>,
    /// It pauses itself after so many failures in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_after_failures: Option<u16>,
    /// A run that starts later than this is marked late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_after: Option<Span>,
    /// A planned time that is decided this much later was missed. Without it, [`ScheduleSpec::missed_after`] says when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_after: Option<Span>,
}

impl ScheduleSpec {
    pub fn new(when: punctual_recurrence::ScheduleSpec) -> Self {
        Self {
            when,
            calendars: CalendarNames::default(),
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            max_runs: None,
            pause_after_failures: None,
            late_after: None,
            missed_after: None,
        }
    }

    /// How late a planned time may be decided and still run as planned. `next` is the planned time after it.
    ///
    /// Without a setting of its own, a schedule that fires more often than the servers' setting gives a time up when the
    /// next one has come: after an outage it must not start a minute of runs at once. [`MISSED_AFTER_FLOOR`] bounds that
    /// from below. Of two planned times the later one is never given up first.
    pub fn missed_after(&self, at: Timestamp, next: Option<Timestamp>, of_servers: Span) -> Span {
        if let Some(own) = self.missed_after {
            return own;
        }
        let interval = next.map_or(of_servers, |next| next.since(at));
        interval.max(MISSED_AFTER_FLOOR).min(of_servers)
    }

    /// Whether the owner has to know which jobs of the schedule have not ended.
    pub fn is_tracked(&self) -> bool {
        self.overlap != Overlap::Allow || self.pause_after_failures.is_some()
    }
}

/// The names of calendars that a schedule obeys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalendarNames {
    /// It never fires on their dates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// If there are any, it fires on their dates only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    #[serde(default)]
    pub on_closed_day: OnClosedDay,
}

impl CalendarNames {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.exclude.iter().chain(&self.include)
    }
}

/// What happens when a time comes while a run of the schedule has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// They run side by side.
    #[default]
    Allow,
    /// The time is skipped.
    Skip,
    /// One waits for the end of the run; further ones are skipped.
    QueueOne,
    /// They run one after the other.
    QueueAll,
    /// The run is cancelled, and the new one starts when it has ended.
    CancelPrevious,
}

/// What becomes of missed times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredCatchUp", into = "StoredCatchUp")]
pub struct CatchUp {
    pub mode: CatchUpMode,
    /// No more than so many, the latest ones. For [`CatchUpMode::All`].
    pub max: u32,
    /// None that is older; `None` if the mode's default counts.
    pub window: Option<Span>,
    /// How many are started in a minute. For [`CatchUpMode::All`].
    pub per_minute: u32,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { mode: CatchUpMode::Last, max: 100, window: None, per_minute: 60 }
    }
}

impl CatchUp {
    /// How old a missed time may be that runs; `None` if its age does not matter. A weekly job must run after an outage of
    /// a weekend, so the latest time has no limit by default; a backlog has one.
    pub fn window(&self) -> Option<Span> {
        self.window.or(match self.mode {
            CatchUpMode::None | CatchUpMode::Last => None,
            CatchUpMode::All => Some(WINDOW),
        })
    }

    /// Missed times that run, at most.
    pub const fn budget(&self) -> usize {
        match self.mode {
            CatchUpMode::None => 0,
            CatchUpMode::Last => 1,
            CatchUpMode::All => self.max as usize,
        }
    }
}

/// A [`CatchUp`] in stored specs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCatchUp {
    mode: CatchUpMode,
    max: u32,
    /// In specs of earlier versions, which always had it: a day, unless somebody had named another one.
    #[serde(default, skip_serializing)]
    window: Option<Span>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    named_window: Option<Span>,
    per_minute: u32,
}

impl From<StoredCatchUp> for CatchUp {
    fn from(stored: StoredCatchUp) -> Self {
        let StoredCatchUp { mode, max, window, named_window, per_minute } = stored;
        Self { mode, max, window: named_window.or(window.filter(|window| *window != WINDOW)), per_minute }
    }
}

impl From<CatchUp> for StoredCatchUp {
    fn from(catch_up: CatchUp) -> Self {
        let CatchUp { mode, max, window, per_minute } = catch_up;
        Self { mode, max, window: None, named_window: window, per_minute }
    }
}

/// Which missed runs are made up for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum CatchUpMode {
    /// They are missed.
    None,
    /// The latest one runs now, the others are missed.
    #[default]
    Last,
    /// All of them run, within the budget.
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> CatchUp {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_stored_rule_that_never_named_a_window_follows_the_default() {
        let last = read(r#"{"mode":"last","max":100,"window":"1d","per_minute":60}"#);
        assert_eq!((last, last.window()), (CatchUp::default(), None));
        let all = read(r#"{"mode":"all","max":7,"window":"1d","per_minute":60}"#);
        assert_eq!((all.window, all.window()), (None, Some(WINDOW)));
        let named = read(r#"{"mode":"last","max":100,"window":"7d","per_minute":60}"#);
        assert_eq!(named.window(), Some(Span::from_secs(7 * 86_400)));
    }

    #[test]
    fn a_window_that_was_named_is_kept_also_if_it_is_a_day() {
        let named = CatchUp { window: Some(WINDOW), ..CatchUp::default() };
        assert_eq!(read(&serde_json::to_string(&named).unwrap()), named);
        assert_eq!(read(&serde_json::to_string(&CatchUp::default()).unwrap()), CatchUp::default());
    }

    #[test]
    fn a_time_is_missed_when_the_next_one_has_come_but_not_within_a_second() {
        let spec = |own: Option<i64>| {
            let when = punctual_recurrence::ScheduleSpec::new("* * * * *".parse().unwrap(), "UTC");
            ScheduleSpec { missed_after: own.map(Span::from_secs), ..ScheduleSpec::new(when) }
        };
        let after = |own: Option<i64>, interval: Option<i64>, of_servers: i64| {
            let at = Timestamp::EPOCH;
            let next = interval.map(|interval| at + Span::from_secs(interval));
            spec(own).missed_after(at, next, Span::from_secs(of_servers)).as_micros() / 1_000_000
        };
        assert_eq!(after(None, Some(0), 60), 1);
        assert_eq!(after(None, Some(5), 60), 5);
        assert_eq!(after(None, Some(30), 60), 30);
        assert_eq!(after(None, Some(3600), 60), 60);
        assert_eq!(after(None, None, 60), 60, "the last one has no next");
        assert_eq!(after(None, Some(30), 5), 5, "the servers' setting is an upper bound");
        assert_eq!(after(Some(1), Some(3600), 60), 1);
        assert_eq!(after(Some(3600), Some(1), 60), 3600, "the schedule's own setting counts alone");
    }
}
