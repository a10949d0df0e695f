//! Numbers that programs with 53 bits for them cannot hold, as text: written so in replies, read so in requests, for
//! whoever asks for it. What callers keep under `json` is theirs and stays as it is.

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};
use std::fmt;
use std::ops::Range;

/// The largest number up to which all are held exactly.
const EXACT_MAX: u128 = 1 << 53;
/// No fewer digits can be more.
const DIGITS_MIN: usize = 16;

/// The reply with its large numbers as text. None if it has none.
pub fn with_big_as_text(reply: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while at < reply.len() {
        match reply[at] {
            b'"' => {
                let text = text_at(reply, at);
                at = text.end;
                if &reply[text] == br#""json""# && reply.get(at) == Some(&b':') {
                    at = value_end(reply, at + 1);
                }
            }
            b'-' | b'0'..=b'9' => {
                let number = number_at(reply, at);
                at = number.end;
                if is_big(&reply[number.clone()]) {
                    out.extend_from_slice(&reply[copied..number.start]);
                    out.push(b'"');
                    out.extend_from_slice(&reply[number.clone()]);
                    out.push(b'"');
                    copied = number.end;
                }
            }
            _ => at += 1,
        }
    }
    (copied > 0).then(|| {
        out.extend_from_slice(&reply[copied..]);
        out
    })
}

/// A text with its quotes.
fn text_at(json: &[u8], from: usize) -> Range<usize> {
    let mut at = from + 1;
    while at < json.len() {
        match json[at] {
            b'\\' => at += 2,
            b'"' => return from..at + 1,
            _ => at += 1,
        }
    }
    from..json.len()
}

fn number_at(json: &[u8], from: usize) -> Range<usize> {
    let rest = json[from..].iter().take_while(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
    from..from + rest.count()
}

fn is_big(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let whole = digits.len() >= DIGITS_MIN && digits.iter().all(u8::is_ascii_digit);
    let value = || std::str::from_utf8(digits).ok()?.parse::<u128>().ok();
    // What does not even fit into 128 bits is large.
    whole && value().is_none_or(|value| value > EXACT_MAX)
}

/// Where the value ends that begins at `from`, or after the space there.
fn value_end(json: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0usize);
    while at < json.len() {
        match json[at] {
            b'"' => at = text_at(json, at).end,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            // The end of what surrounds it.
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ => at += 1,
        }
    }
    at
}

/// Reads what another deserializer gives, and takes text for a number of 64 bits.
pub struct Texts<D>(pub D);

/// Passes on what a value of another type is read from, so that what is inside of it is read so too.
struct Inside<V>(V);

