//! The ledger: what became of each planned time.

use serde::{Deserialize, Serialize};

use crate::id::{JobId, ScheduleId};
use crate::time::Timestamp;

/// What was decided about a planned time. Numbers are those in stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Verdict {
    /// A job was made for it.
    Fired = 1,
    /// The time waits for the previous run to end.
    Queued = 2,
    /// A run before it had not ended.
    SkippedOverlap = 3,
    SkippedPaused = 4,
    /// A calendar closes its date.
    SkippedCalendar = 5,
    /// The clocks left it out, and the schedule says to skip such times.
    SkippedGap = 6,
    /// Somebody asked to skip it, or emptied the queue or deleted the schedule while it waited.
    SkippedByRequest = 7,
    /// No server handled it in time, and the schedule's catch-up rule does not run it.
    Missed = 8,
    /// The time waited for the previous run, and by then the schedule had run as often as `max_runs` allows.
    SkippedMaxRuns = 9,
}

impl Verdict {
    pub const ALL: [Self; 9] = [
        Self::Fired,
        Self::Queued,
        Self::SkippedOverlap,
        Self::SkippedPaused,
        Self::SkippedCalendar,
        Self::SkippedGap,
        Self::SkippedByRequest,
        Self::Missed,
        Self::SkippedMaxRuns,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fired => "fired",
            Self::Queued => "queued",
            Self::SkippedOverlap => "skipped_overlap",
            Self::SkippedPaused => "skipped_paused",
            Self::SkippedCalendar => "skipped_calendar",
            Self::SkippedGap => "skipped_gap",
            Self::SkippedByRequest => "skipped_by_request",
            Self::Missed => "missed",
            Self::SkippedMaxRuns => "skipped_max_runs",
        }
    }

    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| i64::from(*verdict as u8) == number)
    }
}

/// What else is to be said of an occurrence. Bits are those in stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Marks(pub u16);

impl Marks {
    pub const NONE: Self = Self(0);
    /// The clocks left its time out: it came right after the gap.
    pub const SHIFTED: Self = Self(1);
    /// The wall clock showed its time a second time later.
    pub const FIRST_OF_FOLD: Self = Self(1 << 1);
    /// The wall clock had shown its time before.
    pub const SECOND_OF_FOLD: Self = Self(1 << 2);
    /// A calendar moved it to a business day.
    pub const MOVED: Self = Self(1 << 3);
    /// The time was missed and run afterwards.
    pub const REPLAYED: Self = Self(1 << 4);
    /// The run was not planned: somebody requested it.
    pub const MANUAL: Self = Self(1 << 5);
    /// The run started later than the schedule allows.
    pub const LATE: Self = Self(1 << 6);
    /// The row stands for `count` times from `at` on, too many to have a row each.
    pub const STRETCH: Self = Self(1 << 7);
    /// The request for this run asked to cancel the previous run, whatever the schedule's overlap policy says.
    pub const CANCELS_PREVIOUS: Self = Self(1 << 8);

    pub const fn has(self, mark: Self) -> bool {
        self.0 & mark.0 == mark.0
    }

    #[must_use]
    pub const fn with(self, mark: Self) -> Self {
        Self(self.0 | mark.0)
    }

    #[must_use]
    pub const fn with_if(self, mark: Self, condition: bool) -> Self {
        if condition { self.with(mark) } else { self }
    }
}

/// One planned time and its verdict. There is one row for a schedule and an instant, for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccurrenceRow {
    pub schedule: ScheduleId,
    /// The instant that was planned, before jitter.
    pub at: Timestamp,
    /// When it was to start: `at` and its jitter.
    pub slot: Timestamp,
    pub verdict: Verdict,
    pub decided_at: Timestamp,
    pub marks: Marks,
    /// How many planned times it stands for: more than one where the clocks or a calendar brought
    /// several to one instant, and for a stretch.
    pub count: u32,
    /// The job that was made.
    pub job: Option<JobId>,
    /// When that started first, if it was more than a second after `slot`.
    pub started_at: Option<Timestamp>,
    /// What else there is to say, for people.
    pub reason: Option<String>,
    /// Who asked for it, if it was not planned.
    pub requested_by: Option<String>,
}
