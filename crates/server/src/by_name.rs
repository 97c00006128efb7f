//! Reads the fields of objects by their names alone.
//!
//! A derived reader also takes an array for a struct, with the fields in the order in which the code defines them. No
//! document describes that order, and a new field changes it, so an array in the place of an object is refused at every level.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, Expected, MapAccess, SeqAccess, Unexpected, VariantAccess,
    Visitor,
};

/// A reader, a part of one, or what reads a value: wrapped, so that all values within it are read by name.
pub(crate) struct ByName<T>(pub(crate) T);

/// Reads a struct.
struct Struct<V>(V);

macro_rules! scalars {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(visitor)
        })*
    };
}

macro_rules! nested {
    ($($method:ident($($name:ident: $type:ty),*))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)* ByName(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ByName<D> {
    type Error = D::Error;

    scalars! {
        deserialize_bool
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string
        deserialize_bytes deserialize_byte_buf deserialize_unit deserialize_identifier deserialize_ignored_any
    }

    nested! {
        deserialize_any()
        deserialize_option()
        deserialize_unit_struct(name: &'static str)
        deserialize_newtype_struct(name: &'static str)
        deserialize_seq()
        deserialize_tuple(len: usize)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_map()
        deserialize_enum(name: &'static str, variants: &'static [&'static str])
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Struct(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! values {
    ($($method:ident($type:ty))*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for ByName<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    values! {
        visit_bool(bool)
        visit_i64(i64) visit_i128(i128)
        visit_u64(u64) visit_u128(u128)
        visit_f64(f64)
        visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(ByName(deserializer))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(ByName(deserializer))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(ByName(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(ByName(members))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(ByName(variant))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Struct<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<V::Value, A::Error> {
        let expected: &dyn Expected = &self.0;
        Err(A::Error::invalid_type(Unexpected::Seq, expected))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(ByName(members))
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for ByName<T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Value, D::Error> {
        self.0.deserialize(ByName(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for ByName<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(ByName(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ByName<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(ByName(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for ByName<A> {
    type Error = A::Error;
    type Variant = ByName<A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        self.0.variant_seed(seed).map(|(value, variant)| (value, ByName(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for ByName<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        self.0.newtype_variant_seed(ByName(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, ByName(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Struct(visitor))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Point {
        x: u32,
        y: Option<u32>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    enum Shape {
        Dot(Point),
        Line { from: Point, to: Point },
        Pair(u32, u32),
        Nothing,
    }

    #[derive(Debug, Deserialize)]
    struct Drawing {
        #[serde(default)]
        shapes: Vec<Shape>,
        origin: Option<Box<Point>>,
        note: Option<Box<RawValue>>,
        #[serde(default)]
        named: std::collections::BTreeMap<String, Point>,
    }

    fn read(json: &str) -> Result<Drawing, String> {
        let mut reader = serde_json::Deserializer::from_str(json);
        Drawing::deserialize(ByName(&mut reader)).map_err(|error| error.to_string())
    }

    #[test]
    fn an_array_in_the_place_of_an_object_is_refused_at_every_level() {
        for json in [
            r#"[[], null, null, {}]"#,
            r#"{"origin": [1, 2]}"#,
            r#"{"shapes": [{"Dot": [1, 2]}]}"#,
            r#"{"shapes": [{"Line": [{"x": 1}, {"x": 2}]}]}"#,
            r#"{"shapes": [{"Line": {"from": {"x": 1}, "to": [1, 2]}}]}"#,
            r#"{"named": {"a": {"x": 1}, "b": [1, 2]}}"#,
        ] {
            let refused = read(json).expect_err(json);
            assert!(refused.contains("invalid type: sequence, expected struct"), "{json}: {refused}");
        }
    }

    #[test]
    fn what_is_written_by_name_and_what_is_an_array_are_read() {
        let json = r#"{"shapes": [{"Dot": {"x": 1}}, {"Line": {"from": {"x": 1, "y": 2}, "to": {"x": 3}}},
            {"Pair": [4, 5]}, "Nothing"], "origin": {"x": 6}, "note": [1, {"a": [2.50]}], "named": {"a": {"x": 7}}}"#;
        let drawing = read(json).unwrap();
        let point = |x| Point { x, y: None };
        let line = Shape::Line { from: Point { x: 1, y: Some(2) }, to: point(3) };
        assert_eq!(drawing.shapes, [Shape::Dot(point(1)), line, Shape::Pair(4, 5), Shape::Nothing]);
        assert_eq!(drawing.origin, Some(Box::new(point(6))));
        assert_eq!(drawing.note.unwrap().get(), r#"[1, {"a": [2.50]}]"#);
        assert_eq!(drawing.named["a"], point(7));
    }
}
