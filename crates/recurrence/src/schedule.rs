//! A schedule: checked once when it is created, asked for its occurrences ever after.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::calendar::OpenDays;
use crate::compiled::{CompiledRule, Policies};
use crate::error::ScheduleError;
use crate::occurrence::Occurrence;
use crate::rule::{RULES_MAX, Rule, ScheduleSpec};
use crate::search::Occurrences;

/// A key is hashed for each occurrence that has jitter.
pub const KEY_BYTES_MAX: usize = 1024;

/// A checked schedule. Two schedules of the same specification and key have the same occurrences, always.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(crate) key: Box<str>,
    /// The rules, with the slots that the key has chosen.
    pub(crate) rules: Arc<[CompiledRule]>,
    pub(crate) frame: Arc<Frame>,
}

/// What schedules of one specification share, whatever their keys.
#[derive(Debug)]
pub(crate) struct Frame {
    spec: ScheduleSpec,
    pub(crate) zone: TimeZone,
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

    /// Compiles a schedule like [`Schedule::new`], with the zones of another database.
    pub fn with_database(spec: ScheduleSpec, key: &str, database: &TimeZoneDatabase) -> Result<Self, ScheduleError> {
        check_key(key)?;
        let schedule = Self::keyless(spec, database)?.with_key(key);
        schedule.check_slots()?;
        Ok(schedule)
    }

    /// One for many keys: it checks all that no key has a say in, and [`Schedule::with_key`] does the rest.
    pub fn shared(spec: ScheduleSpec) -> Result<Self, ScheduleError> {
        Self::keyless(spec, jiff::tz::db())
    }

    fn keyless(spec: ScheduleSpec, database: &TimeZoneDatabase) -> Result<Self, ScheduleError> {
        check_sizes(&spec)?;
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
            .map(|(index, rule)| CompiledRule::new(index + 1, rule, &spec, ""))
            .collect::<Result<_, _>>()?;
        let open_days = OpenDays::new(&spec.calendars);
        let frame = Frame {
            zone,
            policies: Policies { gap: spec.gap, fold: spec.fold, open_days },
            start_us: spec.start_at.map_or(i64::MIN, ceil_microsecond),
            end_us: spec.end_at.map_or(i64::MAX, ceil_microsecond),
            jitter_us: spec.jitter.map(|window| window.as_micros() as i64),
            spec,
        };
        Ok(Self { key: "".into(), rules, frame: Arc::new(frame) })
    }

    /// This schedule with another key. It is cheap, because both share everything but the slots that keys choose. A key
    /// may choose slots that no date has; see [`Schedule::check_slots`].
    pub fn with_key(&self, key: impl Into<Box<str>>) -> Self {
        let key = key.into();
        let rules = if self.is_hashed() {
            let rules = self.spec().rules.iter().zip(&*self.rules).map(|(rule, compiled)| match rule {
                Rule::Cron(expr) if expr.is_hashed() => CompiledRule::cron(expr, &key),
                Rule::Cron(_) | Rule::Daily { .. } | Rule::Interval { .. } | Rule::Once(_) => compiled.clone(),
            });
            rules.collect()
        } else {
            Arc::clone(&self.rules)
        };
        Self { key, rules, frame: Arc::clone(&self.frame) }
    }

    /// Whether its key has a say in when it fires, jitter aside.
    pub fn is_hashed(&self) -> bool {
        self.spec().rules.iter().any(Rule::is_hashed)
    }

    /// Whether the slots that the key has chosen leave every rule a date on which it fires.
    pub fn check_slots(&self) -> Result<(), ScheduleError> {
        for (index, (rule, compiled)) in self.spec().rules.iter().zip(&*self.rules).enumerate() {
            if let Rule::Cron(expr) = rule {
                compiled.check_dates(index + 1, expr)?;
            }
        }
        Ok(())
    }

    pub fn spec(&self) -> &ScheduleSpec {
        &self.frame.spec
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn zone(&self) -> &TimeZone {
        &self.frame.zone
    }

    /// The occurrences later than `instant`, earliest first and strictly increasing. The iterator ends when the
    /// schedule never fires again. The work for each step is bounded: see the crate's documentation.
    pub fn after(&self, instant: Timestamp) -> Occurrences<'_> {
        Occurrences::starting_at(Cow::Borrowed(self), instant.as_microsecond().saturating_add(1))
    }

    /// The occurrences after an instant, like [`Schedule::after`], of a schedule that is not needed otherwise.
    pub fn into_after(self, instant: Timestamp) -> Occurrences<'static> {
        Occurrences::starting_at(Cow::Owned(self), instant.as_microsecond().saturating_add(1))
    }

    /// The occurrences from `from` (included) to `to` (excluded).
    pub fn between(&self, from: Timestamp, to: Timestamp) -> impl Iterator<Item = Occurrence> + '_ {
        let occurrences = Occurrences::starting_at(Cow::Borrowed(self), ceil_microsecond(from));
        occurrences.take_while(move |occurrence| occurrence.at < to)
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
        Occurrences::starting_at(Cow::Borrowed(self), occurrence.at.as_microsecond()).merged_into_next(limit)
    }
}

fn check_key(key: &str) -> Result<(), ScheduleError> {
    if key.len() > KEY_BYTES_MAX {
        return Err(ScheduleError::KeyTooLong { len: key.len(), max: KEY_BYTES_MAX });
    }
    Ok(())
}

fn check_sizes(spec: &ScheduleSpec) -> Result<(), ScheduleError> {
    let count = spec.rules.len();
    if count == 0 {
        return Err(ScheduleError::NoRules);
    }
    if count > RULES_MAX {
        return Err(ScheduleError::TooManyRules { count, max: RULES_MAX });
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
