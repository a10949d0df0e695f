//! Names and tokens: the one validator for what is required and what is offered.
//!
//! Compared byte by byte, never folded or trimmed.

use crate::error::Rejection;
use crate::limits::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Shared text; clones are cheap, because records are cloned whenever a command touches them.
pub type Text = Arc<str>;

/// The lane of whoever names none.
pub const LANE_DEFAULT: &str = "default";

/// Namespace or lane: `[A-Za-z0-9][A-Za-z0-9._:/@-]*`, at most `NAME_MAX` bytes.
pub fn check_name(field: &'static str, text: &str) -> Result<(), Rejection> {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = bytes.all(|b| b.is_ascii_alphanumeric() || b"._:/@-".contains(&b));
    if !first || !rest {
        return Err(Rejection::invalid(field, "must match [A-Za-z0-9][A-Za-z0-9._:/@-]* and not be empty"));
    }
    if text.len() > NAME_MAX {
        return Err(Rejection::invalid(field, "is longer than 64 bytes"));
    }
    Ok(())
}

/// Kind, category, tag key, capability: printable ASCII without a comma, not empty, at most `max` bytes.
pub fn check_token(field: &'static str, text: &str, max: usize) -> Result<(), Rejection> {
    if text.is_empty() {
        return Err(Rejection::invalid(field, "is empty"));
    }
    if text.len() > max {
        return Err(Rejection::invalid(field, "is too long"));
    }
    if !text.bytes().all(|b| (0x21..=0x7e).contains(&b) && b != b',') {
        return Err(Rejection::invalid(field, "must be printable ASCII without spaces and commas"));
    }
    Ok(())
}

/// Printable ASCII, spaces too, not empty, at most `max` bytes.
pub fn check_printable(field: &'static str, text: &str, max: usize) -> Result<(), Rejection> {
    if text.is_empty() || !text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
        return Err(Rejection::invalid(field, "must be printable ASCII and not empty"));
    }
    check_size(field, text.len(), max)
}

/// Free text of at most `max` bytes.
pub fn check_text(field: &'static str, text: &str, max: usize) -> Result<(), Rejection> {
    check_size(field, text.len(), max)
}

/// A key of 1 to `KEY_MAX` bytes of any value.
pub fn check_key(field: &'static str, key: &[u8]) -> Result<(), Rejection> {
    if key.is_empty() {
        return Err(Rejection::invalid(field, "is empty"));
    }
    check_size(field, key.len(), KEY_MAX)
}

pub fn check_size(field: &'static str, got: usize, limit: usize) -> Result<(), Rejection> {
    if got > limit {
        return Err(Rejection::PayloadTooLarge { field, limit: limit as u64, got: got as u64 });
    }
    Ok(())
}

pub fn check_range(field: &'static str, value: u64, min: u64, max: u64) -> Result<(), Rejection> {
    if !(min..=max).contains(&value) {
        return Err(Rejection::OutOfRange { field, min, max, got: value });
    }
    Ok(())
}

/// Tags as a whole: count, keys, values, and the reserved prefix.
pub fn check_tags(tags: &BTreeMap<Text, Text>) -> Result<(), Rejection> {
    if tags.len() > TAGS_MAX {
        return Err(Rejection::invalid("tags", "has more than 64 entries"));
    }
    for (key, value) in tags {
        check_tag(key, value)?;
    }
    Ok(())
}

pub fn check_tag(key: &str, value: &str) -> Result<(), Rejection> {
    check_token("tags", key, TAG_KEY_MAX)?;
    if key.starts_with("weft.") {
        return Err(Rejection::invalid("tags", "the prefix `weft.` is reserved"));
    }
    check_text("tags", value, TAG_VALUE_MAX)
}

/// A set of capability tokens, kept as its canonical text (sorted, joined by commas), which is also its index value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct Capabilities(Text);

impl Default for Capabilities {
    fn default() -> Self {
        Self(Text::from(""))
    }
}

impl Capabilities {
    /// Checks, sorts and merges duplicates. Whatever can be required can be offered.
    pub fn new<T: AsRef<str>>(tokens: impl IntoIterator<Item = T>) -> Result<Self, Rejection> {
        let mut set = std::collections::BTreeSet::new();
        for token in tokens {
            check_token("capabilities", token.as_ref(), CAP_TOKEN_MAX)?;
            set.insert(token.as_ref().to_owned());
        }
        if set.len() > CAPS_MAX {
            return Err(Rejection::invalid("capabilities", "has more than 64 tokens"));
        }
        let joined = set.into_iter().collect::<Vec<_>>().join(",");
        check_size("capabilities", joined.len(), CAPS_JOINED_MAX)?;
        Ok(Self(joined.into()))
    }

    /// Takes a canonical text as it stands in an index.
    pub fn from_joined(text: Text) -> Self {
        Self(text)
    }

    pub fn joined(&self) -> &Text {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.0.split(',').filter(|token| !token.is_empty())
    }

    pub fn len(&self) -> usize {
        self.tokens().count()
    }

    /// True if every token of `self` is offered. Both sides are sorted, so one walk decides.
    pub fn is_subset_of(&self, offered: &Capabilities) -> bool {
        let mut offered = offered.tokens();
        self.tokens().all(|token| offered.by_ref().any(|other| other == token))
    }

    /// The tokens of `self` that `offered` lacks.
    pub fn missing_from<'a>(&'a self, offered: &'a Capabilities) -> impl Iterator<Item = &'a str> {
        self.tokens().filter(|token| !offered.tokens().any(|other| other == *token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sd_17_a_subset_matches_and_nothing_else() {
        let caps = |list: &[&str]| Capabilities::new(list).unwrap();
        assert!(caps(&[]).is_subset_of(&caps(&[])));
        assert!(caps(&[]).is_subset_of(&caps(&["a"])));
        assert!(!caps(&["a"]).is_subset_of(&caps(&[])));
        assert!(caps(&["b", "a"]).is_subset_of(&caps(&["c", "b", "a"])));
        assert!(!caps(&["a", "d"]).is_subset_of(&caps(&["a", "b", "c"])));
        assert!(!caps(&["torch"]).is_subset_of(&caps(&["torch>=2.3"])));
    }

    #[test]
    fn sd_18_bad_tokens_are_refused_and_duplicates_merged() {
        assert!(Capabilities::new(["a b"]).is_err());
        assert!(Capabilities::new(["a,b"]).is_err());
        assert!(Capabilities::new([""]).is_err());
        assert!(Capabilities::new(["x".repeat(65)]).is_err());
        assert!(Capabilities::new((0..65).map(|n| n.to_string())).is_err());
        assert_eq!(Capabilities::new(["b", "a", "b"]).unwrap().joined().as_ref(), "a,b");
    }

    #[test]
    fn names_are_checked_byte_by_byte() {
        for good in ["a", "A.b", "0:x/y@z-_".trim_end_matches('_'), "mail"] {
            assert!(check_name("lane", good).is_ok(), "{good}");
        }
        for bad in ["", ".a", "-a", "a b", "ä", "a{b", "a\0"] {
            assert!(check_name("lane", bad).is_err(), "{bad:?}");
        }
        assert!(check_name("lane", &"a".repeat(64)).is_ok());
        assert!(check_name("lane", &"a".repeat(65)).is_err());
    }
}
