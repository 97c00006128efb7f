//! What is wrong with JSON that does not fit, in words of our own. The reader says it in words of Rust.

use punctual_core::time::TimeError;

use crate::FieldCode;

/// A value that does not fit its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    pub code: FieldCode,
    pub detail: String,
    /// The field that is missing, which has no place in the document.
    pub missing: Option<String>,
    /// The names that are known where an unknown one was written.
    pub known: Vec<String>,
}

/// What was sent is quoted, but not a megabyte of it.
const QUOTED_CHARS_MAX: usize = 100;
/// More names than these are looked up in the docs.
const NAMES_MAX: usize = 12;

impl Misfit {
    /// Reads what the reader says of a document that is JSON.
    pub fn read(message: &str) -> Self {
        let message = message.rfind(" at line ").map_or(message, |end| &message[..end]);
        let plain = |code, detail: String| Self { code, detail, missing: None, known: Vec::new() };
        if let Some(rest) = message.strip_prefix("unknown field `") {
            let known = names(rest);
            let detail = match &known[..] {
                [] => "there is no such field".to_owned(),
                known => format!("there is no such field; the fields are {}", listed(known)),
            };
            return Self { known, ..plain(FieldCode::UnknownField, detail) };
        }
        if let Some(name) = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
            let missing = Some(name.to_owned());
            return Self { missing, ..plain(FieldCode::Required, "is required".to_owned()) };
        }
        if let Some(rest) = message.strip_prefix("unknown variant `") {
            let written = cut(rest.split('`').next().unwrap_or_default());
            let known = names(rest);
            let detail = format!("`{written}` is not one of {}", listed(&known));
            return Self { known, ..plain(FieldCode::InvalidValue, detail) };
        }
        if let Some(name) = message.strip_prefix("duplicate field `").and_then(|rest| rest.split('`').next()) {
            return plain(FieldCode::InvalidValue, format!("`{}` is given more than once", cut(name)));
        }
        for (start, code) in [("invalid type: ", FieldCode::WrongType), ("invalid value: ", FieldCode::OutOfRange)] {
            let Some(rest) = message.strip_prefix(start) else { continue };
            let Some((found, expected)) = rest.rsplit_once(", expected ") else { continue };
            // Half of something is a number, and still no whole one.
            let is_named = code == FieldCode::WrongType && !found.starts_with("floating point");
            let found = if is_named { kind_of(found).to_owned() } else { value_of(found) };
            return plain(code, format!("must be {}, not {found}", expectation(expected)));
        }
        if message.starts_with("invalid length ") {
            return plain(FieldCode::WrongType, "has the wrong number of elements".to_owned());
        }
        // Others are written in full, and need no more than a word.
        const MEANINGS: [(&str, FieldCode, &str); 12] = [
            ("expected value", FieldCode::WrongType, "is not of a form that is known here"),
            ("data did not match any variant", FieldCode::WrongType, "is not of a form that is known here"),
            ("number out of range", FieldCode::OutOfRange, "is a number out of range"),
            ("recursion limit exceeded", FieldCode::TooLong, "is nested too deeply"),
            ("invalid unicode code point", FieldCode::InvalidValue, "is not valid UTF-8"),
            ("lone leading surrogate", FieldCode::InvalidValue, "has half a character in an escape"),
            ("unexpected end of hex escape", FieldCode::InvalidValue, "has half a character in an escape"),
            ("invalid digit found", FieldCode::WrongType, "must be a whole number"),
            ("cannot parse integer", FieldCode::WrongType, "must be a whole number"),
            ("number too large", FieldCode::OutOfRange, "is too large"),
            ("number too small", FieldCode::OutOfRange, "is too small"),
            ("provided string was not", FieldCode::WrongType, "must be true or false"),
        ];
        if let Some((_, code, detail)) = MEANINGS.iter().find(|(start, ..)| message.starts_with(start)) {
            return plain(*code, (*detail).to_owned());
        }
        // A sentence of our own.
        let code = if is_range(message) { FieldCode::OutOfRange } else { FieldCode::InvalidValue };
        plain(code, message.chars().take(3 * QUOTED_CHARS_MAX).collect())
    }

    /// The known name that was probably meant by this one.
    pub fn near(&self, written: &str) -> Option<&str> {
        let distances = self.known.iter().map(|known| (strsim::damerau_levenshtein(written, known), known));
        let (_, near) = distances.filter(|(distance, known)| *distance <= known.len() / 3).min()?;
        Some(near)
    }
}

/// Whether a sentence of our own says that a value is too small or too large.
fn is_range(message: &str) -> bool {
    let times = [TimeError::OutOfRange, TimeError::DurationOutOfRange];
    times.iter().any(|error| message == error.to_string())
}

/// Where a document stops being JSON.
pub fn not_json(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    if error.is_eof() {
        return format!("it ends too early, at line {line}, column {column}");
    }
    format!("there is a mistake at line {line}, column {column}")
}

/// The names in `a`, expected one of `b`, `c``.
fn names(rest: &str) -> Vec<String> {
    rest.split('`').skip(2).step_by(2).map(str::to_owned).collect()
}

