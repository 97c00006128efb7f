//! Declared comparisons.

use serde_json::Value;

use super::path::Path;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    Eq(Path, Value),
    Ne(Path, Value),
    Lt(Path, Value),
    In(Path, Vec<Value>),
    Exists(Path, bool),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
}

impl Condition {
    /// Where there is nothing, everything but `exists` sees null. `find` may fail because a value has not been read.
    pub(super) fn holds<E>(&self, find: &mut impl FnMut(&Path) -> Result<Option<Value>, E>) -> Result<bool, E> {
        let value = |found: Option<Value>| found.unwrap_or(Value::Null);
        Ok(match self {
            Self::Eq(path, other) => is_equal(&value(find(path)?), other),
            Self::Ne(path, other) => !is_equal(&value(find(path)?), other),
            Self::Lt(path, other) => is_less(&value(find(path)?), other),
            Self::In(path, others) => {
                let value = value(find(path)?);
                others.iter().any(|other| is_equal(&value, other))
            }
            Self::Exists(path, expected) => find(path)?.is_some() == *expected,
            Self::All(all) => {
                for one in all {
                    if !one.holds(find)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Any(any) => {
                for one in any {
                    if one.holds(find)? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::Not(not) => !not.holds(find)?,
        })
    }

    pub(super) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Eq(path, _) | Self::Ne(path, _) | Self::Lt(path, _) | Self::In(path, _) | Self::Exists(path, _) => {
                vec![path]
            }
            Self::All(list) | Self::Any(list) => list.iter().flat_map(Self::paths).collect(),
            Self::Not(not) => not.paths(),
        }
    }
}

/// 1 and 1.0 are equal.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

/// Only numbers compare with numbers, and texts with texts.
fn is_less(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one < other,
            _ => one.as_f64() < other.as_f64(),
        },
        (Value::String(one), Value::String(other)) => one < other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_different_types_are_neither_equal_nor_less() {
        assert!(is_equal(&json!(1), &json!(1.0)));
        assert!(!is_equal(&json!("1"), &json!(1)));
        assert!(is_less(&json!(1), &json!(1.5)) && is_less(&json!("a"), &json!("b")));
        assert!(
            !is_less(&json!("1"), &json!(2)) && !is_less(&json!(null), &json!(2)) && !is_less(&json!(2), &json!(2))
        );
    }
}
