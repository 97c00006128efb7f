//! Reads one element of a field's list, such as `MON-FRI/2`, `H(0-29)` or `15W`.

use super::field::{Field, FieldName, Term};
use crate::error::ParseError;

/// Long enough for every number an expression can need, short enough never to overflow.
const DIGITS_MAX: usize = 4;

/// The highest `n` in `L-n`: with it, only months of 31 days match, on their first day.
const DAYS_BEFORE_LAST_MAX: u16 = 30;

pub(super) fn parse_field(name: FieldName, text: &str, column: usize) -> Result<Field, ParseError> {
    let mut terms = Vec::new();
    let mut term_column = column;
    for term in text.split(',') {
        terms.push(TermParser { name }.parse(Piece { text: term, column: term_column })?);
        term_column += term.chars().count() + 1;
    }
    Ok(Field { name, terms })
}

/// A part of the expression and where it begins.
#[derive(Clone, Copy)]
struct Piece<'a> {
    text: &'a str,
    column: usize,
}

impl<'a> Piece<'a> {
    fn split(self, separator: char) -> Option<(Piece<'a>, Piece<'a>)> {
        let (left, right) = self.text.split_once(separator)?;
        let right_column = self.column + left.chars().count() + 1;
        Some((Piece { text: left, column: self.column }, Piece { text: right, column: right_column }))
    }

    fn strip_prefix(self, letter: char) -> Option<Piece<'a>> {
        let mut letters = self.text.chars();
        let first = letters.next()?;
        first.eq_ignore_ascii_case(&letter).then(|| Piece { text: letters.as_str(), column: self.column + 1 })
    }

    fn strip_suffix(self, letter: char) -> Option<Piece<'a>> {
        let mut letters = self.text.chars();
        let last = letters.next_back()?;
        last.eq_ignore_ascii_case(&letter).then_some(Piece { text: letters.as_str(), column: self.column })
    }

    fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    fn is(self, text: &str) -> bool {
        self.text.eq_ignore_ascii_case(text)
    }
}

#[derive(Clone, Copy)]
struct TermParser {
    name: FieldName,
}

impl TermParser {
    fn parse(self, term: Piece<'_>) -> Result<Term, ParseError> {
        if term.is_empty() {
            return Err(self.error(term, "a value is missing", "write a value between the commas, or drop a comma"));
        }
        if let Some(rest) = term.strip_prefix('*').or_else(|| term.strip_prefix('?')) {
            return Ok(Term::Every { step: self.optional_step(rest)?.unwrap_or(1) });
        }
        if let Some(rest) = term.strip_prefix('H') {
            return self.hashed(rest);
        }
        if let Some((low, high)) = term.split('~') {
            return self.tilde(low, high);
        }
        if self.name == FieldName::DayOfMonth
            && let Some(special) = self.special_day(term)?
        {
            return Ok(special);
        }
        if self.name == FieldName::DayOfWeek
            && let Some(special) = self.special_weekday(term)?
        {
            return Ok(special);
        }
        self.range(term)
    }

    /// `5`, `1-5`, `1-5/2`, `5/2`.
    fn range(self, term: Piece<'_>) -> Result<Term, ParseError> {
        let (values, step) = match term.split('/') {
            Some((values, step)) => (values, Some(self.step(step)?)),
            None => (term, None),
        };
        let (from, to) = match values.split('-') {
            Some((from, to)) => self.bounds(from, to)?,
            None => {
                let value = self.single_value(values)?;
                (value, if step.is_some() { self.name.highest() } else { value })
            }
        };
        if from == to {
            let value = if self.name == FieldName::DayOfWeek { from % 7 } else { from };
            return Ok(Term::Range { from: value, to: value, step: 1 });
        }
        Ok(Term::Range { from, to, step: step.unwrap_or(1) })
    }

