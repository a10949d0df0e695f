//! Stored reasons of its own why an execution may not run.

use crate::id::ExecutionId;
use crate::text::Text;
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A set, keyed by kind and id, in key order.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Holds(Vec<Hold>);

impl Holds {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Hold> {
        self.0.iter()
    }

    pub fn get(&self, key: HoldKey) -> Option<&Hold> {
        self.0.iter().find(|hold| hold.key() == key)
    }

    pub fn get_mut(&mut self, key: HoldKey) -> Option<&mut Hold> {
        self.0.iter_mut().find(|hold| hold.key() == key)
    }

    /// Adds `hold`; false, and nothing changes, if one with its key is there.
    pub fn insert(&mut self, hold: Hold) -> bool {
        match self.0.binary_search_by_key(&hold.key(), Hold::key) {
            Ok(_) => false,
            Err(at) => {
                self.0.insert(at, hold);
                true
            }
        }
    }

    pub fn remove(&mut self, key: HoldKey) -> Option<Hold> {
        let at = self.0.binary_search_by_key(&key, Hold::key).ok()?;
        Some(self.0.remove(at))
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HoldKey {
    Operator,
    Children,
    Dependencies,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    Operator {
        by: Text,
        reason: Text,
        at: Time,
    },
    Children(ChildrenHold),
    /// A member whose edges are not all known, or whose groups are not all satisfied. `unresolved` are its pending edges.
    Dependencies {
        unresolved: u32,
        sealed: bool,
    },
}

impl Hold {
    pub fn key(&self) -> HoldKey {
        match self {
            Hold::Operator { .. } => HoldKey::Operator,
            Hold::Children(_) => HoldKey::Children,
            Hold::Dependencies { .. } => HoldKey::Dependencies,
        }
    }
}

/// The hold of `wait_children`: met once `needed` of `children` succeeded, impossible once too few are left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildrenHold {
    /// All children that are waited for, ended ones too.
    pub children: Arc<[ExecutionId]>,
    pub needed: u32,
    pub met: u32,
    pub unmet: u32,
    pub timeout_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    pub verdict: Verdict,
    pub children: Arc<[ExecutionId]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    Met,
    Impossible,
    Timeout,
}

impl Verdict {
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Impossible => "impossible",
            Verdict::Timeout => "timeout",
        }
    }
}
