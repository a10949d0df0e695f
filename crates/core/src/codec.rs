//! How a part becomes bytes: one version byte, then a compact binary form.
//!
//! Damaged bytes are an error that names the part; nothing damaged is ever read as zero, empty or default.

use crate::record::execution::Remnant;
use crate::schema::PartMask;
use bytes::Bytes;
use postcard::ser_flavors::Flavor;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::Cell;

/// The version that is written. Older ones stay readable; enum variants are only ever appended.
pub const VERSION: u8 = 1;

/// Bytes of a record that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("part `{part}` does not decode: {why}")]
pub struct DecodeError {
    pub part: &'static str,
    pub why: String,
    /// The bytes are whole, and say something that only a later version knows.
    pub is_unknown_policy: bool,
    /// The bytes are in a format that a later version writes: nothing is known to be wrong with them.
    pub is_newer: bool,
    /// What can still be read of a member of a flow.
    pub remnant: Option<Box<Remnant>>,
}

impl DecodeError {
    pub fn new(part: &'static str, why: impl Into<String>) -> Self {
        Self { part, why: why.into(), is_unknown_policy: false, is_newer: false, remnant: None }
    }

    /// A policy that this version does not know.
    pub fn unknown_policy(part: &'static str, why: impl Into<String>) -> Self {
        Self { is_unknown_policy: true, ..Self::new(part, why) }
    }
}

/// A record that can be built from the parts a store returned.
pub trait Decode: Sized {
    type Id;
    fn decode(id: Self::Id, parts: &[(u8, Bytes)], asked: PartMask) -> Result<Self, DecodeError>;
}

pub fn encode<T: Serialize>(value: &T) -> Bytes {
    encode_as(VERSION, value)
}

/// The same in another format version, of something whose shape has changed.
pub fn encode_as<T: Serialize>(version: u8, value: &T) -> Bytes {
    thread_local! {
        /// Used again and again: what is kept of a part is as long as it is, and nothing grows on the way.
        static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    let mut buffer = BUFFER.take();
    buffer.clear();
    buffer.push(version);
    postcard::serialize_with_flavor(value, Whole(&mut buffer))
        .expect("codec: records hold nothing that postcard refuses");
    let bytes = Bytes::copy_from_slice(&buffer);
    if buffer.capacity() <= BUFFER_MAX {
        BUFFER.set(buffer);
    }
    bytes
}

/// A buffer that is larger than this goes back to the allocator.
const BUFFER_MAX: usize = 1 << 20;

/// Takes runs of bytes as a whole; the library's own way to extend a vector takes them one by one.
struct Whole<'b>(&'b mut Vec<u8>);

impl Flavor for Whole<'_> {
    type Output = ();

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

pub fn decode<T: DeserializeOwned>(part: &'static str, bytes: &[u8]) -> Result<T, DecodeError> {
    decode_as(VERSION, part, bytes)
}

/// The same of bytes that must be in another format version.
pub fn decode_as<T: DeserializeOwned>(version: u8, part: &'static str, bytes: &[u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        Some((found, body)) if *found == version => {
            let (value, rest) =
                postcard::take_from_bytes(body).map_err(|error| DecodeError::new(part, error.to_string()))?;
            if !rest.is_empty() {
                return Err(DecodeError::new(part, format!("{} bytes left over", rest.len())));
            }
            Ok(value)
        }
        Some((found, _)) => {
            let why = format!("format version {found} is not known");
            Err(DecodeError { is_newer: *found > version, ..DecodeError::new(part, why) })
        }
        None => Err(DecodeError::new(part, "no bytes")),
    }
}

/// The bytes of part `index`, if the store returned it.
pub fn part(parts: &[(u8, Bytes)], index: u8) -> Option<&Bytes> {
    parts.iter().find(|(part, _)| *part == index).map(|(_, bytes)| bytes)
}

/// The decoded part, which every record of the kind has.
pub fn required<T: DeserializeOwned>(name: &'static str, parts: &[(u8, Bytes)], index: u8) -> Result<T, DecodeError> {
    let bytes = part(parts, index).ok_or_else(|| DecodeError::new(name, "is missing"))?;
    decode(name, bytes)
}

/// The decoded part, or `None` if the record has none.
pub fn optional<T: DeserializeOwned>(
    name: &'static str,
    parts: &[(u8, Bytes)],
    index: u8,
) -> Result<Option<T>, DecodeError> {
    part(parts, index).map(|bytes| decode(name, bytes)).transpose()
}