    /// The term after an `H`.
    fn hashed(self, rest: Piece<'_>) -> Result<Term, ParseError> {
        let Some(inside) = rest.strip_prefix('(') else {
            let (from, to) = (self.name.lowest(), self.name.highest_hashed());
            return Ok(Term::Hashed { from, to, step: self.optional_step(rest)? });
        };
        let Some((range, after)) = inside.split(')') else {
            return Err(self.error(rest, "the bracket after H is not closed", "write it like H(0-29)"));
        };
        let Some((from, to)) = range.split('-') else {
            return Err(self.error(range, "H needs a range", "write it like H(0-29)"));
        };
        let (from, to) = self.hashed_bounds(range, self.value(from)?, self.upper_value(to)?)?;
        Ok(Term::Hashed { from, to, step: self.optional_step(after)? })
    }

    /// `low~high`, where a missing end is the field's own, as for `H`.
    fn tilde(self, low: Piece<'_>, high: Piece<'_>) -> Result<Term, ParseError> {
        if high.text.contains('/') {
            return Err(self.error(high, "`~` takes no step", "write H(low-high)/step"));
        }
        let from = if low.is_empty() { self.name.lowest() } else { self.value(low)? };
        let to = if high.is_empty() { self.name.highest_hashed().max(from) } else { self.upper_value(high)? };
        let (from, to) = self.hashed_bounds(low, from, to)?;
        Ok(Term::Hashed { from, to, step: None })
    }

    /// `L`, `L-3`, `LW`, `15W`.
    fn special_day(self, term: Piece<'_>) -> Result<Option<Term>, ParseError> {
        if term.is("LW") {
            return Ok(Some(Term::LastWorkday));
        }
        if let Some(rest) = term.strip_prefix('L') {
            if rest.is_empty() {
                return Ok(Some(Term::LastDay { days_before: 0 }));
            }
            let advice = "write L for the last day, L-1 to L-30 for days before it, or LW for the last workday";
            let Some(number) = rest.strip_prefix('-') else {
                return Err(self.error(rest, format!("`{}` cannot follow L", shown(rest.text)), advice));
            };
            let days_before = self.number(number)?.filter(|days| *days <= DAYS_BEFORE_LAST_MAX);
            let Some(days_before) = days_before else {
                return Err(self.error(number, format!("`{}` days before the last", shown(number.text)), advice));
            };
            return Ok(Some(Term::LastDay { days_before: days_before as u8 }));
        }
        let Some(day) = term.strip_suffix('W') else { return Ok(None) };
        Ok(Some(Term::NearestWorkday { day: self.value(day)? }))
    }

    /// `5L`, `FRIL`, `MON#2`.
    fn special_weekday(self, term: Piece<'_>) -> Result<Option<Term>, ParseError> {
        if term.is("L") {
            return Err(self.error(
                term,
                "L needs a weekday here",
                "write FRIL for the last Friday, or SAT for Saturday",
            ));
        }
        if let Some((weekday, nth)) = term.split('#') {
            let weekday = self.value(weekday)? % 7;
            let Some(nth) = self.number(nth)?.filter(|nth| (1..=5).contains(nth)) else {
                let problem = format!("a month has no weekday number `{}`", shown(nth.text));
                return Err(self.error(nth, problem, "use #1 to #5, or FRIL for the last Friday"));
            };
            return Ok(Some(Term::NthWeekday { weekday, nth: nth as u8 }));
        }
        let Some(weekday) = term.strip_suffix('L') else { return Ok(None) };
        Ok(Some(Term::LastWeekday { weekday: self.value(weekday)? % 7 }))
    }

