//! Cron expressions: five fields, or six with seconds in front.

mod field;
mod parse;
mod term;
mod times;

use std::fmt::{self, Display};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use field::FieldName;
pub(crate) use field::{Field, Term};
pub(crate) use parse::{ParsedRule, parse};
pub use times::CronTimes;
pub(crate) use times::values;

use crate::error::ParseError;

/// More than any sensible expression needs, and little enough to read within microseconds.
pub const EXPRESSION_CHARS_MAX: usize = 256;

/// A cron expression as written. Its [`Display`] form is normalised (numbers for names, `*` for `?`, fields for
/// `@daily`) and parses to the same expression again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CronExpr {
    /// Absent in an expression of five fields, which fires at second 0.
    pub(crate) second: Option<Field>,
    pub(crate) minute: Field,
    pub(crate) hour: Field,
    pub(crate) day_of_month: Field,
    pub(crate) month: Field,
    pub(crate) day_of_week: Field,
}

impl CronExpr {
    /// Reads an expression of five or six fields or a name such as `@daily`. An expression that no date can match is
    /// refused, except where hashed slots leave that to the schedule's key.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        match parse(text)? {
            ParsedRule::Cron(expr) => Ok(expr),
            ParsedRule::Every(_) => Err(ParseError::new(
                None,
                1,
                "@every is an interval, not a cron expression",
                "give it as an interval rule",
            )),
        }
    }

    /// Whether the expression follows real time through clock changes (its minute or hour field begins with `*`),
    /// rather than meaning fixed times of day.
    pub fn follows_real_time(&self) -> bool {
        self.minute.begins_with_star() || self.hour.begins_with_star()
    }

    /// The values each field means for a schedule of this key.
    pub fn resolve(&self, key: &str) -> CronTimes {
        CronTimes::new(self, key)
    }

    /// Whether some values depend on the schedule's key.
    pub fn is_hashed(&self) -> bool {
        self.fields().any(Field::is_hashed)
    }

    fn fields(&self) -> impl Iterator<Item = &Field> {
        let others = [&self.minute, &self.hour, &self.day_of_month, &self.month, &self.day_of_week];
        self.second.iter().chain(others)
    }
}

impl Display for CronExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, field) in self.fields().enumerate() {
            if position > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{field}")?;
        }
        Ok(())
    }
}

impl FromStr for CronExpr {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for CronExpr {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl From<CronExpr> for String {
    fn from(expr: CronExpr) -> String {
        expr.to_string()
    }
}
