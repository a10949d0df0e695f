//! Bytes of a caller: inputs, results, checkpoints, steps. On the wire an object that says how they are written:
//! `{"json": …}`, `{"text": "…"}` or `{"base64": "…", "type": "image/png"}`. JSON keeps its exact bytes.

use bytes::Bytes;
use data_encoding::BASE64;
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, SchemaType};
use utoipa::openapi::{RefOr, Schema, Type};

pub const JSON: &str = "application/json";
pub const TEXT: &str = "text/plain; charset=utf-8";

/// Bytes with their content type. Absent and empty differ: absent is a missing field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    pub bytes: Bytes,
    pub content_type: Option<String>,
}

impl Payload {
    pub fn new(bytes: impl Into<Bytes>, content_type: Option<String>) -> Self {
        Self { bytes: bytes.into(), content_type }
    }

    pub fn json<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::new(serde_json::to_vec(value)?, Some(JSON.to_string())))
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::new(text.into(), Some(TEXT.to_string()))
    }

    fn form(&self) -> Form<'_> {
        let kind = self.content_type.as_deref().unwrap_or_default();
        if is_json(kind)
            && let Ok(raw) = serde_json::from_slice::<&RawValue>(&self.bytes)
            // Space around the value belongs to the bytes and would be lost.
            && raw.get().len() == self.bytes.len()
        {
            return Form::Json(raw);
        }
        match std::str::from_utf8(&self.bytes) {
            Ok(text) if kind.starts_with("text/") => Form::Text(text),
            _ => Form::Base64,
        }
    }
}

/// True for `application/json` and its relatives, with or without parameters.
pub fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case(JSON) || essence.ends_with("+json")
}

enum Form<'a> {
    Json(&'a RawValue),
    Text(&'a str),
    Base64,
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let implied = match self.form() {
            Form::Json(raw) => {
                map.serialize_entry("json", raw)?;
                Some(JSON)
            }
            Form::Text(text) => {
                map.serialize_entry("text", text)?;
                Some(TEXT)
            }
            Form::Base64 => {
                map.serialize_entry("base64", &BASE64.encode(&self.bytes))?;
                None
            }
        };
        if let Some(kind) = self.content_type.as_deref().filter(|kind| Some(*kind) != implied) {
            map.serialize_entry("type", kind)?;
        }
        map.end()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with one of `json`, `text` and `base64`")]
struct Wire {
    #[serde(default, deserialize_with = "present")]
    json: Option<Box<RawValue>>,
    text: Option<String>,
    base64: Option<String>,
    r#type: Option<String>,
}

/// `null` is a JSON value like any other here, not an absent field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl<'de> Deserialize<'de> for Payload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::deserialize(deserializer)?;
        let (bytes, implied) = match (wire.json, wire.text, wire.base64) {
            (Some(raw), None, None) => (Bytes::from(String::from(Box::<str>::from(raw))), Some(JSON)),
            (None, Some(text), None) => (Bytes::from(text), Some(TEXT)),
            (None, None, Some(text)) => match BASE64.decode(text.as_bytes()) {
                Ok(bytes) => (Bytes::from(bytes), None),
                Err(error) => return Err(D::Error::custom(format!("is not base64: {error}"))),
            },
            _ => return Err(D::Error::custom("has exactly one of `json`, `text` and `base64`")),
        };
        Ok(Self { bytes, content_type: wire.r#type.or_else(|| implied.map(str::to_string)) })
    }
}

impl utoipa::PartialSchema for Payload {
    fn schema() -> RefOr<Schema> {
        let form = |field: &str, value: ObjectBuilder| {
            ObjectBuilder::new()
                .property(field, value)
                .property("type", ObjectBuilder::new().schema_type(Type::String))
                .required(field)
                .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        };
        let text = || ObjectBuilder::new().schema_type(Type::String);
        let any = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
        OneOfBuilder::new()
            .item(form("json", any))
            .item(form("text", text()))
            .item(form("base64", text().pattern(Some(BASE64_PATTERN))))
            .description(Some("Bytes, written as JSON, as text or as base64; `type` is their content type"))
            .into()
    }
}

const BASE64_PATTERN: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

impl utoipa::ToSchema for Payload {}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(payload: &Payload) -> Payload {
        let text = serde_json::to_string(payload).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn api_5_bytes_come_back_bit_for_bit_in_every_form() {
        let all: Vec<u8> = (0..=255).collect();
        for payload in [
            Payload::new(all, None),
            Payload::new("", None),
            Payload::new("{\"a\": 1.0000000000000000001 ,\"b\":[ ]}", Some(JSON.into())),
            Payload::new(" 1 ", Some(JSON.into())),
            Payload::new("not json", Some(JSON.into())),
            Payload::new("null", Some(JSON.into())),
            Payload::new("{}", Some("application/problem+json".into())),
            Payload::text("grüße\n"),
            Payload::new("a,b", Some("text/csv".into())),
            Payload::new(vec![0xff], Some("text/plain".into())),
        ] {
            assert_eq!(back(&payload), payload);
        }
    }

    #[test]
    fn api_5_json_is_readable_where_it_can_be() {
        let of = |bytes: &str, kind: &str| {
            serde_json::to_string(&Payload::new(bytes.to_string(), Some(kind.into()))).unwrap()
        };
        assert_eq!(of("{\"a\": 1}", JSON), r#"{"json":{"a": 1}}"#);
        assert_eq!(of("hi", TEXT), r#"{"text":"hi"}"#);
        assert_eq!(of("hi", "application/pdf"), r#"{"base64":"aGk=","type":"application/pdf"}"#);
    }

    #[test]
    fn a_payload_of_two_forms_or_none_is_refused() {
        for text in [r#"{"json":1,"text":"1"}"#, "{}", r#"{"base64":"a"}"#, r#"{"jsn":1}"#] {
            assert!(serde_json::from_str::<Payload>(text).is_err(), "{text}");
        }
    }
}
