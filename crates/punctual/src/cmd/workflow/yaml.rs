//! Reads a definition from YAML or JSON, which is YAML. What makes YAML grow or surprises people is refused: anchors, aliases,
//! tags, repeated keys, several documents.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

/// As long as the body of a request may be.
const BYTES_MAX: usize = 1 << 20;
/// As deep as an input may be.
const DEPTH_MAX: usize = 64;

/// What is wrong, with the number of its line where there is one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadYaml(pub(crate) String);

fn bad(at: Span, what: impl std::fmt::Display) -> BadYaml {
    BadYaml(format!("line {}: {what}", at.start.line()))
}

/// A list or a mapping that has begun.
enum Open {
    List(Vec<Value>),
    Mapping { fields: Map<String, Value>, key: Option<String> },
}

pub(super) fn read(text: &str) -> Result<Value, BadYaml> {
    read_up_to(text, BYTES_MAX)
}

/// Reads what may be longer.
pub(crate) fn read_up_to(text: &str, bytes_max: usize) -> Result<Value, BadYaml> {
    if text.len() > bytes_max {
        return Err(BadYaml(format!("it has {} bytes, and may have {bytes_max}", text.len())));
    }
    let mut open: Vec<Open> = Vec::new();
    let mut document = None;
    for event in Parser::new_from_str(text) {
        let (event, at) = event.map_err(|error| not_yaml(error.marker().line(), error.info()))?;
        let value = match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => continue,
            Event::DocumentStart(_) if document.is_none() => continue,
            Event::DocumentStart(_) => return Err(bad(at, "a file has one definition, and this is another document")),
            Event::Alias(_) => return Err(bad(at, "aliases (`*name`) are not supported: write the value again")),
            Event::Scalar(text, style, anchor, tag) => {
                plain(at, anchor, tag.is_some())?;
                if let Some(Open::Mapping { key: key @ None, fields }) = open.last_mut() {
                    if fields.contains_key(text.as_ref()) {
                        return Err(bad(at, format!("`{text}` is there twice")));
                    }
                    *key = Some(text.into_owned());
                    continue;
                }
                scalar(&text, style)
            }
            Event::SequenceStart(anchor, tag) => {
                plain(at, anchor, tag.is_some())?;
                begin(&mut open, Open::List(Vec::new()), at)?;
                continue;
            }
            Event::MappingStart(anchor, tag) => {
                plain(at, anchor, tag.is_some())?;
                begin(&mut open, Open::Mapping { fields: Map::new(), key: None }, at)?;
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(list)) => Value::Array(list),
                Some(Open::Mapping { fields, .. }) => Value::Object(fields),
                None => return Err(bad(at, "something ends that has not begun")),
            },
        };
        match open.last_mut() {
            None => document = Some(value),
            Some(Open::List(list)) => list.push(value),
            Some(Open::Mapping { fields, key }) => match key.take() {
                Some(key) => drop(fields.insert(key, value)),
                None => return Err(bad(at, "a key must be a text")),
            },
        }
    }
    document.ok_or_else(|| BadYaml("it is empty".to_owned()))
}

/// The parser has a limit of its own, which lists and mappings in brackets meet before ours.
fn not_yaml(line: usize, info: &str) -> BadYaml {
    let too_deep = info.contains("recursion limit");
    let what = if too_deep { format!("it is nested more than {DEPTH_MAX} deep") } else { info.to_owned() };
    BadYaml(format!("line {line}: {what}"))
}

fn plain(at: Span, anchor: usize, has_tag: bool) -> Result<(), BadYaml> {
    match (anchor, has_tag) {
        (0, false) => Ok(()),
        (0, true) => Err(bad(at, "tags (`!name`) are not supported")),
        _ => Err(bad(at, "anchors (`&name`) are not supported")),
    }
}

fn begin(open: &mut Vec<Open>, new: Open, at: Span) -> Result<(), BadYaml> {
    if let Some(Open::Mapping { key: None, .. }) = open.last() {
        return Err(bad(at, "a key must be a text"));
    }
    if open.len() >= DEPTH_MAX {
        return Err(bad(at, format!("it is nested more than {DEPTH_MAX} deep")));
    }
    open.push(new);
    Ok(())
}

/// As the core schema of YAML 1.2 has it: `yes` and `no` are texts.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let looks_like_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.'))
        && text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E'));
    let number = looks_like_number.then(|| number(text)).flatten();
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn number(text: &str) -> Option<Number> {
    text.parse::<i64>().map(Number::from).ok().or_else(|| Number::from_f64(text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_and_json_are_read_alike() {
        let yaml =
            "nodes:\n  - name: a  # first\n    retries: 2\n  - name: 'b'\n    needs: [a]\n    on: yes\n    none: ~\n";
        let expected = json!({ "nodes": [
            { "name": "a", "retries": 2 },
            { "name": "b", "needs": ["a"], "on": "yes", "none": null },
        ] });
        assert_eq!(read(yaml), Ok(expected.clone()));
        assert_eq!(read(&expected.to_string()), Ok(expected));
    }

    #[test]
    fn scalars_are_those_of_the_core_schema() {
        for (text, value) in [
            ("1", json!(1)),
            ("-1.5", json!(-1.5)),
            ("1e3", json!(1000.0)),
            ("'1'", json!("1")),
            ("0x10", json!("0x10")),
            ("2026-12-24", json!("2026-12-24")),
            ("1.2.3", json!("1.2.3")),
            ("no", json!("no")),
            ("true", json!(true)),
            ("\"a\\nb\"", json!("a\nb")),
            ("|\n  a\n  b", json!("a\nb\n")),
        ] {
            assert_eq!(read(&format!("x: {text}\n")), Ok(json!({ "x": value })), "{text}");
        }
    }

    /// A parser that recurses overflows its stack here, and one that looks back takes minutes.
    #[test]
    fn a_mebibyte_of_the_same_is_refused_or_read_and_ends() {
        for part in
            ["[", "{", "- ", "? ", "a: ", "&a ", "*a ", "!a ", "\"", "'", "#", "%", "---\n", "- &a [*a]\n", "{a: ["]
        {
            let text = part.repeat(BYTES_MAX / part.len());
            // Quotes that come in pairs are one text.
            let is_one = |read: &Value| read.is_null() || read.is_string();
            assert!(read(&text).as_ref().is_ok_and(is_one) || read(&text).is_err(), "{part}");
        }
        let long = "- a\n".repeat(BYTES_MAX / 4);
        assert!(matches!(read(&long), Ok(Value::Array(list)) if list.len() == BYTES_MAX / 4));
    }

    #[test]
    fn what_grows_or_surprises_is_refused_with_its_line() {
        let laughs = "a: &a [x, x]\nb: [*a, *a]\n";
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        let long = format!("a: {}", "x".repeat(BYTES_MAX));
        for (text, reason) in [
            (laughs, "line 1: anchors"),
            ("a: *b\n", "unknown anchor"),
            ("a: !!binary eA==\n", "line 1: tags"),
            ("a: 1\na: 2\n", "line 2: `a` is there twice"),
            ("a: 1\n---\nb: 2\n", "another document"),
            ("? [a]\n: 1\n", "a key must be a text"),
            (deep.as_str(), "nested more than 64 deep"),
            (long.as_str(), "1048576"),
            ("", "it is empty"),
            ("a: [1\nb: 2\n", "line"),
            ("a: b: c\n", "line 1"),
        ] {
            let error = read(text).expect_err(reason).0;
            assert!(error.contains(reason), "{error} instead of {reason}");
        }
    }
}
