//! What the search answers with.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde::{Deserialize, Serialize};

/// One firing of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// When it fires, without jitter. No two occurrences of a schedule share it.
    pub at: Timestamp,
    /// The date and time on the wall clock that was meant. It differs from the wall clock at `at` after a shift.
    pub nominal: DateTime,
    /// The zone's offset from UTC at `at`.
    #[serde(with = "offset_seconds")]
    pub offset: Offset,
    /// What a clock change has to do with it.
    pub note: Note,
    /// How many other planned times of the schedule fall on the same instant, through a gap or a move to a business
    /// day, and therefore do not fire on their own.
    pub merged_count: u32,
    /// The date and time that was planned, where a calendar moved it to another day.
    pub adjusted_from: Option<DateTime>,
    /// `at` plus the schedule's jitter; the same as `at` without jitter.
    pub jittered_at: Timestamp,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    #[default]
    None,
    /// The nominal time does not exist on that day; it fires at the first instant after the gap.
    ShiftedByGap,
    /// The wall clock will show the nominal time a second time.
    FirstOfFold,
    /// The wall clock showed the nominal time before.
    SecondOfFold,
}

mod offset_seconds {
    use jiff::tz::Offset;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(offset: &Offset, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32(offset.seconds())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Offset, D::Error> {
        Offset::from_seconds(i32::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
