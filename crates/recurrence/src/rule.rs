//! What a schedule is made of: rules, policies for clock changes, bounds. Plain data, as it is stored and sent.

use std::ops::RangeInclusive;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::calendar::Calendars;
use crate::cron::{CronExpr, ParsedRule, parse};
use crate::error::ParseError;

/// Each rule is looked at for each occurrence; more belong into several schedules.
pub const RULES_MAX: usize = 32;

/// Ten years are as good as never. The longest time that can be written elsewhere, too.
pub(crate) const INTERVAL_MAX: SignedDuration = SignedDuration::from_secs(3650 * 86_400);

/// Below a second the work of firing outweighs the work fired. The upper end is that of stored schedules, which stay as they
/// are: `@every` once took a little more than [`INTERVAL_MAX`].
pub(crate) const INTERVAL_RANGE: RangeInclusive<SignedDuration> =
    SignedDuration::from_secs(1)..=SignedDuration::from_secs(3660 * 86_400);

/// When a schedule fires. A schedule of several rules fires when any of them does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    Cron(CronExpr),
    /// Every day at this time, a fixed time of day as in `minute hour * * *`.
    Daily {
        hour: u8,
        minute: u8,
        #[serde(default)]
        second: u8,
    },
    /// Again and again after `every`, in real time. One occurrence falls on `anchor`; without it, on the schedule's
    /// `start_at`, or else on 1970-01-01T00:00:00Z, so that a restart never moves the beat.
    Interval {
        every: SignedDuration,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        anchor: Option<Timestamp>,
    },
    /// A single instant, to the microsecond.
    Once(Timestamp),
}

impl Rule {
    /// Whether a schedule's key has a say in when it fires.
    pub fn is_hashed(&self) -> bool {
        match self {
            Self::Cron(expression) => expression.is_hashed(),
            Self::Daily { .. } | Self::Interval { .. } | Self::Once(_) => false,
        }
    }
}

impl FromStr for Rule {
    type Err = ParseError;

    /// Reads a cron expression, a name such as `@daily`, or `@every 90s`, which is an interval.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Ok(match parse(text)? {
            ParsedRule::Cron(expr) => Self::Cron(expr),
            ParsedRule::Every(every) => Self::Interval { every, anchor: None },
        })
    }
}

/// What becomes of a fixed time that a forward clock change leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapPolicy {
    /// The rule fires at the first instant after the gap, once for all times of the same gap.
    #[default]
    Shift,
    /// The rule does not fire.
    Skip,
}

/// What becomes of a fixed time that a backward clock change repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FoldPolicy {
    #[default]
    First,
    Last,
    Both,
}

/// Everything that says when a schedule fires, but for its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// 1 to [`RULES_MAX`].
    pub rules: Vec<Rule>,
    /// An IANA name such as `Europe/Berlin`.
    pub zone: String,
    /// The first instant at which it may fire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// The first instant at which it fires no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<Timestamp>,
    #[serde(default)]
    pub gap: GapPolicy,
    #[serde(default)]
    pub fold: FoldPolicy,
    /// Delays each occurrence by a stable amount from 0 up to, and without, this window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<SignedDuration>,
    #[serde(default, skip_serializing_if = "Calendars::is_empty")]
    pub calendars: Calendars,
}

impl ScheduleSpec {
    /// One rule, with every other setting at its default.
    pub fn new(rule: Rule, zone: impl Into<String>) -> Self {
        Self {
            rules: vec![rule],
            zone: zone.into(),
            start_at: None,
            end_at: None,
            gap: GapPolicy::default(),
            fold: FoldPolicy::default(),
            jitter: None,
            calendars: Calendars::default(),
        }
    }
}
