//! Query parameters: texts that stand for numbers, words and times. Whoever reads several of them collects what is wrong in
//! [`Faults`](crate::Faults), so that one answer names all of it.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use punctual_api::{FieldCode, limits};
use punctual_core::Timestamp;
use punctual_store::Order;

use crate::{AppError, Faults, Result, validate};

/// What is quoted of a word that is not known.
const QUOTED_CHARS_MAX: usize = 64;

/// A whole number in a range.
pub fn number<T>(field: &str, text: Option<&str>, range: RangeInclusive<T>) -> Result<Option<T>>
where
    T: FromStr + PartialOrd + Display,
{
    let Some(text) = text else { return Ok(None) };
    if let Some(number) = text.parse::<T>().ok().filter(|number| range.contains(number)) {
        return Ok(Some(number));
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let code = if is_number { FieldCode::OutOfRange } else { FieldCode::WrongType };
    Err(AppError::field(field, format!("must be a number from {} to {}", range.start(), range.end())).code(code))
}

/// One of some words, each with its meaning.
pub fn word<T: Copy>(field: &str, text: Option<&str>, words: &[(&str, T)]) -> Result<Option<T>> {
    let Some(text) = text else { return Ok(None) };
    if let Some((_, meaning)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(Some(*meaning));
    }
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let (last, others) = words.split_last().expect("there are words");
    Err(AppError::field(field, format!("must be {} or {last}", others.join(", "))))
}

/// Several words with commas between them; no words for none. Sorted, each once.
pub(crate) fn words<T: Copy + Ord>(
    field: &str,
    text: Option<&str>,
    all: &[T],
    as_str: fn(T) -> &'static str,
) -> Result<Vec<T>> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let (mut found, mut unknown) = (Vec::new(), Vec::new());
    for word in text.split(',').map(str::trim) {
        match all.iter().find(|meaning| as_str(**meaning) == word) {
            Some(meaning) => found.push(*meaning),
            None => unknown.push(word),
        }
    }
    if !unknown.is_empty() {
        let verb = if unknown.len() == 1 { "is not one of" } else { "are not among" };
        let shown: String = unknown.join(", ").chars().take(QUOTED_CHARS_MAX).collect();
        let known: Vec<&str> = all.iter().map(|meaning| as_str(*meaning)).collect();
        return Err(AppError::field(field, format!("{shown} {verb} {}", known.join(", "))));
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

pub fn flag(field: &str, text: Option<&str>) -> Result<Option<bool>> {
    word(field, text, &[("true", true), ("false", false)])
}

/// How many rows a page has at most.
pub fn limit(text: Option<&str>) -> Result<usize> {
    Ok(number("limit", text, 1..=limits::PAGE_LEN_MAX)?.unwrap_or(limits::PAGE_LEN_DEFAULT))
}

pub(crate) fn order(text: Option<&str>) -> Result<Order> {
    let order = word("order", text, &[("asc", Order::Ascending), ("desc", Order::Descending)])?;
    Ok(order.unwrap_or(Order::Descending))
}

pub(crate) fn time(field: &str, text: Option<&str>) -> Result<Option<Timestamp>> {
    text.map(|text| Timestamp::parse(text).map_err(|error| AppError::time(field, &error))).transpose()
}

/// Where a page begins and how long it is.
pub(crate) fn page<T>(
    limit: Option<&str>,
    cursor: Option<&str>,
    read_cursor: impl Fn(&str) -> Result<T>,
) -> Result<(usize, Option<T>)> {
    let mut faults = Faults::default();
    let limit = faults.value(self::limit(limit)).unwrap_or_default();
    let cursor = faults.value(cursor.map(read_cursor).transpose()).flatten();
    faults.finish()?;
    Ok((limit, cursor))
}

/// What the cursors of lists in order of names begin with. No name has it.
const AFTER: &str = "after:";

/// The cursor of a list in order of names.
pub(crate) fn write_name_cursor(name: &str) -> String {
    format!("{AFTER}{name}")
}

pub(crate) fn name_cursor(text: &str) -> Result<String> {
    let name = text.strip_prefix(AFTER).ok_or_else(bad_cursor)?;
    validate::name("cursor", name).map_err(|_| bad_cursor())?;
    Ok(name.to_owned())
}

pub(crate) fn bad_cursor() -> AppError {
    AppError::field("cursor", "is not one of ours").hint("pass next_cursor from the page before, unchanged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_and_one_out_of_range_differ() {
        let read = |text: &str| number("limit", Some(text), 1..=1000_u32).map_err(|error| error.errors[0].code);
        assert_eq!(read("1000").unwrap(), Some(1000));
        for text in ["0", "1001", "-1", "99999999999999999999999999"] {
            assert_eq!(read(text).unwrap_err(), FieldCode::OutOfRange, "{text}");
        }
        for text in ["", "ten", "1.5", "1e3", "0x10", "-", " 5", "1 "] {
            assert_eq!(read(text).unwrap_err(), FieldCode::WrongType, "{text}");
        }
        let refused = number("limit", Some("0"), 1..=1000_u32).unwrap_err();
        assert_eq!(refused.detail, "limit: must be a number from 1 to 1000");
    }

    #[test]
    fn a_cursor_of_names_reads_back_and_anything_else_is_refused() {
        assert_eq!(name_cursor(&write_name_cursor("nightly")).unwrap(), "nightly");
        for bad in ["", "garbage", "after:", "after:a b", "nightly"] {
            assert!(name_cursor(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn words_that_are_not_known_are_told_those_that_are() {
        assert_eq!(flag("paused", Some("true")).unwrap(), Some(true));
        assert_eq!(flag("paused", Some("yes")).unwrap_err().detail, "paused: must be true or false");
        let gone = word("gone", Some("some"), &[("none", 0), ("lost", 1), ("all", 2)]);
        assert_eq!(gone.unwrap_err().detail, "gone: must be none, lost or all");
        let letters = |text: &str| words("letter", Some(text), &['a', 'b'], |c| if c == 'a' { "a" } else { "b" });
        assert_eq!(letters("b, a,b").unwrap(), ['a', 'b']);
        assert_eq!(letters("b,c").unwrap_err().detail, "letter: c is not one of a, b");
        assert_eq!(letters("c,b, d").unwrap_err().detail, "letter: c, d are not among a, b");
    }
}
