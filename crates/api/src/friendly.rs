//! Durations in JSON, rewritten for people.

use punctual_core::Span;
use serde_json::Value;

/// Rewrites the durations of a document for people: `PT1H30M` becomes `1h 30m`. A text is a duration if a [`Span`]
/// serializes to exactly that.
pub fn make_durations_friendly(document: &mut Value) {
    match document {
        Value::String(text) => {
            if text.starts_with('P')
                && let Ok(span) = Span::parse(text)
                && serde_json::to_value(span).is_ok_and(|written| written == *text)
            {
                *text = span.to_string();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(make_durations_friendly),
        Value::Object(fields) => fields.values_mut().for_each(make_durations_friendly),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::make_durations_friendly;

    #[test]
    fn durations_are_rewritten_and_other_texts_are_not() {
        let mut document = json!({"timeout": "PT1H30M", "attempts": [{"took": "PT0.006S"}], "name": "P1", "n": 5});
        make_durations_friendly(&mut document);
        assert_eq!(document, json!({"timeout": "1h 30m", "attempts": [{"took": "6ms"}], "name": "P1", "n": 5}));
    }
}
