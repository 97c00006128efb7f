//! What a spec means: its planned times, one after the other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_recurrence::{
    Calendar, Calendars, GapPolicy, Note, Occurrence, Occurrences, OnClosedDay, Rule, Schedule, ScheduleError,
};

use crate::schedule::ledger::{Marks, Verdict};
use crate::schedule::spec::ScheduleSpec;
use crate::time::{Span, Timestamp};

/// Why a spec means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{0}")]
    When(#[from] ScheduleError),
    #[error("there is no calendar `{0}`")]
    NoCalendar(String),
    #[error("the stored spec cannot be read: {0}")]
    Unreadable(String),
}

/// All schedules with one spec share one plan. Where their names matter, for hashed slots and for jitter, it takes the
/// seed of the name each time: a million schedules `H H * * *` cost one plan.
#[derive(Debug)]
pub struct Plan {
    pub spec: ScheduleSpec,
    fires: Schedule,
    /// The schedule without calendars and gaps; `None` if they remove nothing.
    planned: Option<Schedule>,
    jitter: Span,
    is_hashed: bool,
}

/// A planned time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    pub at: Timestamp,
    /// `at` and its jitter.
    pub slot: Timestamp,
    pub marks: Marks,
    /// How many planned times fall on this instant.
    pub count: u32,
    /// Why the time does not fire, if it does not.
    pub unfired: Option<Unfired>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfired {
    Calendar,
    Gap,
}

impl Unfired {
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Calendar => Verdict::SkippedCalendar,
            Self::Gap => Verdict::SkippedGap,
        }
    }
}

impl Plan {
    /// Compiles a spec and checks what it means for the schedule whose name has this seed.
    pub fn new(spec: ScheduleSpec, calendars: &BTreeMap<String, Arc<Calendar>>, seed: u64) -> Result<Self, PlanError> {
        let plan = Self::shared(spec, calendars)?;
        plan.check(seed)?;
        Ok(plan)
    }

    /// Compiles a spec for any schedule that has it.
    pub fn shared(spec: ScheduleSpec, calendars: &BTreeMap<String, Arc<Calendar>>) -> Result<Self, PlanError> {
        let find = |names: &[String]| {
            let found = names
                .iter()
                .map(|name| calendars.get(name).cloned().ok_or_else(|| PlanError::NoCalendar(name.clone())));
            found.collect::<Result<Vec<Arc<Calendar>>, _>>()
        };
        let calendars = Calendars {
            exclude: find(&spec.calendars.exclude)?,
            include: find(&spec.calendars.include)?,
            on_closed_day: spec.calendars.on_closed_day,
        };
        let takes_days = calendars.on_closed_day == OnClosedDay::Skip && !calendars.is_empty();
        let takes_gaps = spec.when.gap == GapPolicy::Skip;
        let mut when = spec.when.clone();
        let jitter = when.jitter.take().map_or(0, |window| i64::try_from(window.as_micros()).unwrap_or(i64::MAX));
        check_jitter(&spec)?;
        let fires =
            Schedule::shared(punctual_recurrence::ScheduleSpec { calendars: calendars.clone(), ..when.clone() })?;
        let planned = (takes_days || takes_gaps).then(|| {
            let calendars = if takes_days { Calendars::default() } else { calendars };
            Schedule::shared(punctual_recurrence::ScheduleSpec { calendars, gap: GapPolicy::Shift, ..when })
        });
        let is_hashed = fires.is_hashed();
        Ok(Self { fires, planned: planned.transpose()?, jitter: Span::from_micros(jitter), is_hashed, spec })
    }

    /// Whether the slots that a name chooses leave every rule a date: `0 0 H(29-30) 2 *` fires for some names alone.
    pub fn check(&self, seed: u64) -> Result<(), PlanError> {
        if self.is_hashed { Ok(self.schedule(seed).check_slots()?) } else { Ok(()) }
    }

    /// The plan of a spec that has no meaning any more, such as one whose calendar is gone: it never fires, and can be
    /// replaced.
    pub fn never() -> Self {
        let past = Rule::Once(jiff::Timestamp::UNIX_EPOCH);
        let spec = ScheduleSpec::new(punctual_recurrence::ScheduleSpec::new(past, "UTC"));
        Self::new(spec, &BTreeMap::new(), 0).expect("an instant in UTC needs no zone and no calendar")
    }

    /// Reads a stored spec.
    pub fn read(text: &str, calendars: &BTreeMap<String, Arc<Calendar>>, seed: u64) -> Result<Self, PlanError> {
        let plan = Self::read_shared(text, calendars)?;
        plan.check(seed)?;
        Ok(plan)
    }

