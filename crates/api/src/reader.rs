//! The deserializer of request bodies. It refuses a list where an object is expected, which serde's derive would take for
//! the object's fields in their order, and reads 64-bit integers from text for clients whose numbers are doubles
//! (`Weft-Big: text`). It wraps another deserializer and every value inside of it.

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use std::fmt;

/// The `expecting` text of an internally tagged enum. It is an object on the wire, although serde reads it as any value.
const TAGGED: &str = "internally tagged enum";
const OBJECT: &str = "an object";

/// Reads what another deserializer gives.
pub struct Reader<D> {
    inner: D,
    big_as_text: bool,
}

impl<D> Reader<D> {
    /// With `big_as_text`, text of digits is taken for a 64-bit integer.
    pub fn new(inner: D, big_as_text: bool) -> Self {
        Self { inner, big_as_text }
    }

    fn inside<V>(&self, visitor: V) -> Inside<V> {
        Inside { inner: visitor, is_object: false, big_as_text: self.big_as_text }
    }
}

/// A visitor or an access of the wrapped deserializer, which reads inner values through a [`Reader`] too.
struct Inside<V> {
    inner: V,
    is_object: bool,
    big_as_text: bool,
}

impl<V> Inside<V> {
    fn around<W>(&self, inner: W) -> Inside<W> {
        Inside { inner, is_object: false, big_as_text: self.big_as_text }
    }
}

impl<'de, V: Visitor<'de>> Inside<V> {
    /// The expected value in words, without names of Rust types.
    fn expected(&self) -> String {
        struct Text<'a, V>(&'a V);
        impl<'de, V: Visitor<'de>> fmt::Display for Text<'_, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.expecting(f)
            }
        }
        match Text(&self.inner).to_string() {
            text if text.starts_with("struct ") || text.starts_with(TAGGED) || text == "a map" => OBJECT.to_owned(),
            text => text,
        }
    }

    fn refuses_lists(&self) -> bool {
        self.is_object || self.expected() == OBJECT
    }
}

