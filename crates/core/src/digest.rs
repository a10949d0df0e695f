//! Stable hashes: keys of dedup records and fingerprints of bodies. Parts are length-prefixed, so that namespace "a"
//! with key "b:c" never meets "a:b" with "c".

use crate::id::ExecutionId;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// SHA-256 over the parts, each after its length.
pub fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The name of an idempotency binding: unique to the parent for a child, to the namespace for all others.
pub fn idempotency(namespace: &str, parent: Option<ExecutionId>, key: &[u8]) -> [u8; 32] {
    match parent {
        Some(parent) => digest(&[b"key of child", namespace.as_bytes(), parent.uuid().as_bytes(), key]),
        None => digest(&[b"key", namespace.as_bytes(), key]),
    }
}

/// The name of the binding of a flow's idempotency key.
pub fn flow_key(namespace: &str, key: &[u8]) -> [u8; 32] {
    digest(&[b"key of flow", namespace.as_bytes(), key])
}

/// The name of a kept reply.
pub fn request(namespace: &str, principal: &str, verb: &str, request_id: &[u8]) -> [u8; 32] {
    digest(&[b"request", namespace.as_bytes(), principal.as_bytes(), verb.as_bytes(), request_id])
}

/// The name of a recorded step: unique to the execution and to the run that began with the number `since`.
pub fn step(execution: ExecutionId, since: u32, name: &str) -> [u8; 32] {
    digest(&[b"step", execution.uuid().as_bytes(), &since.to_be_bytes(), name.as_bytes()])
}

/// The name of a worker process's record.
pub fn worker(namespace: &str, instance: &str) -> [u8; 32] {
    digest(&[b"worker", namespace.as_bytes(), instance.as_bytes()])
}

/// The number by which a submission with this key is placed: its partition is the remainder by their number. Keys with
/// the same text between their first `{` and the `}` after it go together, so that a batch of them is one commit.
pub fn place(namespace: &str, key: &[u8]) -> u64 {
    let digest = digest(&[namespace.as_bytes(), tag(key).unwrap_or(key)]);
    u64::from_be_bytes(*digest.first_chunk().expect("digest: it has 32 bytes"))
}

/// What stands between the first braces, if it is anything.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let from = key.iter().position(|byte| *byte == b'{')? + 1;
    let length = key[from..].iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
    Some(&key[from..from + length])
}

/// What two equal bodies have in common.
pub fn fingerprint<T: Serialize>(body: &T) -> [u8; 32] {
    let bytes = postcard::to_allocvec(body).expect("digest: commands hold nothing that postcard refuses");
    Sha256::digest(&bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_one_tag_are_placed_together_and_are_different_keys() {
        let of = |key: &[u8]| place("shop", key);
        assert_eq!(of(b"{batch}1"), of(b"{batch}2"));
        assert_eq!(of(b"{batch}1"), of(b"a{batch}{other}"), "the first braces count");
        assert_ne!(idempotency("shop", None, b"{batch}1"), idempotency("shop", None, b"{batch}2"));
        for (one, other) in [(&b"{}1"[..], &b"{}2"[..]), (b"{1", b"{2"), (b"}1{", b"}2{"), (b"{a}", b"{b}")] {
            assert_ne!(of(one), of(other));
        }
    }

    #[test]
    fn ex_27_parts_do_not_run_into_each_other() {
        assert_ne!(digest(&[b"a", b"b:c"]), digest(&[b"a:b", b"c"]));
        assert_ne!(digest(&[b"ab", b""]), digest(&[b"a", b"b"]));
        assert_ne!(digest(&[b"a"]), digest(&[b"a", b""]));
        assert_ne!(idempotency("a", None, b"b"), request("a", "b", "", b""));
    }
}
