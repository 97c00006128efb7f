//! Paths, conditions and inputs, as docs/workflows.md describes them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What stands at a path, if anything does.
pub(super) type Find<'a> = &'a dyn Fn(&str) -> Option<Value>;

/// Goes from a value along fields and places in lists.
pub(super) fn follow<'p>(value: &Value, steps: impl Iterator<Item = &'p str>) -> Option<Value> {
    let mut at = value;
    for step in steps {
        at = if let Some(fields) = at.as_object() {
            fields.get(step)?
        } else {
            at.as_array()?.get(step.parse::<usize>().ok()?)?
        };
    }
    Some(at.clone())
}

/// An output that is not JSON is a text.
pub(super) fn output_value(output: &[u8]) -> Value {
    serde_json::from_slice(output).unwrap_or_else(|_| Value::from(String::from_utf8_lossy(output)))
}

/// Whether a condition holds. Where there is nothing, everything but `exists` sees null.
pub(super) fn holds(condition: &Value, find: Find<'_>) -> bool {
    let list = |name: &str| condition.get(name).and_then(Value::as_array);
    if let Some(all) = list("all") {
        return all.iter().all(|one| holds(one, find));
    }
    if let Some(any) = list("any") {
        return any.iter().any(|one| holds(one, find));
    }
    if let Some(not) = condition.get("not") {
        return !holds(not, find);
    }
    let found = find(condition["path"].as_str().expect("a comparison has a path"));
    if let Some(expected) = condition.get("exists") {
        return Value::Bool(found.is_some()) == *expected;
    }
    let found = found.unwrap_or_default();
    if let Some(other) = condition.get("eq") {
        return is_same(&found, other);
    }
    if let Some(other) = condition.get("ne") {
        return !is_same(&found, other);
    }
    if let Some(others) = list("in") {
        return others.iter().any(|other| is_same(&found, other));
    }
    let other = &condition["lt"];
    match (found.as_f64(), other.as_f64(), found.as_str(), other.as_str()) {
        (Some(found), Some(other), ..) => found < other,
        (_, _, Some(found), Some(other)) => found < other,
        _ => false,
    }
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// The object that fields make, or `None` if a path leads nowhere and has no default.
pub(super) fn object(fields: &BTreeMap<String, Value>, find: Find<'_>) -> Option<Value> {
    let mut object = Map::new();
    for (name, field) in fields {
        let value = match field.get("from").and_then(Value::as_str) {
            Some(path) => find(path).or_else(|| field.get("default").cloned())?,
            None => field["value"].clone(),
        };
        object.insert(name.clone(), value);
    }
    Some(Value::Object(object))
}
