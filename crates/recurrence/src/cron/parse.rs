//! Reads a whole expression: its length, its fields, and the names that begin with `@`.

use jiff::SignedDuration;

use super::field::{Field, FieldName};
use super::term::{parse_field, shown};
use super::{CronExpr, EXPRESSION_CHARS_MAX};
use crate::error::ParseError;

/// An expression is cron fields, or `@every` and an interval.
#[derive(Debug)]
pub(crate) enum ParsedRule {
    Cron(CronExpr),
    Every(SignedDuration),
}

/// A field's text and where it begins.
#[derive(Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    column: usize,
}

const SHAPE: &str = "write `minute hour day-of-month month day-of-week`, with seconds in front if needed";

pub(crate) fn parse(text: &str) -> Result<ParsedRule, ParseError> {
    if text.chars().nth(EXPRESSION_CHARS_MAX).is_some() {
        let problem = format!("the expression is longer than {EXPRESSION_CHARS_MAX} characters");
        return Err(ParseError::new(None, EXPRESSION_CHARS_MAX + 1, problem, "split it into several rules"));
    }
    // Whoever reads it from a file has the end of its line, too.
    let tokens = tokens(text.trim_end_matches(['\r', '\n']))?;
    if let Some((first, zone)) = tokens.first().and_then(|first| Some((first, zone_of(first.text)?))) {
        let advice = format!("set the schedule's zone to `{}` and leave it out here", shown(zone));
        return Err(ParseError::new(None, first.column, "the time zone is not a part of the expression", advice));
    }
    match tokens.first() {
        None => Err(ParseError::new(None, 1, "the expression is empty", SHAPE)),
        Some(first) if first.text.starts_with('@') => named(*first, &tokens[1..]),
        Some(_) => fields(&tokens).map(ParsedRule::Cron),
    }
}

/// `CRON_TZ=Asia/Tokyo` in front of an expression, as some programs write it.
fn zone_of(text: &str) -> Option<&str> {
    let (name, zone) = text.split_once('=')?;
    ["CRON_TZ", "TZ"].iter().any(|known| name.eq_ignore_ascii_case(known)).then_some(zone)
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut tokens = Vec::new();
    let mut begin: Option<(usize, usize)> = None;
    for (index, (at, letter)) in text.char_indices().enumerate() {
        let is_blank = letter == ' ' || letter == '\t';
        if !is_blank && !letter.is_ascii_graphic() {
            let problem = format!("`{}` is not allowed in an expression", letter.escape_debug());
            return Err(ParseError::new(None, index + 1, problem, "use ASCII letters, digits and * ? , - / # ~ ( )"));
        }
        match begin {
            None if !is_blank => begin = Some((at, index + 1)),
            Some((from, column)) if is_blank => {
                tokens.push(Token { text: &text[from..at], column });
                begin = None;
            }
            None | Some(_) => {}
        }
    }
    tokens.extend(begin.map(|(from, column)| Token { text: &text[from..], column }));
    Ok(tokens)
}

