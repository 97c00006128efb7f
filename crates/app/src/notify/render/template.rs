//! A rule's own words, rendered within bounds: what a template reads, what it makes and how long it takes.
//!
//! A template looks things up, compares, loops and prints. It cannot build anything: no value is longer than one of the
//! message, and each step and each byte that a step works on is paid for.

use std::borrow::Cow;
use std::cmp::Ordering;

use punctual_api::{NotificationMessage, make_durations_friendly};
use punctual_core::Timestamp;
use serde_json::{Value, json};

use super::syntax::{self, Base, Condition, Node, Operand, Part, Step, Test};
use super::{TEXT_BYTES_MAX, text};

/// Of one template.
pub(in crate::notify) const SOURCE_BYTES_MAX: usize = 16 << 10;
/// Bytes that one rendering may work on: the longest text 256 times. What people write takes it once or twice.
const WORK_MAX: usize = 16 << 20;
/// What a step takes besides the bytes that it works on.
const STEP: usize = 256;

pub(super) const FILTERS: [&str; 10] =
    ["default", "first", "last", "length", "lower", "number", "truncate", "trim", "upper", "utc"];

/// What may be absent, and is `none` then.
const OPTIONAL_OF_EVENT: [&str; 9] =
    ["schedule", "planned_at", "planned_local", "job", "scheduled_at", "state", "reason", "late_by", "link"];
const OPTIONAL_OF_ATTEMPT: [&str; 2] = ["took", "reason"];

/// Why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{detail}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub(in crate::notify) struct BadTemplate {
    pub(super) detail: String,
    pub(super) line: Option<usize>,
}

/// What templates see: the message as a webhook gets it, with durations for people to read.
pub(super) struct Context(Value);

impl Context {
    pub(super) fn new(message: &NotificationMessage) -> Self {
        let mut seen = json!(message);
        make_durations_friendly(&mut seen);
        let events = seen.get_mut("events").and_then(|events| events.as_array_mut());
        for event in events.into_iter().flatten() {
            fill(event, &OPTIONAL_OF_EVENT);
            let attempts = event.get_mut("attempts").and_then(|attempts| attempts.as_array_mut());
            attempts.into_iter().flatten().for_each(|attempt| fill(attempt, &OPTIONAL_OF_ATTEMPT));
        }
        Self(seen)
    }
}

fn fill(object: &mut Value, keys: &[&str]) {
    let Some(object) = object.as_object_mut() else { return };
    for key in keys {
        object.entry(*key).or_insert(Value::Null);
    }
}

/// Whether it can be used: by its form, and by rendering it for a sample.
pub(in crate::notify) fn check(source: &str, sample: &NotificationMessage) -> Result<(), BadTemplate> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(BadTemplate { detail: format!("must be at most {SOURCE_BYTES_MAX} bytes"), line: None });
    }
    render(source, &Context::new(sample)).map(drop)
}

pub(super) fn render(source: &str, context: &Context) -> Result<String, BadTemplate> {
    let nodes = syntax::parse(source)?;
    let mut rendering = Rendering { seen: &context.0, named: Vec::new(), work_left: WORK_MAX, page: String::new() };
    rendering.nodes(&nodes)?;
    Ok(rendering.page)
}

/// A value, or `None` for what there is not. What is not there can be tested and replaced, not printed or looked into.
type Found<'a> = Option<Cow<'a, Value>>;

struct Rendering<'a, 's> {
    seen: &'a Value,
    /// The variables of loops, the innermost last.
    named: Vec<(&'s str, Cow<'a, Value>)>,
    work_left: usize,
    page: String,
}

