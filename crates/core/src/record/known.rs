//! Policies of a later version. Bytes that name one are whole, and are told apart from damage: nobody takes them for the
//! default, and nobody takes them for rot.

use super::flow::{FailurePolicy, State};
use super::member::{GroupPolicy, GroupState, Owed, Then};
use crate::codec::VERSION;
use crate::id::FlowId;
use crate::text::Text;
use crate::time::Time;
use serde::de::DeserializeOwned;

/// How many variants this version knows of each.
const FAILURE: u32 = 3;
const COMPLETION: u32 = 4;
const REMAINING: u32 = 3;
const MODE: u32 = 2;
const GROWTH: u32 = 2;
const GROUP: u32 = 3;
const THEN: u32 = 2;

/// The policy in the definition of a flow that is not known; `None` if something else is wrong with it.
pub(super) fn definition(bytes: &[u8]) -> Option<String> {
    let mut walk = Walk::of(bytes)?;
    walk.take::<(Text, Text, Option<Text>, Text, Time)>()?;
    if let unknown @ Some(_) = walk.failure() {
        return unknown;
    }
    walk.take::<FailurePolicy>()?;
    walk.completion()
}

/// The same for what changes of a flow.
pub(super) fn hot(bytes: &[u8]) -> Option<String> {
    let mut walk = Walk::of(bytes)?;
    walk.take::<(State, Option<u32>)>()?;
    walk.unknown("growth", GROWTH)
}

/// The same for the groups of a member.
pub(super) fn member(bytes: &[u8]) -> Option<String> {
    let mut walk = Walk::of(bytes)?;
    walk.take::<(FlowId, Text, u32, bool, u64, bool, u32, u32, bool)>()?;
    for _ in 0..walk.take::<u64>()? {
        walk.take::<Text>()?;
        if let unknown @ Some(_) = walk.unknown("group policy", GROUP) {
            return unknown;
        }
        walk.take::<GroupPolicy>()?;
        if let unknown @ Some(_) = walk.then() {
            return unknown;
        }
        walk.take::<(Then, u32, u32, u32, GroupState, u32, Option<Time>, bool, Option<Owed>)>()?;
    }
    None
}

/// What is left to read.
#[derive(Clone, Copy)]
struct Walk<'a>(&'a [u8]);

impl<'a> Walk<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        bytes.split_first().filter(|(version, _)| **version == VERSION).map(|(_, body)| Walk(body))
    }

    fn take<T: DeserializeOwned>(&mut self) -> Option<T> {
        let (value, rest) = postcard::take_from_bytes(self.0).ok()?;
        self.0 = rest;
        Some(value)
    }

    /// What comes next, if it is none of so many variants.
    fn unknown(mut self, what: &str, known: u32) -> Option<String> {
        let number: u32 = self.take()?;
        (number >= known).then(|| format!("{what} {number} is not known to this version"))
    }

    fn failure(mut self) -> Option<String> {
        self.unknown("failure policy", FAILURE).or_else(|| match self.take()? {
            1u32 => self.remaining(),
            _ => None,
        })
    }

    fn completion(mut self) -> Option<String> {
        self.unknown("completion policy", COMPLETION).or_else(|| {
            match self.take()? {
                0u32 => return None,
                1 => drop(self.take::<Text>()?),
                2 => drop(self.take::<u32>()?),
                _ => {}
            }
            self.remaining()
        })
    }

    fn remaining(mut self) -> Option<String> {
        self.unknown("what becomes of the remaining", REMAINING).or_else(|| match self.take()? {
            2u32 => self.unknown("mode of a cancel", MODE),
            _ => None,
        })
    }

    fn then(mut self) -> Option<String> {
        self.unknown("what a decided group does", THEN).or_else(|| match self.take()? {
            1u32 => self.unknown("mode of a cancel", MODE),
            _ => None,
        })
    }
}