fn fields(tokens: &[Token<'_>]) -> Result<CronExpr, ParseError> {
    let (expr, [day_of_month, month]) = unchecked_fields(tokens)?;
    let days_are_hashed = expr.day_of_month.is_hashed() || expr.month.is_hashed() || expr.day_of_week.is_hashed();
    if !days_are_hashed && !expr.resolve("").can_fire() {
        return Err(ParseError::new(
            Some(FieldName::DayOfMonth),
            day_of_month.column,
            format!("no year has such a date: `{}` in month `{}`", shown(day_of_month.text), shown(month.text)),
            "choose a day that the month has, such as L for its last day",
        ));
    }
    Ok(expr)
}

/// The expression, which may never fire, and the texts of its day of month and month.
fn unchecked_fields<'a>(tokens: &[Token<'a>]) -> Result<(CronExpr, [Token<'a>; 2]), ParseError> {
    let (second, rest) = match tokens {
        [_, _, _, _, _] => (None, tokens),
        [second, rest @ ..] if rest.len() == 5 => (Some(second), rest),
        [_, _, _, _, _, _, year, ..] => {
            let problem = format!("{} fields are too many", tokens.len());
            return Err(ParseError::new(
                None,
                year.column,
                problem,
                format!("{SHAPE}; for a year, set start_at and end_at"),
            ));
        }
        [.., last] => {
            let column = last.column + last.text.chars().count();
            let count = tokens.len();
            let plural = if count == 1 { "" } else { "s" };
            return Err(ParseError::new(None, column, format!("{count} field{plural} are too few"), SHAPE));
        }
        [] => return Err(ParseError::new(None, 1, "the expression is empty", SHAPE)),
    };
    let field = |name: FieldName, token: &Token<'_>| parse_field(name, token.text, token.column);
    let expr = CronExpr {
        second: second.map(|token| field(FieldName::Second, token)).transpose()?,
        minute: field(FieldName::Minute, &rest[0])?,
        hour: field(FieldName::Hour, &rest[1])?,
        day_of_month: field(FieldName::DayOfMonth, &rest[2])?,
        month: field(FieldName::Month, &rest[3])?,
        day_of_week: field(FieldName::DayOfWeek, &rest[4])?,
    };
    Ok((expr, [rest[2], rest[3]]))
}

/// Parses without the check, for tests of the check itself.
#[cfg(test)]
pub(super) fn fields_without_check(text: &str) -> CronExpr {
    unchecked_fields(&tokens(text).expect("valid")).expect("valid").0
}

fn named(name: Token<'_>, rest: &[Token<'_>]) -> Result<ParsedRule, ParseError> {
    let lower = name.text.to_ascii_lowercase();
    if lower == "@every" {
        return every(name, rest);
    }
    if let Some(extra) = rest.first() {
        let problem = format!("`{}` takes nothing after it", shown(name.text));
        return Err(ParseError::new(None, extra.column, problem, "remove what follows"));
    }
    let [minute, hour, day_of_month, month, day_of_week] = match lower.as_str() {
        "@hourly" => [Some(0), None, None, None, None],
        "@daily" | "@midnight" => [Some(0), Some(0), None, None, None],
        "@weekly" => [Some(0), Some(0), None, None, Some(0)],
        "@monthly" => [Some(0), Some(0), Some(1), None, None],
        "@yearly" | "@annually" => [Some(0), Some(0), Some(1), Some(1), None],
        "@reboot" => {
            let advice = "start the job by hand or from the service that needs it, or schedule it by time";
            return Err(ParseError::new(None, name.column, "@reboot has no time: a schedule outlives reboots", advice));
        }
        _ => {
            let problem = format!("`{}` is unknown", shown(name.text));
            let advice = "use @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or @every 90s";
            return Err(ParseError::new(None, name.column, problem, advice));
        }
    };
    let field = |name: FieldName, value: Option<u8>| match value {
        Some(value) => Field::single(name, value),
        None => Field::every(name),
    };
    Ok(ParsedRule::Cron(CronExpr {
        second: None,
        minute: field(FieldName::Minute, minute),
        hour: field(FieldName::Hour, hour),
        day_of_month: field(FieldName::DayOfMonth, day_of_month),
        month: field(FieldName::Month, month),
        day_of_week: field(FieldName::DayOfWeek, day_of_week),
    }))
}

/// `@every 90s`, `@every 1h30m`, `@every 2d`: whole numbers with d, h, m or s, largest unit first.
fn every(name: Token<'_>, rest: &[Token<'_>]) -> Result<ParsedRule, ParseError> {
    const ADVICE: &str = "write it like `@every 90s`, `@every 1h30m` or `@every 2d`, from 1s to 3650d";
    let [interval] = rest else {
        let column = rest.get(1).map_or(name.column + name.text.len(), |extra| extra.column);
        return Err(ParseError::new(None, column, "@every takes one interval", ADVICE));
    };
    let refused = |at: usize| {
        let problem = format!("`{}` is not an interval", shown(interval.text));
        ParseError::new(None, interval.column + at, problem, ADVICE)
    };
    let mut seconds: i64 = 0;
    let mut number: Option<i64> = None;
    let mut smallest_unit = i64::MAX;
    for (at, letter) in interval.text.chars().enumerate() {
        if let Some(digit) = letter.to_digit(10) {
            let longer = number.unwrap_or(0) * 10 + i64::from(digit);
            if longer > 1_000_000_000 {
                return Err(refused(at));
            }
            number = Some(longer);
            continue;
        }
        let unit = match letter.to_ascii_lowercase() {
            'd' => 86_400,
            'h' => 3_600,
            'm' => 60,
            's' => 1,
            _ => return Err(refused(at)),
        };
        let Some(count) = number.take().filter(|_| unit < smallest_unit) else { return Err(refused(at)) };
        smallest_unit = unit;
        seconds += count * unit;
    }
    let every = SignedDuration::from_secs(seconds);
    if number.is_some() || !crate::rule::INTERVAL_RANGE.contains(&every) || every > crate::rule::INTERVAL_MAX {
        return Err(refused(0));
    }
    Ok(ParsedRule::Every(every))
}