    /// Both ends of a range. Some crons wrap `22-2` around midnight and others never fire; saying what is meant avoids
    /// both surprises.
    fn bounds(self, from: Piece<'_>, to: Piece<'_>) -> Result<(u8, u8), ParseError> {
        let (place, from, to) = (from, self.value(from)?, self.upper_value(to)?);
        if from <= to {
            return Ok((from, to));
        }
        let (lowest, highest) = (self.name.lowest(), self.name.highest());
        let upper = if from >= highest { format!("{from}") } else { format!("{from}-{highest}") };
        let lower = if to == lowest { format!("{to}") } else { format!("{lowest}-{to}") };
        let advice = format!("write `{upper},{lower}` to go over the end, or swap its ends");
        Err(self.error(place, format!("the range {from}-{to} runs backwards"), advice))
    }

    /// Both ends of a range from which a key chooses; it cannot be written as two ranges.
    fn hashed_bounds(self, place: Piece<'_>, from: u8, to: u8) -> Result<(u8, u8), ParseError> {
        if from <= to {
            return Ok((from, to));
        }
        Err(self.error(place, format!("the range {from}-{to} runs backwards"), "swap its ends"))
    }

    /// A lone value, where Sunday is always 0.
    fn single_value(self, piece: Piece<'_>) -> Result<u8, ParseError> {
        let value = self.value(piece)?;
        Ok(if self.name == FieldName::DayOfWeek { value % 7 } else { value })
    }

    /// The end of a range, where SUN is 7, so that `MON-SUN` runs forwards.
    fn upper_value(self, piece: Piece<'_>) -> Result<u8, ParseError> {
        if self.name == FieldName::DayOfWeek && piece.is("SUN") {
            return Ok(7);
        }
        self.value(piece)
    }

    fn value(self, piece: Piece<'_>) -> Result<u8, ParseError> {
        if let Some(index) = self.name.names().iter().position(|name| piece.is(name)) {
            return Ok(index as u8 + self.name.lowest());
        }
        let in_range =
            |value: &u16| (u16::from(self.name.lowest())..=u16::from(self.name.highest_written())).contains(value);
        match self.number(piece)? {
            Some(value) if in_range(&value) => Ok(value as u8),
            Some(value) => Err(self.error(piece, format!("{value} is out of range"), self.use_allowed())),
            None if piece.is_empty() => Err(self.error(piece, "a value is missing", self.use_allowed())),
            None => {
                let problem = format!("`{}` is not a value of this field", shown(piece.text));
                Err(self.error(piece, problem, self.use_allowed()))
            }
        }
    }

    fn optional_step(self, rest: Piece<'_>) -> Result<Option<u16>, ParseError> {
        if rest.is_empty() {
            return Ok(None);
        }
        let Some(step) = rest.strip_prefix('/') else {
            let problem = format!("`{}` cannot stand here", shown(rest.text));
            return Err(self.error(rest, problem, "add a step such as /15, or a comma before another value"));
        };
        self.step(step).map(Some)
    }

    fn step(self, piece: Piece<'_>) -> Result<u16, ParseError> {
        match self.number(piece)? {
            Some(0) => Err(self.error(piece, "a step of 0 never moves on", "use a step of 1 or more")),
            Some(step) => Ok(step),
            None => {
                let problem = format!("`{}` is not a step", shown(piece.text));
                Err(self.error(piece, problem, "write a whole number after the slash, such as /15"))
            }
        }
    }

    /// A number, or `None` where there is something else.
    fn number(self, piece: Piece<'_>) -> Result<Option<u16>, ParseError> {
        if piece.is_empty() || !piece.text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        if piece.text.len() > DIGITS_MAX {
            return Err(self.error(piece, format!("`{}` is too long a number", shown(piece.text)), self.use_allowed()));
        }
        Ok(piece.text.parse().ok())
    }

    fn use_allowed(self) -> String {
        format!("use {}", self.name.allowed())
    }

    fn error(self, place: Piece<'_>, problem: impl Into<String>, advice: impl Into<String>) -> ParseError {
        ParseError::new(Some(self.name), place.column, problem, advice)
    }
}

/// The part of the input that a message repeats: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_MAX: usize = 20;
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}
