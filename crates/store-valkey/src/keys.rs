//! The names of all keys. Every key of partition 7 begins with `<prefix>:{p7}`, so all of them are in one slot.
//!
//! | key | type | holds |
//! |---|---|---|
//! | `{p7}head` | string | `generation seq now` as decimal text |
//! | `{p7}feed` | stream | one entry per commit, `<seq>-0`: `c` its id, `e` its events |
//! | `{p7}commits` | hash | commit id → the head it left, or `x` if it is barred |
//! | `{p7}barred` | sorted set | barred ids by the time they were barred |
//! | `{p7}due` | sorted set | timers, in byte order of their places |
//! | `{p7}k:<table>` | sorted set | the keys of all records of a kind |
//! | `{p7}i:<index>` | sorted set | the places of an index |
//! | `{p7}<kind><part><key>` | string | one part of one record; part `a` begins with the revision |
//! | `{p0}meta` | hash | format, number of partitions and id of the store |
//!
//! The bytes of a record's key are written in base64url: none of them can be a brace, a NUL or a separator.

use weft_core::PartitionId;
use weft_core::record::Key;
use weft_core::schema::{IndexId, Kind};
use weft_store::Target;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The names of one store.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: String,
}

impl Keys {
    pub fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    pub fn of(&self, partition: PartitionId) -> PartitionKeys {
        PartitionKeys { base: format!("{}:{{p{partition}}}", self.prefix).into_bytes() }
    }

    pub fn meta(&self) -> String {
        format!("{}:{{p0}}meta", self.prefix)
    }

    /// Matches every key of this store and no other; a prefix has no character that a pattern knows.
    pub fn pattern(&self) -> String {
        format!("{}:{{p*", self.prefix)
    }

    /// Where wake-ups are published.
    pub fn channel(&self) -> String {
        format!("{}:wake", self.prefix)
    }
}

/// The names of one partition.
#[derive(Clone, Debug)]
pub struct PartitionKeys {
    base: Vec<u8>,
}

impl PartitionKeys {
    pub fn head(&self) -> Vec<u8> {
        self.named("head")
    }

    pub fn feed(&self) -> Vec<u8> {
        self.named("feed")
    }

    pub fn commits(&self) -> Vec<u8> {
        self.named("commits")
    }

    pub fn barred(&self) -> Vec<u8> {
        self.named("barred")
    }

    pub fn due(&self) -> Vec<u8> {
        self.named("due")
    }

    /// A name under which nothing is ever stored.
    pub fn nothing(&self) -> Vec<u8> {
        self.named("nothing")
    }

    pub fn kind(&self, kind: Kind) -> Vec<u8> {
        self.named(&format!("k:{}", kind.table().name))
    }

    /// An index without facets is the list of its kind.
    pub fn index(&self, index: IndexId) -> Vec<u8> {
        let index = index.get();
        match index.facets.is_empty() && index.when.is_none() {
            true => self.kind(index.kind),
            false => self.named(&format!("i:{}", index.name)),
        }
    }

    pub fn target(&self, target: Target) -> Vec<u8> {
        match target {
            Target::Index(index) => self.index(index),
            Target::Due => self.due(),
            Target::Records(kind) => self.kind(kind),
            Target::Feed => self.feed(),
        }
    }

    /// Appends the name of a part of a record.
    pub fn write_part(&self, key: &Key, part: u8, out: &mut Vec<u8>) {
        self.write_part_of(key.kind() as u8, key.to_bytes().as_slice(), part, out);
    }

    pub fn write_part_of(&self, kind: u8, key: &[u8], part: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.base);
        if kind >= 10 {
            out.extend_from_slice(kind.to_string().as_bytes());
        } else {
            out.push(b'0' + kind);
        }
        // A letter, so that it ends the number before it. There are at most 16 parts.
        out.push(b'a' + part);
        encode(key, out);
    }

    fn named(&self, name: &str) -> Vec<u8> {
        [&self.base, name.as_bytes()].concat()
    }
}

/// Base64url without padding.
fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0, |group: u32, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        let letters = [18, 12, 6, 0].map(|shift| ALPHABET[(group >> shift & 63) as usize]);
        out.extend_from_slice(&letters[..=chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::slot;
    use std::collections::BTreeSet;

    fn part_of(keys: &PartitionKeys, kind: u8, key: &[u8], part: u8) -> Vec<u8> {
        let mut name = Vec::new();
        keys.write_part_of(kind, key, part, &mut name);
        name
    }

    fn all_keys(keys: &PartitionKeys) -> Vec<Vec<u8>> {
        let mut all = vec![keys.head(), keys.feed(), keys.commits(), keys.barred(), keys.due(), keys.nothing()];
        all.extend(Kind::ALL.map(|kind| keys.kind(kind)));
        all.extend(IndexId::ALL.iter().filter(|index| !index.get().facets.is_empty()).map(|index| keys.index(*index)));
        // Every byte alone, in pairs with braces and NUL, and in longer names.
        for byte in 0..=255u8 {
            for key in [&[byte][..], &[byte, b'}'], &[b'{', byte], &[0, byte], &[byte; 16], &[byte; 32], b"{p9}", b""] {
                for (kind, part) in [(1, 0), (1, 15), (2, 0), (11, 0), (255, 7)] {
                    all.push(part_of(keys, kind, key, part));
                }
            }
        }
        all
    }

    #[test]
    fn sec_9_every_key_of_a_partition_has_its_slot() {
        for (prefix, number) in [("weft", 0), ("a:b", 7), ("x", 1023)] {
            let keys = Keys::new(prefix).of(PartitionId(number));
            let home = slot(format!("p{number}").as_bytes());
            for key in all_keys(&keys) {
                assert_eq!(slot(&key), home, "{}", String::from_utf8_lossy(&key));
                let after_tag = key.iter().position(|byte| *byte == b'}').unwrap() + 1;
                let named = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:".contains(byte);
                assert!(key[after_tag..].iter().all(named), "only plain letters follow the tag");
            }
        }
    }

    #[test]
    fn sec_9_no_two_records_share_a_key() {
        let keys = Keys::new("weft").of(PartitionId(3));
        let mut seen = BTreeSet::new();
        let mut expected = 0;
        for kind in [1, 2, 11, 12, 111] {
            for part in 0..16 {
                for key in
                    [&b""[..], b"\0", b"\0\0", b"\0\0\0", b"a", b"ab", b"abc", b"abcd", b"{", b"}", b"\xff", b"1a"]
                {
                    expected += 1;
                    seen.insert(part_of(&keys, kind, key, part));
                }
            }
        }
        for byte in 0..=255u8 {
            for key in [vec![byte, byte], vec![byte, 0], vec![1, byte, 2, 3]] {
                seen.insert(part_of(&keys, 9, &key, 0));
            }
        }
        // [0, 0] is its own pair: one name less.
        assert_eq!(seen.len(), expected + 256 * 3 - 1);
        let plain = [keys.head(), keys.feed(), keys.commits(), keys.barred(), keys.due()];
        assert!(plain.iter().all(|key| !seen.contains(key)));
    }

    #[test]
    fn the_pattern_of_a_store_matches_its_keys_alone() {
        let keys = Keys::new("a:b");
        assert_eq!((keys.pattern().as_str(), keys.meta().as_str()), ("a:b:{p*", "a:b:{p0}meta"));
        assert_eq!(keys.of(PartitionId(7)).head(), b"a:b:{p7}head");
        assert_eq!(part_of(&keys.of(PartitionId(7)), 1, b"\0\x10\x83", 1), b"a:b:{p7}1bABCD");
    }
}
