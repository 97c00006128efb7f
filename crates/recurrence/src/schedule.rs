//! A schedule: checked once when it is created, asked for its occurrences ever after.

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::calendar::OpenDays;
use crate::compiled::{CompiledRule, Policies};
use crate::error::ScheduleError;
use crate::occurrence::Occurrence;
use crate::rule::{RULES_MAX, ScheduleSpec};
use crate::search::Occurrences;

/// A key is hashed for each occurrence that has jitter.
pub const KEY_BYTES_MAX: usize = 1024;

/// A checked schedule. Two schedules of the same specification and key have the same occurrences, always.
#[derive(Clone, Debug)]
pub struct Schedule {
    spec: ScheduleSpec,
    pub(crate) key: String,
    pub(crate) zone: TimeZone,
    pub(crate) rules: Vec<CompiledRule>,
    pub(crate) policies: Policies,
    pub(crate) start_us: i64,
    /// Exclusive.
    pub(crate) end_us: i64,
    pub(crate) jitter_us: Option<i64>,
}

impl Schedule {
    /// Checks a schedule. `key` names it for good: hashed slots and jitter follow from it.
    pub fn new(spec: ScheduleSpec, key: &str) -> Result<Self, ScheduleError> {
        Self::with_database(spec, key, jiff::tz::db())
    }

    /// As [`Schedule::new`], with the zones of another database.
    pub fn with_database(spec: ScheduleSpec, key: &str, database: &TimeZoneDatabase) -> Result<Self, ScheduleError> {
        check_sizes(&spec, key)?;
        let zone = database.get(&spec.zone).ok().filter(|zone| !zone.is_unknown());
        let zone = zone.ok_or_else(|| ScheduleError::UnknownZone { zone: spec.zone.chars().take(64).collect() })?;
        if let (Some(start_at), Some(end_at)) = (spec.start_at, spec.end_at)
            && end_at <= start_at
        {
            return Err(ScheduleError::EmptyWindow { start_at, end_at });
        }
        let rules = spec
            .rules
            .iter()
            .enumerate()
            .map(|(index, rule)| CompiledRule::new(index + 1, rule, &spec, key))
            .collect::<Result<_, _>>()?;
        let open_days = OpenDays::new(&spec.calendars);
        Ok(Self {
            key: key.to_owned(),
            zone,
            rules,
            policies: Policies { gap: spec.gap, fold: spec.fold, open_days },
            start_us: spec.start_at.map_or(i64::MIN, ceil_microsecond),
            end_us: spec.end_at.map_or(i64::MAX, ceil_microsecond),
            jitter_us: spec.jitter.map(|window| window.as_micros() as i64),
            spec,
        })
    }

    pub fn spec(&self) -> &ScheduleSpec {
        &self.spec
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The occurrences later than `instant`, earliest first and strictly increasing. The iterator ends when the
    /// schedule never fires again. The work for each step is bounded: see the crate's documentation.
    pub fn after(&self, instant: Timestamp) -> Occurrences<'_> {
        Occurrences::starting_at(self, instant.as_microsecond().saturating_add(1))
    }

    /// The occurrences from `from` (included) to `to` (excluded).
    pub fn between(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Occurrence> + '_ {
        Occurrences::starting_at(self, ceil_microsecond(from)).take_while(move |occurrence| occurrence.at < to)
    }

    /// The next `count` occurrences later than `instant`, or fewer if there are no more.
    pub fn next_n(&self, instant: Timestamp, count: usize) -> Vec<Occurrence> {
        self.after(instant).take(count).collect()
    }

    /// The planned times that do not fire on their own because they are merged into this occurrence, at most `limit`
    /// of its [`Occurrence::merged_count`]. Times that a calendar moved appear as they were planned, before the move.
    pub fn merged_into(&self, occurrence: &Occurrence, limit: usize) -> Vec<DateTime> {
        if occurrence.merged_count == 0 {
            return Vec::new();
        }
        Occurrences::starting_at(self, occurrence.at.as_microsecond()).merged_into_next(limit)
    }
}

fn check_sizes(spec: &ScheduleSpec, key: &str) -> Result<(), ScheduleError> {
    let count = spec.rules.len();
    if count == 0 {
        return Err(ScheduleError::NoRules);
    }
    if count > RULES_MAX {
        return Err(ScheduleError::TooManyRules { count, max: RULES_MAX });
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(ScheduleError::KeyTooLong { len: key.len(), max: KEY_BYTES_MAX });
    }
    spec.calendars.check_sizes()?;
    let jitter_range = SignedDuration::from_millis(1)..=SignedDuration::from_hours(24);
    match spec.jitter {
        Some(window) if !jitter_range.contains(&window) => Err(ScheduleError::JitterOutOfRange { window }),
        Some(_) | None => Ok(()),
    }
}

/// The first whole microsecond at or after an instant.
fn ceil_microsecond(instant: Timestamp) -> i64 {
    let floor = instant.as_nanosecond().div_euclid(1000) as i64;
    floor + i64::from(instant.as_nanosecond().rem_euclid(1000) > 0)
}
