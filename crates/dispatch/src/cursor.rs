//! Cursors as callers see them: opaque, and good only for the list they came from.

use data_encoding::BASE64URL_NOPAD;
use serde::Serialize;
use sha2::{Digest, Sha256};
use weft_api::{Code, Problem};

/// What a cursor is good for: an operation with these filters in this namespace.
pub struct Bound([u8; 8]);

impl Bound {
    pub fn new(operation: &str, namespace: &str, filters: &(impl Serialize + ?Sized)) -> Self {
        let mut hash = Sha256::new();
        for part in [operation.as_bytes(), namespace.as_bytes()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.update(serde_json::to_vec(filters).expect("cursor: filters are JSON"));
        let digest = hash.finalize();
        Self(digest[..8].try_into().expect("cursor: a digest has more than 8 bytes"))
    }

    pub fn seal(&self, inner: &str) -> String {
        let mut bytes = self.0.to_vec();
        bytes.extend_from_slice(inner.as_bytes());
        BASE64URL_NOPAD.encode(&bytes)
    }

    pub fn open(&self, cursor: &str) -> Result<String, Problem> {
        let opened = || {
            let bytes = BASE64URL_NOPAD.decode(cursor.as_bytes()).ok()?;
            let inner = bytes.strip_prefix(&self.0)?;
            String::from_utf8(inner.to_vec()).ok()
        };
        opened().ok_or_else(|| {
            Problem::new(Code::InvalidCursor, "the cursor is not one that this list gave out")
                .hint("begin again without a cursor, or with the filters it was made with")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_11_a_cursor_is_good_for_its_own_list_only() {
        let bound = Bound::new("list", "shop", &[("lane", "mail")]);
        let cursor = bound.seal("17.abc");
        assert_eq!(bound.open(&cursor).unwrap(), "17.abc");
        for other in [
            Bound::new("count", "shop", &[("lane", "mail")]),
            Bound::new("list", "bank", &[("lane", "mail")]),
            Bound::new("list", "shop", &[("lane", "post")]),
        ] {
            assert_eq!(other.open(&cursor).unwrap_err().code, Code::InvalidCursor);
        }
        assert!(bound.open("§").is_err() && bound.open("").is_err());
    }
}