fn listed(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMES_MAX);
    let shown = names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// What kind of JSON was found.
fn kind_of(found: &str) -> &'static str {
    let starts = |start: &str| found.starts_with(start);
    if starts("unit variant") {
        "a word alone"
    } else if starts("string") || starts("character") {
        "a string"
    } else if starts("integer") || starts("floating point") || starts("number") {
        "a number"
    } else if starts("boolean") {
        "true or false"
    } else if starts("null") || starts("unit") || starts("Option") {
        "null"
    } else if starts("sequence") {
        "an array"
    } else {
        "an object"
    }
}

/// The value that was found, as it was written.
fn value_of(found: &str) -> String {
    let quoted = found.split_once('`').map(|(_, rest)| rest.trim_end_matches('`'));
    let text = found.split_once('"').map(|(_, rest)| rest.trim_end_matches('"'));
    cut(quoted.or(text).unwrap_or_else(|| kind_of(found)))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What a field holds, for people who do not write Rust.
fn expectation(expected: &str) -> String {
    const TYPES: [(&str, &str); 15] = [
        ("u8", "a whole number from 0 to 255"),
        ("u16", "a whole number from 0 to 65535"),
        ("u32", "a whole number from 0 to 4294967295"),
        ("u64", "a whole number of at least 0"),
        ("usize", "a whole number of at least 0"),
        ("i16", "a whole number from -32768 to 32767"),
        ("i32", "a whole number from -2147483648 to 2147483647"),
        ("i64", "a whole number of 64 bits"),
        ("f64", "a number"),
        ("a string", "a string"),
        ("a borrowed string", "a string"),
        ("a boolean", "true or false"),
        ("a sequence", "an array"),
        ("a map", "an object"),
        ("string or map", "a string or an object"),
    ];
    if let Some((_, words)) = TYPES.iter().find(|(name, _)| *name == expected) {
        return (*words).to_owned();
    }
    if expected.starts_with("struct ") || expected.starts_with("internally tagged") || expected.starts_with("enum ") {
        return "an object".to_owned();
    }
    if expected.starts_with("map with a single key") || expected.contains("newtype variant") {
        return "an object with one member".to_owned();
    }
    if expected.starts_with("variant ") || expected.starts_with("unit variant") {
        return "one of its words".to_owned();
    }
    expected.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, code: FieldCode, detail: &str) {
        let misfit = Misfit::read(message);
        assert_eq!((misfit.code, misfit.detail.as_str()), (code, detail), "{message}");
    }

    #[test]
    fn messages_of_the_reader_become_sentences() {
        use FieldCode::{InvalidValue, OutOfRange, Required, UnknownField, WrongType};
        for (message, code, detail) in [
            (
                "invalid value: integer `-1`, expected u32 at line 1 column 5",
                OutOfRange,
                "must be a whole number from 0 to 4294967295, not -1",
            ),
            (
                "invalid type: string \"a, expected b\", expected u8",
                WrongType,
                "must be a whole number from 0 to 255, not a string",
            ),
            ("invalid type: map, expected a string", WrongType, "must be a string, not an object"),
            ("invalid type: null, expected struct TaskSpec", WrongType, "must be an object, not null"),
            (
                "invalid type: integer `5`, expected a duration, such as \"30s\"",
                WrongType,
                "must be a duration, such as \"30s\", not a number",
            ),
            ("unknown field `a`, expected `b`", UnknownField, "there is no such field; the fields are b"),
            ("unknown field `a`, there are no fields", UnknownField, "there is no such field"),
            (
                "unknown variant `x`, expected one of `a`, `b` at line 1 column 9",
                InvalidValue,
                "`x` is not one of a, b",
            ),
            ("missing field `run`", Required, "is required"),
            ("duplicate field `run`", InvalidValue, "`run` is given more than once"),
            (
                "the duration must be between 0 and 3650 days at line 1 column 9",
                OutOfRange,
                "the duration must be between 0 and 3650 days",
            ),
            (
                "invalid value: integer `300`, expected a whole number from -100 to 100",
                OutOfRange,
                "must be a whole number from -100 to 100, not 300",
            ),
            (
                "`soon` is not a duration, such as 30s, 20m or 1h30m",
                InvalidValue,
                "`soon` is not a duration, such as 30s, 20m or 1h30m",
            ),
        ] {
            check(message, code, detail);
        }
        assert_eq!(Misfit::read("missing field `run`").missing.as_deref(), Some("run"));
        let unknown = Misfit::read("unknown field `overlaps`, expected one of `overlap`, `cron`");
        assert_eq!((unknown.near("overlaps"), unknown.near("nonsense")), (Some("overlap"), None));
    }

    #[test]
    fn what_is_no_json_has_a_place() {
        let said = |text: &str| not_json(&serde_json::from_str::<serde_json::Value>(text).unwrap_err());
        assert_eq!(said("{\"a\": 1,}"), "there is a mistake at line 1, column 9");
        assert_eq!(said("{\"a\": "), "it ends too early, at line 1, column 6");
    }
}