macro_rules! passed_on {
    ($($method:ident),+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.inside(visitor);
            self.inner.$method(visitor)
        })+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Reader<D> {
    type Error = D::Error;

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        match self.big_as_text {
            true => self.inner.deserialize_any(Number(visitor)),
            false => self.inner.deserialize_u64(visitor),
        }
    }

    passed_on! {
        deserialize_any, deserialize_bool, deserialize_i8, deserialize_i16, deserialize_i32, deserialize_i64,
        deserialize_i128, deserialize_u8, deserialize_u16, deserialize_u32, deserialize_u128, deserialize_f32,
        deserialize_f64, deserialize_char, deserialize_str, deserialize_string, deserialize_bytes,
        deserialize_byte_buf, deserialize_option, deserialize_unit, deserialize_seq, deserialize_map,
        deserialize_identifier, deserialize_ignored_any
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.inside(visitor);
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.inside(visitor);
        self.inner.deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.inside(visitor);
        self.inner.deserialize_tuple(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.inside(visitor);
        self.inner.deserialize_tuple_struct(name, len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = Inside { is_object: true, ..self.inside(visitor) };
        self.inner.deserialize_struct(name, fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let visitor = self.inside(visitor);
        self.inner.deserialize_enum(name, variants, visitor)
    }
}

/// A number, or text that is one.
struct Number<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Number<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<V::Value, E> {
        self.0.visit_u64(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<V::Value, E> {
        self.0.visit_i64(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<V::Value, E> {
        self.0.visit_f64(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits => self.0.visit_u64(number),
            _ => self.0.visit_str(text),
        }
    }
}

macro_rules! visited {
    ($($method:ident $type:ty),+) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        })+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Inside<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.expected())
    }

    visited! {
        visit_bool bool, visit_i8 i8, visit_i16 i16, visit_i32 i32, visit_i64 i64, visit_i128 i128, visit_u8 u8,
        visit_u16 u16, visit_u32 u32, visit_u64 u64, visit_u128 u128, visit_f32 f32, visit_f64 f64, visit_char char,
        visit_str &str, visit_borrowed_str &'de str, visit_string String, visit_bytes &[u8],
        visit_borrowed_bytes &'de [u8], visit_byte_buf Vec<u8>
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Reader::new(inner, self.big_as_text))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Reader::new(inner, self.big_as_text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        match self.refuses_lists() {
            true => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
            false => {
                let list = self.around(list);
                self.inner.visit_seq(list)
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        let map = self.around(map);
        self.inner.visit_map(map)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        let variant = self.around(variant);
        self.inner.visit_enum(variant)
    }
}

/// Reads one inner value.
struct Seed<S> {
    inner: S,
    big_as_text: bool,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Reader::new(inner, self.big_as_text))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(Seed { inner: seed, big_as_text: self.big_as_text })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Seed { inner: seed, big_as_text: self.big_as_text })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Inside<A> {
    type Error = A::Error;
    type Variant = Inside<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let big_as_text = self.big_as_text;
        let (value, inner) = self.inner.variant_seed(seed)?;
        Ok((value, Inside { inner, is_object: false, big_as_text }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Seed { inner: seed, big_as_text: self.big_as_text })
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.around(visitor);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = Inside { is_object: true, ..self.around(visitor) };
        self.inner.struct_variant(fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::Wire;
    use crate::{Call, OPERATIONS, document};
    use serde_json::{Map, Value, json};

    /// A value that fits the schema, the `pick`th of several, and the paths of all objects in it. Its text is also a time
    /// and base64.
    fn sample(all: &Value, schema: &Value, pick: usize, path: &str, objects: &mut Vec<String>) -> Value {
        if let Some(name) = schema["$ref"].as_str() {
            return sample(all, all.pointer(&name[1..]).unwrap(), pick, path, objects);
        }
        if let Some(forms) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            let forms: Vec<_> = forms.iter().filter(|form| form["type"] != "null").collect();
            return sample(all, forms[pick % forms.len()], pick, path, objects);
        }
        let inner = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        let is = |name: &str| {
            schema["type"] == name || schema["type"].as_array().is_some_and(|all| all.contains(&json!(name)))
        };
        if is("object") {
            objects.push(path.to_string());
            let fields = schema["properties"].as_object().cloned().unwrap_or_default();
            let value =
                |(name, field): (&String, &Value)| (name.clone(), sample(all, field, pick, &inner(name), objects));
            Value::Object(fields.iter().map(value).collect::<Map<_, _>>())
        } else if is("array") {
            json!([sample(all, &schema["items"], pick, &format!("{path}[0]"), objects)])
        } else {
            let word = schema["enum"].get(0).cloned();
            word.unwrap_or_else(|| {
                if is("string") {
                    json!("1111")
                } else if is("boolean") {
                    json!(true)
                } else {
                    json!(1)
                }
            })
        }
    }

    /// The value with an empty list, or the fields of the object in a list, at `path`.
    fn with_list(mut value: Value, path: &str, emptied: bool) -> Value {
        let pointer: String = path
            .replace('[', ".")
            .replace(']', "")
            .split('.')
            .filter(|part| !part.is_empty())
            .map(|part| format!("/{part}"))
            .collect();
        let place = value.pointer_mut(&pointer).unwrap();
        let fields = place.as_object().unwrap().values().cloned().collect();
        *place = Value::Array(if emptied { Vec::new() } else { fields });
        value
    }

    #[test]
    fn api_1_a_list_is_not_taken_for_the_fields_of_an_object_in_any_request() {
        let document = document("0");
        let mut tried = 0;
        for spec in OPERATIONS {
            let place = format!(
                "/paths/{}/{}/requestBody/content/application~1json/schema",
                spec.path.replace('/', "~1"),
                spec.method.name().to_lowercase()
            );
            let Some(schema) = document.pointer(&place) else { continue };
            for pick in 0..4 {
                let mut objects = Vec::new();
                let value = sample(&document, schema, pick, "", &mut objects);
                for (path, emptied) in objects.iter().flat_map(|path| [(path, false), (path, true)]) {
                    let body = with_list(value.clone(), path, emptied).to_string();
                    let path_parts = spec.path_names().map(str::to_string).collect();
                    let wire = Wire { path: path_parts, body: body.clone().into(), ..Wire::default() };
                    // An item of a batch that cannot be read has its problem inside of the call.
                    let told = match Call::from_wire(spec.id, wire) {
                        Ok(call) => format!("{call:?}"),
                        Err(problem) => format!("{problem:?}"),
                    };
                    let (before, _) =
                        told.split_once("` invalid type").unwrap_or_else(|| panic!("{} {body}: {told}", spec.id));
                    let field = before.rsplit('`').next().unwrap();
                    // Serde buffers what is inside of a tagged enum, so that the enum is named instead.
                    let named = if path.is_empty() { field == "body" } else { path.starts_with(field) };
                    assert!(named, "{} {body}: {told}", spec.id);
                    tried += 1;
                }
            }
        }
        assert!(tried > 100, "only {tried} objects were found");
    }

    #[test]
    fn api_1_an_object_is_expected_by_its_name_on_the_wire() {
        for (body, detail) in [
            (r#"["mail"]"#, "`body` invalid type: sequence, expected an object"),
            (r#"7"#, "`body` invalid type: integer `7`, expected an object"),
            (r#"{"kind":"a","policy":[]}"#, "`policy` invalid type: sequence, expected an object"),
            (
                r#"{"kind":"a","policy":{"retry":{"backoff":["fixed",5]}}}"#,
                "`policy.retry.backoff` invalid type: sequence, expected an object",
            ),
            (r#"{"kind":"a","flow":[]}"#, "`flow` invalid type, expected a word or an object with one field"),
            (r#"{"kind":"a","tags":["a"]}"#, "`tags` invalid type: sequence, expected an object"),
            (
                r#"{"kind":"a","input":[1]}"#,
                "`input` invalid type: sequence, expected an object with one of `json`, `text` and `base64`",
            ),
        ] {
            let wire = Wire { body: body.into(), ..Wire::default() };
            assert_eq!(Call::from_wire("submit_execution", wire).unwrap_err().detail, detail);
        }
        let lists = json!({ "kind": "a", "capabilities": ["gpu"], "input": { "json": [1, 2] } }).to_string();
        assert!(Call::from_wire("submit_execution", Wire { body: lists.into(), ..Wire::default() }).is_ok());
    }
}
