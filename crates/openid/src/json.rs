//! JSON in which no name occurs twice.
//!
//! Of two claims with one name, programs disagree which counts. What signs and what checks must not, so such a document is
//! refused.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::Fault;

/// The object in `text`, or why it is none. Nesting is bounded by the parser.
pub(crate) fn object(text: &[u8], what: &'static str) -> Result<Map<String, Value>, Fault> {
    match serde_json::from_slice::<Unique>(text) {
        Ok(Unique(Value::Object(object))) => Ok(object),
        Ok(_) => Err(Fault::invalid("malformed", format!("{what} is not an object"))),
        // The text of the error has a name at most, and no value.
        Err(error) if error.to_string().starts_with(TWICE) => {
            Err(Fault::invalid("duplicate_claims", format!("{what}: {error}")))
        }
        Err(_) => Err(Fault::invalid("malformed", format!("{what} is not valid JSON"))),
    }
}

const TWICE: &str = "a name occurs twice";

struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Unique, E> {
        Ok(Unique(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Unique, E> {
        Ok(Unique(Value::Number(value.into())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Unique, E> {
        Ok(Unique(Value::Number(value.into())))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Unique, E> {
        Number::from_f64(value).map(|number| Unique(Value::Number(number))).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Unique, E> {
        Ok(Unique(Value::String(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Unique, E> {
        Ok(Unique(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Unique, A::Error> {
        let mut values = Vec::new();
        while let Some(Unique(value)) = seq.next_element()? {
            values.push(value);
        }
        Ok(Unique(Value::Array(values)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
        let mut object = Map::new();
        while let Some((name, Unique(value))) = map.next_entry::<String, Unique>()? {
            if object.insert(name, value).is_some() {
                return Err(de::Error::custom(TWICE));
            }
        }
        Ok(Unique(Value::Object(object)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_occurs_twice_is_refused_wherever_it_is() {
        let good = object(br#"{"a":[1,-2,1.5,"x",null,true,{"b":{}}]}"#, "it").unwrap();
        assert_eq!(Value::Object(good).to_string(), r#"{"a":[1,-2,1.5,"x",null,true,{"b":{}}]}"#);
        for bad in [r#"{"a":1,"a":1}"#, r#"{"x":{"a":1,"b":2,"a":3}}"#, r#"{"a":1,"\u0061":2}"#] {
            assert_eq!(object(bad.as_bytes(), "it").unwrap_err().reason(), "duplicate_claims", "{bad}");
        }
        for bad in ["", "[]", "1", "{", "{}{}", "{\"a\":1e999}", &"[".repeat(100_000)] {
            assert_eq!(object(bad.as_bytes(), "it").unwrap_err().reason(), "malformed", "{bad:.40}");
        }
    }
}