impl<'a, 's> Rendering<'a, 's> {
    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.work_left.checked_sub(STEP + bytes);
        self.work_left = left.ok_or_else(|| "it takes too many steps; does it loop within loops?".to_owned())?;
        Ok(())
    }

    fn nodes(&mut self, nodes: &[Node<'s>]) -> Result<(), BadTemplate> {
        for Node { line, part } in nodes {
            let at_line = |detail| BadTemplate { detail, line: Some(*line) };
            match part {
                Part::Text(text) => self.print(text).map_err(at_line)?,
                Part::Print(operand) => {
                    let value = self.operand(operand).and_then(defined).map_err(at_line)?;
                    self.print(&shown(&value)).map_err(at_line)?;
                }
                Part::If { branches, otherwise } => {
                    let mut chosen = otherwise;
                    for (condition, body) in branches {
                        if self.holds(condition).map_err(at_line)? {
                            chosen = body;
                            break;
                        }
                    }
                    self.nodes(chosen)?;
                }
                Part::For { name, list, only, body, otherwise } => {
                    let list = self.operand(list).and_then(defined).and_then(items).map_err(at_line)?;
                    let mut is_empty = true;
                    for item in list {
                        self.named.push((*name, item));
                        self.spend(0).map_err(at_line)?;
                        if only.as_ref().map_or(Ok(true), |only| self.holds(only)).map_err(at_line)? {
                            is_empty = false;
                            self.nodes(body)?;
                        }
                        self.named.pop();
                    }
                    if is_empty {
                        self.nodes(otherwise)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn print(&mut self, text: &str) -> Result<(), String> {
        self.spend(text.len())?;
        if self.page.len() + text.len() > TEXT_BYTES_MAX {
            return Err(format!("it makes more than {TEXT_BYTES_MAX} bytes"));
        }
        self.page += text;
        Ok(())
    }

    fn holds(&mut self, condition: &Condition<'s>) -> Result<bool, String> {
        for all in &condition.0 {
            let mut holds = true;
            for test in all {
                holds = holds && self.test(test)?;
            }
            if holds {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn test(&mut self, test: &Test<'s>) -> Result<bool, String> {
        let left = self.operand(&test.left)?.unwrap_or_default();
        let Some((sign, right)) = &test.compared else { return Ok(is_filled(&left) != test.is_negated) };
        let right = self.operand(right)?.unwrap_or_default();
        self.spend(size(&left) + size(&right))?;
        let (is_equal, order) = (left == right, order(&left, &right));
        let holds = match *sign {
            "==" => is_equal,
            "!=" => !is_equal,
            "<" => order == Some(Ordering::Less),
            "<=" => is_equal || order == Some(Ordering::Less),
            ">" => order == Some(Ordering::Greater),
            _ => is_equal || order == Some(Ordering::Greater),
        };
        Ok(holds != test.is_negated)
    }

    fn operand(&mut self, operand: &Operand<'s>) -> Result<Found<'a>, String> {
        let mut value = match &operand.base {
            Base::Literal(literal) => Some(Cow::Owned(literal.clone())),
            Base::Name(name) => match self.named.iter().rev().find(|(known, _)| known == name) {
                Some((_, value)) => Some(value.clone()),
                None => self.seen.get(name).map(Cow::Borrowed),
            },
        };
        let copied = if let Some(Cow::Owned(copy)) = &value { size(copy) } else { 0 };
        self.spend(copied)?;
        for step in &operand.steps {
            value = self.step(value, step)?;
        }
        Ok(value)
    }

    fn step(&mut self, value: Found<'a>, step: &Step<'s>) -> Result<Found<'a>, String> {
        self.spend(0)?;
        if let Step::Filter("default", other) = step {
            let value = value.filter(|value| !value.is_null());
            return Ok(value.or_else(|| Some(Cow::Owned(other.clone().unwrap_or_else(|| "".into())))));
        }
        let value = defined(value)?;
        let or_none = |part: Found<'a>| Ok(part.or(Some(Cow::Owned(Value::Null))));
        match step {
            Step::Filter("first", _) => or_none(part(value, |value| value.as_array()?.first())),
            Step::Filter("last", _) => or_none(part(value, |value| value.as_array()?.last())),
            Step::Filter("length", _) if value.is_array() => {
                Ok(value.as_array().map(|list| Cow::Owned(list.len().into())))
            }
            Step::Key(key) => Ok(part(value, |value| value.get(key))),
            Step::Place(place) => Ok(part(value, |value| value.get(from_end(*place, value.as_array()?.len())?))),
            Step::Slice(from, to) => {
                self.spend(size(&value))?;
                slice(&value, *from, *to).map(|slice| Some(Cow::Owned(slice)))
            }
            Step::Filter(name, argument) => {
                self.spend(size(&value))?;
                filter(name, &value, argument.as_ref()).map(|value| Some(Cow::Owned(value)))
            }
        }
    }
}

fn defined(value: Found<'_>) -> Result<Cow<'_, Value>, String> {
    value.ok_or_else(|| "undefined value: there is nothing of this name here".to_owned())
}

fn part<'a>(value: Cow<'a, Value>, find: impl Fn(&Value) -> Option<&Value>) -> Found<'a> {
    match value {
        Cow::Borrowed(value) => find(value).map(Cow::Borrowed),
        Cow::Owned(value) => find(&value).cloned().map(Cow::Owned),
    }
}

fn items(list: Cow<'_, Value>) -> Result<Vec<Cow<'_, Value>>, String> {
    match list {
        Cow::Borrowed(Value::Array(list)) => Ok(list.iter().map(Cow::Borrowed).collect()),
        Cow::Owned(Value::Array(list)) => Ok(list.into_iter().map(Cow::Owned).collect()),
        _ => Err("only lists can be looped over".to_owned()),
    }
}

/// How many bytes it takes to read or copy a value.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(object) => object.iter().map(|(key, value)| key.len() + size(value)).sum(),
    }
}

fn is_filled(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
    }
}

/// Numbers and texts have an order, each among themselves.
fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_i64()?.partial_cmp(&right.as_i64()?),
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

/// What is not there is nothing to read about.
fn shown(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "".into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

/// A place in a list; a negative number counts from the end.
fn from_end(number: i64, len: usize) -> Option<usize> {
    let distance = usize::try_from(number.unsigned_abs()).ok()?;
    if number < 0 { len.checked_sub(distance) } else { Some(distance) }
}

fn slice(value: &Value, from: Option<i64>, to: Option<i64>) -> Result<Value, String> {
    let within = |len: usize| {
        let bound = |number: i64| from_end(number, len).unwrap_or(0).min(len);
        let (from, to) = (from.map_or(0, bound), to.map_or(len, bound));
        (from, to.saturating_sub(from))
    };
    match value {
        Value::Array(list) => {
            let (from, len) = within(list.len());
            Ok(list.iter().skip(from).take(len).cloned().collect())
        }
        Value::String(text) => {
            let (from, len) = within(text.chars().count());
            Ok(text.chars().skip(from).take(len).collect::<String>().into())
        }
        _ => Err("only lists and texts can be sliced".to_owned()),
    }
}

fn filter(name: &str, value: &Value, argument: Option<&Value>) -> Result<Value, String> {
    match name {
        "length" => Ok(shown(value).chars().count().into()),
        "number" => Ok(text::number(value.as_u64().ok_or("`number` takes a whole number")?).into()),
        _ if value.is_null() => Ok(Value::Null),
        "lower" => Ok(shown(value).to_lowercase().into()),
        "upper" => Ok(shown(value).to_uppercase().into()),
        "trim" => Ok(shown(value).trim().into()),
        "utc" => Ok(Timestamp::parse(&shown(value)).map_or_else(|_| value.clone(), |at| text::utc(at).into())),
        "truncate" => {
            let chars = argument.and_then(Value::as_u64).ok_or("`truncate` takes a number")?;
            Ok(text::cut(&shown(value), usize::try_from(chars).unwrap_or(usize::MAX)).into())
        }
        _ => Err(format!("there is no filter `{name}`")),
    }
}

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod tests;
