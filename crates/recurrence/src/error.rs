//! What can be wrong with an expression or a schedule. Each message says where the fault is and what to do about it.

use crate::cron::FieldName;

/// An expression that cannot be understood, or that could never fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The field at fault, or `None` where the expression as a whole is.
    pub field: Option<FieldName>,
    /// The first character at fault, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub advice: String,
}

impl ParseError {
    pub(crate) fn new(
        field: Option<FieldName>,
        column: usize,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { field, column, problem: problem.into(), advice: advice.into() }
    }
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.field {
            Some(field) => write!(f, "{field} field, column {}: ", self.column)?,
            None => write!(f, "column {}: ", self.column)?,
        }
        write!(f, "{}; {}", self.problem, self.advice)
    }
}

impl std::error::Error for ParseError {}

/// A schedule that cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("a schedule needs at least one rule; add one, such as the cron expression `0 9 * * *`")]
    NoRules,
    #[error("{count} rules are too many; a schedule has at most {max}, so split it into several schedules")]
    TooManyRules { count: usize, max: usize },
    #[error("`{zone}` is not a known time zone; use an IANA name such as `Europe/Berlin` or `UTC`")]
    UnknownZone { zone: String },
    #[error("end_at ({end_at}) is not after start_at ({start_at}); set a later end_at or leave it out")]
    EmptyWindow { start_at: jiff::Timestamp, end_at: jiff::Timestamp },
    #[error("rule {rule}: {hour}:{minute}:{second} is no time of day; use 0 to 23, 0 to 59 and 0 to 59")]
    NoTimeOfDay { rule: usize, hour: u8, minute: u8, second: u8 },
    #[error("rule {rule}: an interval of {every:#} is out of range; use 1s to 3650 days, in whole microseconds")]
    IntervalOutOfRange { rule: usize, every: jiff::SignedDuration },
    #[error("a jitter window of {window:#} is out of range; use 1ms to 24h, or leave it out")]
    JitterOutOfRange { window: jiff::SignedDuration },
    #[error(
        "rule {rule}: with this schedule's key, `{expression}` means a date that no year has; widen its hashed days"
    )]
    NeverFires { rule: usize, expression: String },
    #[error("the calendars hold {count} dates; {max} are the most, so drop those long past")]
    TooManyDates { count: usize, max: usize },
    #[error("{count} calendars are too many; a schedule obeys at most {max}, so join some")]
    TooManyCalendars { count: usize, max: usize },
    #[error("a calendar's name has {len} bytes; use 1 to {max}")]
    CalendarNameLength { len: usize, max: usize },
    #[error("the key has {len} bytes; {max} are the most")]
    KeyTooLong { len: usize, max: usize },
}
