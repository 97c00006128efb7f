//! Where a value comes from: `run.day`, `extract.rows.0.id`, `item.name`.

use serde_json::Value;

/// What a path begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    /// The input of the run.
    Run,
    /// The element of a node that fans out.
    Item,
    /// The output of a node.
    Node(u16),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) root: Root,
    /// Names of fields, or places in lists.
    pub(super) steps: Vec<String>,
    /// As it was written.
    pub(super) text: String,
}

/// Longer ones are refused.
pub(super) const PATH_CHARS_MAX: usize = 512;

pub(super) const RUN: &str = "run";
pub(super) const ITEM: &str = "item";

impl Path {
    /// What stands there, if anything does.
    pub(super) fn find<'v>(&self, mut value: &'v Value) -> Option<&'v Value> {
        for step in &self.steps {
            value = match value {
                Value::Object(fields) => fields.get(step)?,
                Value::Array(list) => list.get(step.parse::<usize>().ok()?)?,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
            };
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(steps: &str, value: &str) -> Option<String> {
        let steps = steps.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect();
        let value: Value = serde_json::from_str(value).unwrap();
        let path = Path { root: Root::Run, steps, text: String::new() };
        path.find(&value).map(ToString::to_string)
    }

    #[test]
    fn a_path_goes_through_fields_and_lists() {
        assert_eq!(found("", "7").as_deref(), Some("7"));
        assert_eq!(found("a.b", r#"{"a":{"b":null}}"#).as_deref(), Some("null"));
        assert_eq!(found("a.1", r#"{"a":[1,2]}"#).as_deref(), Some("2"));
        assert_eq!(found("1", r#"{"1":"field"}"#).as_deref(), Some("\"field\""));
    }

    #[test]
    fn a_path_to_nowhere_finds_nothing() {
        for (steps, value) in [("a", "[1]"), ("a.b", r#"{"a":1}"#), ("2", "[1,2]"), ("-1", "[1]"), ("a", "null")] {
            assert_eq!(found(steps, value), None, "{steps} in {value}");
        }
    }
}
