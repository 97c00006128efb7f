//! Query parameters that do not fit: all that is wrong with them, in words of our own, as in bodies.

use std::iter::empty;

use axum::extract::Query;
use http::Uri;
use punctual_api::{FieldCode, Misfit};
use punctual_app::{AppError, Checked, Faults};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as NoMisfit, MapDeserializer};

/// Parameters that hold several values. They may be given several times, or once with commas between the values.
const LISTS: [&str; 2] = ["state", "verdict"];
/// Looks at one query.
const LOOKS_MAX: usize = 20;

const HINT: &str = "GET /openapi.json lists the parameters";

/// A parameter as it was written, and its name.
struct Part {
    name: String,
    written: String,
}

/// Reads again and again, each time without what did not fit the time before, and checks the rest.
pub(crate) fn read_query<T: DeserializeOwned + Checked>(query: &str) -> Result<T, AppError> {
    if query.is_empty()
        && let Ok(value) = T::deserialize(MapDeserializer::<_, NoMisfit>::new(empty::<(&str, &str)>()))
    {
        return Ok(value);
    }
    let mut parts = parts(query);
    let mut found = match look::<T>(&parts) {
        Ok(value) => return Ok(value),
        Err(found) => found,
    };
    let mut faults = Faults::default();
    let mut wrong: Vec<String> = Vec::new();
    for _ in 0..LOOKS_MAX {
        let name = found.errors.first().map(|field| field.pointer.clone()).unwrap_or_default();
        // What is missing because it was taken out is not wrong by itself.
        if !wrong.contains(&name) {
            faults.check(Err(found));
        }
        let count = parts.len();
        parts.retain(|part| shorten(&part.name) != name);
        wrong.push(name);
        if parts.len() == count {
            break;
        }
        match look::<T>(&parts) {
            Ok(value) => {
                faults.and_elsewhere(value.check(), &wrong);
                break;
            }
            Err(next) => found = next,
        }
    }
    Err(faults.finish().expect_err("the first look found something"))
}

fn look<T: DeserializeOwned>(parts: &[Part]) -> Result<T, AppError> {
    let written: Vec<&str> = parts.iter().map(|part| part.written.as_str()).collect();
    let Query(value) =
        Query::try_from_uri(&uri(&written.join("&"))).map_err(|rejection| misfit(&rejection.body_text()))?;
    Ok(value)
}

/// What was part of an address is one again.
fn uri(query: &str) -> Uri {
    format!("/?{query}").parse().unwrap_or_default()
}

/// The parameters, each list in one of them.
fn parts(query: &str) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    // Where each list is among them.
    let mut places: [Option<usize>; LISTS.len()] = [None; LISTS.len()];
    for written in query.split('&').filter(|written| !written.is_empty()) {
        let name = Query::<Vec<(String, String)>>::try_from_uri(&uri(written))
            .ok()
            .and_then(|Query(pairs)| pairs.into_iter().next())
            .map_or_else(String::new, |(name, _)| name);
        let list = LISTS.iter().position(|list| *list == name);
        match (list.and_then(|list| places[list]), written.split_once('=')) {
            (Some(place), Some((_, more))) => {
                parts[place].written.push(',');
                parts[place].written.push_str(more);
            }
            _ => {
                if let Some(list) = list {
                    places[list].get_or_insert(parts.len());
                }
                parts.push(Part { name, written: written.to_owned() });
            }
        }
    }
    parts
}

/// Messages quote what was sent, but not a megabyte of it.
pub(crate) fn shorten(text: &str) -> String {
    text.chars().take(300).collect()
}

fn misfit(message: &str) -> AppError {
    let message = message.strip_prefix("Failed to deserialize query string: ").unwrap_or(message);
    // `name: what is wrong with it`, or a sentence with the name in quotes.
    let (name, said) = message.split_once(": ").unwrap_or(("", message));
    let misfit = Misfit::read(said);
    let written = said.split('`').nth(1).unwrap_or_default();
    if misfit.code != FieldCode::UnknownField {
        let name = if name.is_empty() { written } else { name };
        return AppError::field(shorten(name), misfit.detail).code(misfit.code).hint(HINT);
    }
    let error = AppError::field(shorten(written), "there is no parameter of this name").code(misfit.code);
    match misfit.near(written) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(HINT),
    }
}

#[cfg(test)]
mod tests {
    use punctual_api::ListQuery;
    use serde::Deserialize;

    use super::*;

    #[test]
    fn a_parameter_that_there_is_not_is_named_without_words_of_libraries() {
        let message = "Failed to deserialize query string: stat: unknown field `stat`, expected one of `state`, `task`";
        let error = misfit(message);
        assert_eq!(
            (error.detail.as_str(), error.hint.as_deref()),
            ("stat: there is no parameter of this name", Some("did you mean `state`?"))
        );
        for said in ["limit: duplicate field `limit`", "duplicate field `limit`"] {
            let error = misfit(&format!("Failed to deserialize query string: {said}"));
            assert_eq!(error.detail, "limit: `limit` is given more than once");
            assert_eq!(error.hint.as_deref(), Some(HINT));
        }
    }

    #[track_caller]
    fn check(query: &str, expected: &[(&str, FieldCode)]) {
        let error = read_query::<ListQuery>(query).unwrap_err();
        let found: Vec<_> = error.errors.iter().map(|field| (field.pointer.as_str(), field.code)).collect();
        assert_eq!(found, expected, "{error}");
    }

    #[test]
    fn all_that_is_wrong_with_a_query_is_told_at_once() {
        use FieldCode::{InvalidValue, OutOfRange, UnknownField, WrongType};
        check("stat=failed&sort=asc", &[("stat", UnknownField), ("sort", UnknownField)]);
        check(
            "limit=0&order=up&colour=red&order=down&state=gone&scheduled_from=1969-01-01T00:00:00Z",
            &[
                ("colour", UnknownField),
                ("order", InvalidValue),
                ("state", InvalidValue),
                ("scheduled_from", OutOfRange),
                ("limit", OutOfRange),
            ],
        );
        check(
            "cursor=x&limit=ten&st%61te2=1",
            &[("state2", UnknownField), ("limit", WrongType), ("cursor", InvalidValue)],
        );
        let many: Vec<String> = (0..1000).map(|number| format!("p{number}=1")).collect();
        assert_eq!(read_query::<ListQuery>(&many.join("&")).unwrap_err().errors.len(), LOOKS_MAX);
    }

    #[test]
    fn lists_are_given_with_commas_or_several_times_and_others_once() {
        let state = |query: &str| read_query::<ListQuery>(query).map(|query| query.state.unwrap_or_default());
        for query in
            ["state=failed,lost", "state=failed&state=lost", "state=failed%2Clost", "state=failed&limit=5&state=lost"]
        {
            assert_eq!(state(query).unwrap(), "failed,lost", "{query}");
        }
        check("task=a&task=b", &[("task", FieldCode::InvalidValue)]);
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "it is only read into")]
    struct Required {
        size: String,
    }

    impl Checked for Required {}

    #[test]
    fn what_is_missing_is_named_and_not_because_it_was_taken_out() {
        let error = read_query::<Required>("sise=1").unwrap_err();
        assert_eq!(error.detail, "2 fields are wrong. sise: there is no parameter of this name; size: is required");
        let error = read_query::<Required>("size=1&size=2").unwrap_err();
        assert_eq!(error.detail, "size: `size` is given more than once");
    }
}
