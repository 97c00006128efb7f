//! What is stored of a schedule's rules.

use punctual_recurrence::OnClosedDay;
use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Times that wait for the run before them, at most. Later ones are skipped: whoever is a
/// thousand runs behind will not catch up by waiting.
pub const OVERLAP_QUEUE_MAX: usize = 1000;

/// Missed times that are run after all, at most.
pub const CATCH_UP_MAX: u32 = 10_000;

pub const PAUSE_AFTER_MAX: u16 = 1000;

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
        }
    }

    /// Whether the owner has to know which of its jobs have not ended.
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

/// What becomes of times that nobody was there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatchUp {
    pub mode: CatchUpMode,
    /// No more than so many, the latest ones.
    pub max: u32,
    /// None that is older.
    pub window: Span,
    /// How many are started in a minute.
    pub per_minute: u32,
}

impl Default for CatchUp {
    fn default() -> Self {
        Self { mode: CatchUpMode::Last, max: 100, window: Span::from_secs(86_400), per_minute: 60 }
    }
}

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
