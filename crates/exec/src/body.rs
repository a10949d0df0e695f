//! Bytes with what they are.

use bytes::Bytes;
use serde::de::IgnoredAny;

pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const BYTES: &str = "application/octet-stream";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub bytes: Bytes,
    pub content_type: String,
}

impl Body {
    pub fn new(bytes: impl Into<Bytes>, content_type: &str) -> Body {
        Body { bytes: bytes.into(), content_type: content_type.to_owned() }
    }

    /// What these bytes look like: JSON if they parse as it, text if they are UTF-8, else bytes. They stay as they are.
    pub fn guess(bytes: Bytes) -> Body {
        let content_type = if serde_json::from_slice::<IgnoredAny>(&bytes).is_ok() {
            JSON
        } else if std::str::from_utf8(&bytes).is_ok() {
            TEXT
        } else {
            BYTES
        };
        Body::new(bytes, content_type)
    }
}
