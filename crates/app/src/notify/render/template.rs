//! A rule's own words, rendered within bounds.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, escape_formatter};
use punctual_api::NotificationMessage;
use punctual_core::Timestamp;
use serde_json::json;

use super::effort::{Effort, Metered, Named, named};
use super::{TEXT_BYTES_MAX, allowed, depth, text};

/// Of one template.
pub(in crate::notify) const SOURCE_BYTES_MAX: usize = 16 << 10;
/// Steps of one rendering; a page of text for the largest message takes some thousands.
const FUEL: u64 = 50_000;

pub(super) const FILTERS: [&str; 10] =
    ["default", "first", "last", "length", "lower", "number", "truncate", "trim", "upper", "utc"];
pub(super) const TESTS: [&str; 2] = ["defined", "none"];

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

impl From<minijinja::Error> for BadTemplate {
    fn from(error: minijinja::Error) -> Self {
        let line = error.line();
        let detail = match (error.kind(), error.detail()) {
            (ErrorKind::OutOfFuel, Some(detail)) => detail.to_owned(),
            (ErrorKind::OutOfFuel, None) => "it takes too many steps; does it loop within loops?".to_owned(),
            (ErrorKind::WriteFailure, _) => format!("it makes more than {TEXT_BYTES_MAX} bytes"),
            (kind, Some(detail)) => format!("{kind}: {}", text::cut(detail, 200)),
            (kind, None) => kind.to_string(),
        };
        Self { detail, line }
    }
}

/// What templates see: the message as a webhook gets it.
pub(super) struct Context(Arc<Named>);

impl Context {
    pub(super) fn new(message: &NotificationMessage) -> Self {
        let mut seen = json!(message);
        let events = seen.get_mut("events").and_then(|events| events.as_array_mut());
        for event in events.into_iter().flatten() {
            fill(event, &OPTIONAL_OF_EVENT);
            let attempts = event.get_mut("attempts").and_then(|attempts| attempts.as_array_mut());
            attempts.into_iter().flatten().for_each(|attempt| fill(attempt, &OPTIONAL_OF_ATTEMPT));
        }
        Self(Arc::new(seen.as_object_mut().map(std::mem::take).map(named).unwrap_or_default()))
    }
}

fn fill(object: &mut serde_json::Value, keys: &[&str]) {
    let Some(object) = object.as_object_mut() else { return };
    for key in keys {
        object.entry(*key).or_insert(serde_json::Value::Null);
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
    guarded(|| {
        depth::check(source)?;
        allowed::check(source)?;
        let effort = Effort::new();
        let environment = environment(&effort);
        let template = environment.template_from_str(source)?;
        let mut page = Page::default();
        let seen = Value::from_object(Metered { named: Arc::clone(&context.0), effort });
        template.render_captured_to(seen, &mut page)?;
        Ok(String::from_utf8_lossy(&page.0).into_owned())
    })
}

/// A fault of the template engine is one of the template for us: the message goes out with the built-in words.
fn guarded(render: impl FnOnce() -> Result<String, BadTemplate>) -> Result<String, BadTemplate> {
    // What it worked on is dropped with it.
    catch_unwind(AssertUnwindSafe(render)).unwrap_or_else(|_| {
        let detail = "the template engine broke down on it; write it in another way".to_owned();
        Err(BadTemplate { detail, line: None })
    })
}

fn environment(effort: &Arc<Effort>) -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_fuel(Some(FUEL));
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    // What is not there is nothing to read about.
    environment.set_formatter(
        |out, state, value| {
            if value.is_none() { Ok(()) } else { escape_formatter(out, state, value) }
        },
    );
    environment.add_test("defined", |value: &Value| !value.is_undefined());
    environment.add_test("none", |value: &Value| value.is_none());
    environment.add_filter("default", default);
    environment.add_filter("first", |value: Value| value.try_iter().ok().and_then(|mut all| all.next()));
    environment.add_filter("last", |value: Value| value.try_iter().ok().and_then(Iterator::last));
    environment.add_filter("length", |value: Value| value.len());
    let metered = |work: fn(&str) -> String| {
        let effort = Arc::clone(effort);
        move |text: String| effort.spend(text.len()).map(|()| work(&text))
    };
    environment.add_filter("lower", metered(str::to_lowercase));
    environment.add_filter("upper", metered(str::to_uppercase));
    environment.add_filter("trim", metered(|text| text.trim().to_owned()));
    environment.add_filter("utc", metered(|text| Timestamp::parse(text).map_or_else(|_| text.to_owned(), text::utc)));
    let truncated = Arc::clone(effort);
    environment.add_filter("truncate", move |text: String, chars: usize| {
        truncated.spend(text.len()).map(|()| text::cut(&text, chars))
    });
    environment.add_filter("number", |number: u64| text::number(number));
    environment
}

/// Another value for one that is empty.
fn default(value: Value, other: Option<Value>) -> Value {
    let is_empty = value.is_undefined() || value.is_none();
    if is_empty { other.unwrap_or_else(|| Value::from("")) } else { value }
}

/// Takes no more than a message may have.
#[derive(Default)]
struct Page(Vec<u8>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > TEXT_BYTES_MAX {
            return Err(io::Error::other("the page is full"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "hostile_tests.rs"]
mod tests;