macro_rules! passed_on {
    ($($method:ident),+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Inside(visitor))
        })+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Texts<D> {
    type Error = D::Error;

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Number(visitor))
    }

    passed_on! {
        deserialize_any, deserialize_bool, deserialize_i8, deserialize_i16, deserialize_i32, deserialize_i64,
        deserialize_i128, deserialize_u8, deserialize_u16, deserialize_u32, deserialize_u128, deserialize_f32,
        deserialize_f64, deserialize_char, deserialize_str, deserialize_string, deserialize_bytes,
        deserialize_byte_buf, deserialize_option, deserialize_unit, deserialize_seq, deserialize_map,
        deserialize_identifier, deserialize_ignored_any
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, Inside(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, Inside(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, Inside(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, len, Inside(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Inside(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, Inside(visitor))
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
            self.0.$method(value)
        })+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Inside<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visited! {
        visit_bool bool, visit_i8 i8, visit_i16 i16, visit_i32 i32, visit_i64 i64, visit_i128 i128, visit_u8 u8,
        visit_u16 u16, visit_u32 u32, visit_u64 u64, visit_u128 u128, visit_f32 f32, visit_f64 f64, visit_char char,
        visit_str &str, visit_borrowed_str &'de str, visit_string String, visit_bytes &[u8],
        visit_borrowed_bytes &'de [u8], visit_byte_buf Vec<u8>
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Texts(inner))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Texts(inner))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Inside(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Inside(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, variant: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Inside(variant))
    }
}

/// What is read from a part of the whole.
struct Seed<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Texts(inner))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Seed(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Seed(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Inside<A> {
    type Error = A::Error;
    type Variant = Inside<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.0.variant_seed(seed)?;
        Ok((value, Inside(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Inside<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Seed(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Inside(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Inside(visitor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::json_with;
    use crate::operation::Body;
    use crate::page::Batch;
    use crate::work::{Claim, FailItem, RenewItem, RetryWish};
    use bytes::Bytes;

    fn written(reply: &str) -> String {
        with_big_as_text(reply.as_bytes()).map_or_else(|| reply.to_string(), |text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn api_4_numbers_beyond_53_bits_are_written_as_text_and_others_are_not() {
        for (reply, expected) in [
            (
                r#"{"a":9007199254740993,"b":[1,9007199254740992]}"#,
                r#"{"a":"9007199254740993","b":[1,9007199254740992]}"#,
            ),
            (r#"[18446744073709551615,-9007199254740993]"#, r#"["18446744073709551615","-9007199254740993"]"#),
            (r#"[1.00000000000000000001,9007199254740993e2]"#, r#"[1.00000000000000000001,9007199254740993e2]"#),
            (
                r#"{"9007199254740993":"9007199254740993 \" 9007199254740993"}"#,
                r#"{"9007199254740993":"9007199254740993 \" 9007199254740993"}"#,
            ),
            ("99999999999999999999999999999999999999999999999", "\"99999999999999999999999999999999999999999999999\""),
        ] {
            assert_eq!(written(reply), expected);
        }
    }

    #[test]
    fn api_4_what_callers_keep_stays_as_it_is() {
        let kept = r#"{"input":{"json":{"a":[9007199254740993,"]}",{"json":1}] , "b":9007199254740993}},"epoch":"#;
        assert_eq!(written(&format!("{kept}9007199254740993}}")), format!("{kept}\"9007199254740993\"}}"));
        let bare = r#"[{"json":9007199254740993},{"json": 9007199254740993 ,"type":"a"}]"#;
        assert_eq!(written(bare), bare);
    }

    #[test]
    fn api_4_text_is_taken_for_a_number_of_64_bits_and_for_nothing_else() {
        let text =
            r#"{"items":[{"execution":"7","epoch":"18446744073709551615","checkpoint":{"json":{"epoch" : "7"}}}]}"#;
        let batch: Batch<RenewItem> = json_with("", text.as_bytes(), true).unwrap();
        let item = &batch.items[0];
        assert_eq!((item.execution.as_str(), item.epoch), ("7", Some(u64::MAX)));
        assert_eq!(item.checkpoint.as_ref().unwrap().bytes, r#"{"epoch" : "7"}"#);
        let item: FailItem = json_with("", br#"{"execution":"x","retry":{"after_ms":"5"},"epoch":3}"#, true).unwrap();
        assert_eq!((item.retry, item.epoch), (Some(RetryWish::AfterMs(5)), Some(3)));
        for (wrong, field) in [
            (r#"{"worker":"a","instance":"b","session":"x"}"#, "session"),
            (r#"{"worker":"a","instance":"b","session":"-1"}"#, "session"),
            (r#"{"worker":"a","instance":"b","session":"18446744073709551616"}"#, "session"),
            (r#"{"worker":"a","instance":"b","max":"1"}"#, "max"),
            (r#"{"worker":"a","instance":"b","sesion":"1"}"#, "sesion"),
        ] {
            let problem = json_with::<Claim>("", wrong.as_bytes(), true).unwrap_err();
            assert_eq!(problem.fields["field"].as_str(), Some(field), "{problem}");
        }
        let unasked = Bytes::from_static(br#"{"worker":"a","instance":"b","session":"1"}"#);
        assert!(Claim::from_json(&unasked).is_err(), "nobody asked for it");
    }
}
