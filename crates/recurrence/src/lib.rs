//! Answers when a schedule fires. Pure: no clock, no randomness, no I/O beyond the time zone database.
//!
//! # The model
//!
//! A [`Schedule`] has 1 to 32 [`Rule`]s, one IANA time zone, and settings that all its rules share. It fires when any
//! of its rules does; rules that mean the same instant fire it once. [`Schedule::after`] gives its [`Occurrence`]s,
//! strictly increasing.
//!
//! ```
//! use punctual_recurrence::{Rule, Schedule, ScheduleSpec};
//!
//! let rule: Rule = "30 2 * * SUN".parse()?;
//! let schedule = Schedule::new(ScheduleSpec::new(rule, "Europe/Berlin"), "nightly-report")?;
//! assert_eq!(schedule.explain(), "at 02:30, Sunday, Europe/Berlin");
//! // On this Sunday clocks go from 02:00 to 03:00.
//! let next = schedule.after("2026-03-28T12:00:00Z".parse()?).next().expect("it fires every week");
//! assert_eq!(next.at.to_string(), "2026-03-29T01:00:00Z");
//! assert_eq!(next.nominal.to_string(), "2026-03-29T02:30:00");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Expressions.** [`CronExpr`] has five fields, or six with seconds in front: `*`, `?` (the same), lists, ranges,
//! steps, names, `N/step` (from N to the field's maximum), Sunday as 0 or 7; `L`, `L-3`, `LW`, `15W` for days of the
//! month; `FRIL`, `MON#2` for weekdays; `@hourly` to `@yearly`; `@every 90s` is an interval. A field that begins with
//! `*` is unrestricted: if both day fields are restricted either may match, otherwise both must, as in Vixie cron.
//! `H`, `H(0-29)`, `H/15` and `0~29` are slots chosen by the schedule's key through SipHash-2-4, the same for ever;
//! a bare `H` as day of month stays within 1 to 28. A range that runs backwards and a date that no year has are
//! refused.
//!
//! **Clock changes.** An expression whose minute or hour field begins with `*` follows real time, as intervals do: it
//! fires whenever the wall clock shows a matching time, so it loses nothing in a gap and goes on through a fold. Every
//! other rule means fixed times of day. A fixed time that the clock leaves out fires at the first instant after the
//! gap, or not at all ([`GapPolicy`]); one that it repeats fires the first time, the last time, or both
//! ([`FoldPolicy`]). Times shifted to the same instant fire once: the occurrence is the one that is on time, or else
//! the earliest, and [`Occurrence::merged_count`] counts the others. The same code treats every change of a zone's
//! offset, from Lord Howe's half hour to the day that Samoa skipped. [`Schedule::coming_changes`] previews all this.
//!
//! **Calendars.** [`Calendars`] close dates, restrict a schedule to dates, and can move a planned day to the business
//! day before or after. Moves come first, clock changes second. [`Occurrence::nominal`] is the time after the move,
//! [`Occurrence::adjusted_from`] the time before it.
//!
//! **Bounds.** `start_at` is the first instant at which a schedule may fire, `end_at` the first at which it may not.
//! Jitter delays [`Occurrence::jittered_at`] by a stable amount within its window and leaves `at` alone. Years 1 to
//! 9999 are covered.
//!
//! **Work.** A step looks at each month at most once until it finds a day, and leaps over segments of constant offset
//! in which no rule can fire. Zones follow a yearly pattern from 2100 on, and the calendar repeats every 400 years,
//! weekdays included; so what does not fire within 400 years of both never will, and the search ends there. The worst
//! step, a rule that exists only in gaps that are skipped, thus costs a few milliseconds; usual steps cost about a
//! tenth of a microsecond.
//!
//! The module [`crontab`] imports crontabs.

mod calendar;
mod compiled;
mod cron;
pub mod crontab;
mod date;
mod error;
mod explain;
mod hash;
mod occurrence;
mod planned;
mod preview;
mod rule;
mod schedule;
mod search;
mod zone;
mod zone_data;

pub use calendar::{
    CALENDAR_DATES_MAX, CALENDAR_NAME_BYTES_MAX, CALENDARS_MAX, Calendar, Calendars, MOVE_DAYS_MAX, OnClosedDay,
};
pub use cron::{CronExpr, CronTimes, EXPRESSION_CHARS_MAX, FieldName};
pub use error::{ParseError, ScheduleError};
pub use hash::{delay_us, seed};
pub use occurrence::{Note, Occurrence};
pub use preview::{ClockChange, ClockChangeEffect, Effect, PREVIEW_EFFECTS_MAX};
pub use rule::{FoldPolicy, GapPolicy, RULES_MAX, Rule, ScheduleSpec};
pub use schedule::{KEY_BYTES_MAX, Schedule};
pub use search::Occurrences;
pub use zone::zone_refusal;
pub use zone_data::{ZoneData, ZoneDataSource};
