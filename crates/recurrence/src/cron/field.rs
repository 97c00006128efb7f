//! The fields of an expression as they were written, before hashed slots get their values.

use std::fmt::{self, Display};

/// Which field of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldName {
    Second,
    Minute,
    Hour,
    DayOfMonth,
    Month,
    DayOfWeek,
}

const MONTH_NAMES: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAY_NAMES: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

impl FieldName {
    pub(crate) fn lowest(self) -> u8 {
        match self {
            Self::Second | Self::Minute | Self::Hour | Self::DayOfWeek => 0,
            Self::DayOfMonth | Self::Month => 1,
        }
    }

    /// The highest value that `*` and `N/step` reach. Sunday may also be written 7; see [`Self::highest_written`].
    pub(crate) fn highest(self) -> u8 {
        match self {
            Self::Second | Self::Minute => 59,
            Self::Hour => 23,
            Self::DayOfMonth => 31,
            Self::Month => 12,
            Self::DayOfWeek => 6,
        }
    }

    pub(crate) fn highest_written(self) -> u8 {
        if self == Self::DayOfWeek { 7 } else { self.highest() }
    }

    /// The highest value that a bare `H` may choose. Every month has a 28th, so a hashed day never skips a month.
    pub(crate) fn highest_hashed(self) -> u8 {
        if self == Self::DayOfMonth { 28 } else { self.highest() }
    }

    pub(crate) fn names(self) -> &'static [&'static str] {
        match self {
            Self::Month => &MONTH_NAMES,
            Self::DayOfWeek => &WEEKDAY_NAMES,
            Self::Second | Self::Minute | Self::Hour | Self::DayOfMonth => &[],
        }
    }

    /// The name of the field for people. Hashed slots are derived from it too, so it never changes.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day-of-month",
            Self::Month => "month",
            Self::DayOfWeek => "day-of-week",
        }
    }

    /// The allowed values, for error messages.
    pub(crate) fn allowed(self) -> &'static str {
        match self {
            Self::Second | Self::Minute => "0 to 59",
            Self::Hour => "0 to 23",
            Self::DayOfMonth => "1 to 31, L, L-3, LW or 15W",
            Self::Month => "1 to 12 or JAN to DEC",
            Self::DayOfWeek => "0 to 7 (0 and 7 are Sunday), SUN to SAT, FRIL or MON#2",
        }
    }
}

impl Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One element of a field's comma-separated list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Term {
    /// `*` (step 1) or `*/step`. `?` reads the same.
    Every { step: u16 },
    /// `5` (from = to, step 1), `1-5`, `1-5/2`, and `5/2`, which runs to the field's highest value.
    Range { from: u8, to: u8, step: u16 },
    /// `H`, `H(0-29)` and `0~29`: one value chosen by the schedule's key. With a step, the key chooses where it starts.
    Hashed { from: u8, to: u8, step: Option<u16> },
    /// `L`, or `L-3`: this number of days before the last day of the month.
    LastDay { days_before: u8 },
    /// `LW`: the last day of the month from Monday to Friday.
    LastWorkday,
    /// `15W`: the day from Monday to Friday nearest to this day, in the same month.
    NearestWorkday { day: u8 },
    /// `5L`, `FRIL`: the last such weekday of the month.
    LastWeekday { weekday: u8 },
    /// `MON#2`: the second such weekday of the month.
    NthWeekday { weekday: u8, nth: u8 },
}

/// A field: at least one term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Field {
    pub(crate) name: FieldName,
    pub(crate) terms: Vec<Term>,
}

impl Field {
    pub(crate) fn every(name: FieldName) -> Self {
        Self { name, terms: vec![Term::Every { step: 1 }] }
    }

    pub(crate) fn single(name: FieldName, value: u8) -> Self {
        Self { name, terms: vec![Term::Range { from: value, to: value, step: 1 }] }
    }

    /// Whether the field begins with `*`, which is what cron calls unrestricted, even for `*/2`.
    pub(crate) fn begins_with_star(&self) -> bool {
        matches!(self.terms.first(), Some(Term::Every { .. }))
    }

    pub(crate) fn is_hashed(&self) -> bool {
        self.terms.iter().any(|term| matches!(term, Term::Hashed { .. }))
    }

    fn write_term(&self, term: Term, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match term {
            Term::Every { step: 1 } => f.write_str("*"),
            Term::Every { step } => write!(f, "*/{step}"),
            Term::Range { from, to, .. } if from == to => write!(f, "{from}"),
            Term::Range { from, to, step: 1 } => write!(f, "{from}-{to}"),
            Term::Range { from, to, step } => write!(f, "{from}-{to}/{step}"),
            Term::Hashed { from, to, step } => {
                f.write_str("H")?;
                if (from, to) != (self.name.lowest(), self.name.highest_hashed()) {
                    write!(f, "({from}-{to})")?;
                }
                step.map_or(Ok(()), |step| write!(f, "/{step}"))
            }
            Term::LastDay { days_before: 0 } => f.write_str("L"),
            Term::LastDay { days_before } => write!(f, "L-{days_before}"),
            Term::LastWorkday => f.write_str("LW"),
            Term::NearestWorkday { day } => write!(f, "{day}W"),
            Term::LastWeekday { weekday } => write!(f, "{weekday}L"),
            Term::NthWeekday { weekday, nth } => write!(f, "{weekday}#{nth}"),
        }
    }
}

impl Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, term) in self.terms.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            self.write_term(*term, f)?;
        }
        Ok(())
    }
}
