//! Values as bytes and back. JSON unless somebody brings another format.

use crate::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use weft_api::Payload;
use weft_api::payload::is_json;

/// A format of values, for those who want another than JSON.
pub trait Codec {
    const CONTENT_TYPE: &'static str;
    type Error: Into<Box<dyn std::error::Error + Send + Sync>>;

    fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Self::Error>;
    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Self::Error>;
}

/// The payload of a value in the format `C`.
pub fn encode<C: Codec, T: Serialize + ?Sized>(value: &T) -> Result<Payload, Error> {
    let bytes = C::encode(value).map_err(|error| {
        let source = error.into();
        Error::decode(
            format!("cannot write a `{}` as {}: {source}", std::any::type_name::<T>(), C::CONTENT_TYPE),
            source,
        )
    })?;
    Ok(Payload::new(bytes, Some(C::CONTENT_TYPE.to_string())))
}

/// The value of a payload in the format `C`; nothing at all reads as no bytes. `what` names the payload if it is not such a
/// value.
pub(crate) fn decode<C: Codec, T: DeserializeOwned>(payload: Option<&Payload>, what: &str) -> Result<T, Error> {
    let bytes: &[u8] = payload.map_or(b"", |payload| &payload.bytes);
    C::decode(bytes).map_err(|error| {
        let source = error.into();
        let kind = payload.and_then(|payload| payload.content_type.as_deref());
        let kind = kind.filter(|kind| *kind != C::CONTENT_TYPE);
        let kind = kind.map_or_else(String::new, |kind| format!(" (it is `{kind}`)"));
        Error::decode(format!("cannot read {what} as {}{kind}: {source}", C::CONTENT_TYPE), source)
    })
}

pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> Result<Payload, Error> {
    Payload::json(value).map_err(|error| {
        Error::decode(format!("cannot write a `{}` as JSON: {error}", std::any::type_name::<T>()), error)
    })
}

/// The value of a JSON payload. Nothing at all reads as `null`. `what` names the payload if it is not such a value.
pub(crate) fn from_json<T: DeserializeOwned>(payload: Option<&Payload>, what: &str) -> Result<T, Error> {
    let bytes: &[u8] = payload.map_or(b"null", |payload| &payload.bytes);
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        let at = if field == "." { String::new() } else { format!(" at `{field}`") };
        let inner = error.into_inner();
        let kind = payload.and_then(|payload| payload.content_type.as_deref());
        let kind = kind.filter(|kind| !is_json(kind)).map_or_else(String::new, |kind| format!(" (it is `{kind}`)"));
        Error::decode(format!("cannot read {what}{at}{kind}: {inner}"), inner)
    })?;
    json.end().map_err(|error| Error::decode(format!("cannot read {what}: it goes on after its end"), error))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    struct Order {
        #[expect(dead_code, reason = "only decoded")]
        lines: Vec<u32>,
    }

    #[test]
    fn sdk_6_what_does_not_decode_names_the_field() {
        let payload = Payload::new(r#"{"lines":[1,"two"]}"#, Some("application/json".into()));
        let told = from_json::<Order>(Some(&payload), "the input").unwrap_err().to_string();
        assert!(told.contains("the input at `lines[1]`"), "{told}");
        let told = from_json::<Order>(Some(&Payload::text("hi")), "the input").unwrap_err().to_string();
        assert!(told.contains("text/plain"), "{told}");
    }

    #[test]
    fn nothing_reads_as_null() {
        from_json::<()>(None, "the input").unwrap();
        assert_eq!(from_json::<Option<u32>>(None, "the input").unwrap(), None);
    }
}
