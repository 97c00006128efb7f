//! Bodies that do not fit: all that is wrong with them, each with its place, in words of our own.

use punctual_api::{FieldCode, Misfit, limits, not_json};
use punctual_app::{AppError, Checked, Faults};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::by_name::ByName;

/// Of a larger body, the first misfit alone is named: each further one costs another look at all of it.
const REPAIRED_BYTES_MAX: usize = 128 << 10;
/// Looks at one body.
const LOOKS_MAX: usize = 20;

const HINT: &str = "GET /openapi.json describes what is expected";

pub(crate) fn from_json<T: DeserializeOwned + Checked>(bytes: &[u8]) -> Result<T, AppError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = T::deserialize(ByName(&mut reader)).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| {
        // A misfit within an enum is called a mistake of syntax, and one before a mistake of syntax hides it; only a
        // second look tells.
        let error = match serde_json::from_slice::<IgnoredAny>(bytes) {
            Ok(_) => misfits::<T>(bytes),
            Err(syntax) => {
                // The first look sees more of the syntax, such as bytes that are no UTF-8.
                let error = if error.is_data() { syntax } else { error };
                AppError::invalid(format!("the body is not valid JSON: {}", not_json(&error)))
            }
        };
        if error.hint.is_some() { error } else { error.hint(HINT) }
    })
}

/// Reads again and again, each time without what did not fit the time before, and checks the rest.
fn misfits<T: DeserializeOwned + Checked>(bytes: &[u8]) -> AppError {
    let mut faults = Faults::default();
    // Fields that were taken out: they are wrong, or hold something that is.
    let mut wrong: Vec<String> = Vec::new();
    let mut document: Option<Value> = None;
    for _ in 0..LOOKS_MAX {
        let text = document.as_ref().map(|document| document.to_string().into_bytes());
        let found = match look::<T>(text.as_deref().unwrap_or(bytes)) {
            Ok(value) => {
                faults.and_elsewhere(value.check(), &wrong);
                break;
            }
            Err(found) => found,
        };
        // What lacks something because it was taken out is not wrong by itself.
        let follows = wrong.iter().any(|wrong| {
            wrong.strip_prefix(&found.pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if !follows {
            faults.check(Err(found.error()));
        }
        wrong.push(found.pointer);
        if bytes.len() > REPAIRED_BYTES_MAX {
            break;
        }
        let document = document.get_or_insert_with(|| serde_json::from_slice(bytes).unwrap_or_default());
        match take_out(document, found.remove) {
            Some(taken) => wrong.push(taken),
            None => break,
        }
    }
    faults.finish().err().unwrap_or_else(|| AppError::invalid("the body does not fit"))
}

struct Found {
    pointer: String,
    misfit: Misfit,
    /// What to take out so that the rest can be read.
    remove: Vec<String>,
}

impl Found {
    fn error(&self) -> AppError {
        let Misfit { code, detail, .. } = &self.misfit;
        let detail = if self.pointer.is_empty() { format!("the body {detail}") } else { detail.clone() };
        let error = AppError::field(&self.pointer, detail).code(*code);
        let written = self.pointer.rsplit('/').next().unwrap_or_default();
        match self.misfit.near(written) {
            Some(near) if *code == FieldCode::UnknownField => error.hint(format!("did you mean `{near}`?")),
            _ => error,
        }
    }
}

fn look<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Box<Found>> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize::<_, T>(ByName(&mut reader)).map_err(|found| {
        let misfit = Misfit::read(&found.inner().to_string());
        let remove = steps(found.path());
        let mut place = remove.clone();
        place.extend(misfit.missing.clone());
        Box::new(Found { pointer: pointer(&place), misfit, remove })
    })
}

/// Keys and indexes, without what has no place in JSON.
fn steps(path: &Path) -> Vec<String> {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } | Segment::Enum { variant: key } => Some(key.clone()),
        Segment::Unknown => None,
    };
    path.iter().filter_map(step).collect()
}

/// As a JSON pointer.
fn pointer(steps: &[String]) -> String {
    let escaped = steps.iter().map(|key| {
        let key: String = key.chars().take(limits::NAME_CHARS_MAX).collect();
        format!("/{}", key.replace('~', "~0").replace('/', "~1"))
    });
    escaped.collect()
}