    /// Reads a spec for any schedule that has it.
    pub fn read_shared(text: &str, calendars: &BTreeMap<String, Arc<Calendar>>) -> Result<Self, PlanError> {
        let spec = serde_json::from_str(text).map_err(|error| PlanError::Unreadable(error.to_string()))?;
        Self::shared(spec, calendars)
    }

    /// What fires for the name with this seed, for sentences and previews.
    pub fn schedule(&self, seed: u64) -> Cow<'_, Schedule> {
        if self.is_hashed { Cow::Owned(self.fires.with_key(key(seed))) } else { Cow::Borrowed(&self.fires) }
    }

    pub fn zone(&self) -> &jiff::tz::TimeZone {
        self.fires.zone()
    }

    /// The times that fire later than `after`, for the name with this seed.
    pub fn fires_after(&self, after: Timestamp, seed: u64) -> Occurrences<'_> {
        self.walk(&self.fires, after, seed)
    }

    fn walk<'a>(&self, schedule: &'a Schedule, after: Timestamp, seed: u64) -> Occurrences<'a> {
        let after = to_jiff(after);
        if self.is_hashed { schedule.with_key(key(seed)).into_after(after) } else { schedule.after(after) }
    }

    pub fn jitter(&self) -> Span {
        self.jitter
    }

    /// When an instant's run is to start.
    pub fn slot(&self, at: Timestamp, seed: u64) -> Timestamp {
        match self.jitter.as_micros() {
            0 => at,
            window => {
                let delay = punctual_recurrence::delay_us(seed, at.as_micros(), window.unsigned_abs());
                at + Span::from_micros(delay as i64)
            }
        }
    }

    /// The occurrence at this instant of the schedule without calendars and gaps. `None` if they remove nothing, or if
    /// nothing is planned for the instant.
    pub(super) fn planned_at(&self, at: Timestamp, seed: u64) -> Option<(Cow<'_, Schedule>, Occurrence)> {
        let planned = self.planned.as_ref()?;
        let occurrence = self.walk(planned, at - Span::from_micros(1), seed).next()?;
        let schedule = if self.is_hashed { Cow::Owned(planned.with_key(key(seed))) } else { Cow::Borrowed(planned) };
        (occurrence.at == to_jiff(at)).then_some((schedule, occurrence))
    }

    /// The first planned time later than `after`, before jitter.
    pub fn next_after(&self, after: Timestamp, seed: u64) -> Option<Planned> {
        self.times_after(after, seed).next()
    }

    /// All of them, the earliest first.
    pub fn times_after(&self, after: Timestamp, seed: u64) -> impl Iterator<Item = Planned> {
        let mut fires = self.fires_after(after, seed).peekable();
        let mut planned = self.planned.as_ref().map(|planned| self.walk(planned, after, seed));
        std::iter::from_fn(move || {
            let Some(planned) = &mut planned else {
                return fires.next().and_then(|occurrence| self.fired(&occurrence, seed));
            };
            let next = planned.next()?;
            if let Some(fired) = fires.next_if(|fired| fired.at <= next.at) {
                return self.fired(&fired, seed);
            }
            let is_gap = self.spec.when.gap == GapPolicy::Skip && next.note == Note::ShiftedByGap;
            let unfired = if is_gap { Unfired::Gap } else { Unfired::Calendar };
            self.fired(&next, seed).map(|planned| Planned { unfired: Some(unfired), ..planned })
        })
    }

    fn fired(&self, occurrence: &Occurrence, seed: u64) -> Option<Planned> {
        let at = Timestamp::from_micros(occurrence.at.as_microsecond())?;
        let marks = match occurrence.note {
            Note::None => Marks::NONE,
            Note::ShiftedByGap => Marks::SHIFTED,
            Note::FirstOfFold => Marks::FIRST_OF_FOLD,
            Note::SecondOfFold => Marks::SECOND_OF_FOLD,
        };
        Some(Planned {
            at,
            slot: self.slot(at, seed),
            marks: marks.with_if(Marks::MOVED, occurrence.adjusted_from.is_some()),
            count: occurrence.merged_count.saturating_add(1),
            unfired: None,
        })
    }
}

/// What hashed slots are drawn by. Stored schedules keep their slots, so this never changes.
fn key(seed: u64) -> String {
    format!("{seed:016x}")
}

fn check_jitter(spec: &ScheduleSpec) -> Result<(), PlanError> {
    // The window is taken out of what the plan is made of, so that plans can be shared; it is checked all the same.
    let Some(window) = spec.when.jitter else { return Ok(()) };
    let range = jiff::SignedDuration::from_millis(1)..=jiff::SignedDuration::from_hours(24);
    if range.contains(&window) { Ok(()) } else { Err(ScheduleError::JitterOutOfRange { window }.into()) }
}

pub(super) fn to_jiff(at: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(at.as_micros()).expect("our times are within jiff's")
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