/// Takes the member out that these steps lead to, or the nearest around it. Elements of arrays stay where they are, so
/// that the places of the others hold: the whole array goes.
fn take_out(document: &mut Value, mut steps: Vec<String>) -> Option<String> {
    loop {
        let name = steps.pop()?;
        let mut parent = Some(&mut *document);
        for step in &steps {
            parent = parent.and_then(|value| match value {
                Value::Object(members) => members.get_mut(step),
                Value::Array(elements) => elements.get_mut(step.parse::<usize>().ok()?),
                _ => None,
            });
        }
        if let Some(Value::Object(members)) = parent
            && members.remove(&name).is_some()
        {
            steps.push(name);
            return Some(pointer(&steps));
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_api::JobRequest;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "it is only read into")]
    struct NumberBody {
        number: u32,
    }

    impl Checked for NumberBody {}

    #[test]
    fn a_misfit_is_told_by_its_pointer_and_in_plain_words() {
        for (body, detail) in [
            (r#"{"number": -1}"#, "/number: must be a whole number from 0 to 4294967295, not -1"),
            (r#"{"number": "at line 1"}"#, "/number: must be a whole number from 0 to 4294967295, not a string"),
            (r#"{}"#, "/number: is required"),
            (r#"{"number": 1, "numbers": 1}"#, "/numbers: there is no such field; the fields are number"),
            ("{\"number\": 1,}", "the body is not valid JSON: there is a mistake at line 1, column 14"),
            ("{\"number\": 1} 1", "the body is not valid JSON: there is a mistake at line 1, column 15"),
            (r#"{"a":}"#, "the body is not valid JSON: there is a mistake at line 1, column 6"),
            ("[1", "the body is not valid JSON: it ends too early, at line 1, column 2"),
            ("[1]", "the body must be an object, not an array"),
            ("7", "the body must be an object, not a number"),
        ] {
            assert_eq!(from_json::<NumberBody>(body.as_bytes()).unwrap_err().detail, detail, "{body}");
        }
    }

    #[track_caller]
    fn check(body: &str, expected: &[(&str, FieldCode)]) {
        let error = from_json::<JobRequest>(body.as_bytes()).unwrap_err();
        let mut found: Vec<_> = error.errors.iter().map(|field| (field.pointer.as_str(), field.code)).collect();
        let mut expected = expected.to_vec();
        found.sort_by_key(|(pointer, _)| pointer.to_owned());
        expected.sort_by_key(|(pointer, _)| pointer.to_owned());
        assert_eq!(found, expected, "{error}");
    }

    #[test]
    fn all_that_is_wrong_with_a_body_is_told_at_once() {
        use FieldCode::{InvalidValue, OutOfRange, Required, TooLong, UnknownField, WrongType};
        let long = "x".repeat(300);
        check(
            &format!(r#"{{"task":"ping","priority":101,"tracing_id":"{long}","run_at":"soon","prioritty":1}}"#),
            &[
                ("/priority", OutOfRange),
                ("/run_at", InvalidValue),
                ("/prioritty", UnknownField),
                ("/tracing_id", TooLong),
            ],
        );
        check(r#"{"task":5,"priority":"high"}"#, &[("/task", WrongType), ("/priority", WrongType)]);
        check(
            r#"{"inline":{"run":{"http":["x"]},"retry":[3,"1s"],"timeout":true}}"#,
            &[("/inline/run/http", WrongType), ("/inline/retry", WrongType), ("/inline/timeout", WrongType)],
        );
        // What follows from another fault is none.
        check(
            r#"{"inline":{"run":{"htp":{}}},"priority":"high"}"#,
            &[("/inline/run", InvalidValue), ("/priority", WrongType)],
        );
        check(
            r#"{"inline":{"run":{"http":{"timeout":-1}},"timeout":true,"queue":""}}"#,
            &[
                ("/inline/run/http/timeout", OutOfRange),
                ("/inline/run/http/url", Required),
                ("/inline/timeout", WrongType),
            ],
        );
        check(
            r#"{"inline":{"run":{"http":{"url":"x","timeout":"0s"}},"timeout":"40d","priority":1000}}"#,
            &[
                ("/inline/priority", OutOfRange),
                ("/inline/timeout", OutOfRange),
                ("/inline/run/http/url", InvalidValue),
                ("/inline/run/http/timeout", OutOfRange),
            ],
        );
    }

    #[test]
    fn a_body_with_many_faults_is_looked_at_so_many_times() {
        let fields: Vec<_> = (0..1000).map(|number| format!(r#""f{number}":1"#)).collect();
        let error = from_json::<NumberBody>(format!("{{{}}}", fields.join(",")).as_bytes()).unwrap_err();
        assert_eq!(error.errors.len(), LOOKS_MAX);
    }
}
