//! A bulk job: one verb for all executions that a filter names.
//!
//! The *job* is one record in its home partition: what is to be done, which partitions know of it, and the sum of what
//! those that are done have counted. Each partition has a *share*: how far the walk over its executions is, and its own
//! counts. A share that is over stays as long as the job is kept, so that it is never made a second time.

use super::Key;
use super::trouble::Trouble;
use crate::codec::{self, Decode, DecodeError};
use crate::command::{CancelMode, DeadlineWish, Principal, Scopes, Steps, When};
use crate::filter::Filter;
use crate::id::{BulkId, PartitionId};
use crate::limits::BULK_KEEP_MS;
use crate::schema::{Due, PartMask, Timer, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What a record is to the job. The number is part of the key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Role {
    Job = 1,
    Share = 2,
}

impl Role {
    pub const ALL: [Role; 2] = [Role::Job, Role::Share];

    pub fn from_u8(number: u8) -> Option<Role> {
        Self::ALL.into_iter().find(|role| *role as u8 == number)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Role::Job => "job",
            Role::Share => "share",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkJob {
    pub partition: PartitionId,
    /// That of the job, in all partitions.
    pub uuid: Uuid,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    Job(Job),
    Share(Share),
}

/// What is to be done to which executions, and in whose name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    pub namespace: Text,
    pub by: Text,
    pub scopes: Scopes,
    pub filter: Filter,
    pub verb: Verb,
    pub dry_run: bool,
}

impl Definition {
    /// The caller that started the job: its verbs are this one's.
    pub fn principal(&self) -> Principal {
        Principal::new(self.namespace.clone(), self.by.clone(), self.scopes)
    }
}

/// A verb with its arguments, without the execution it is done to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    Cancel {
        reason: Text,
        mode: CancelMode,
        cascade: bool,
    },
    Replay {
        reason: Text,
        deadline: DeadlineWish,
        delay_ms: Option<u64>,
        priority: Option<u32>,
        steps: Steps,
    },
    Hold {
        reason: Text,
        revoke: bool,
    },
    Release {
        reason: Text,
    },
    Revoke {
        reason: Text,
        hold: bool,
    },
    ForceComplete {
        reason: Text,
    },
    ForceFail {
        message: Text,
        reason: Text,
    },
    Purge {
        reason: Text,
    },
    Priority {
        priority: u32,
        reason: Text,
    },
    Tag {
        set: BTreeMap<Text, Text>,
        remove: Vec<Text>,
        reason: Text,
    },
    Reschedule {
        start: When,
        reason: Text,
    },
    /// As `Replay`, and what depends on a member that it replays stays as it is.
    ReplayAlone {
        reason: Text,
        deadline: DeadlineWish,
        delay_ms: Option<u64>,
        priority: Option<u32>,
        steps: Steps,
    },
}

impl Verb {
    pub const fn name(&self) -> &'static str {
        match self {
            Verb::Cancel { .. } => "cancel",
            Verb::Replay { .. } | Verb::ReplayAlone { .. } => "replay",
            Verb::Hold { .. } => "hold",
            Verb::Release { .. } => "release",
            Verb::Revoke { .. } => "revoke",
            Verb::ForceComplete { .. } => "force_complete",
            Verb::ForceFail { .. } => "force_fail",
            Verb::Purge { .. } => "purge",
            Verb::Priority { .. } => "priority",
            Verb::Tag { .. } => "tag",
            Verb::Reschedule { .. } => "reschedule",
        }
    }
}

impl Verb {
    /// Why it is done, which is empty if nobody said so.
    pub const fn reason(&self) -> &Text {
        match self {
            Verb::Cancel { reason, .. }
            | Verb::Replay { reason, .. }
            | Verb::ReplayAlone { reason, .. }
            | Verb::Hold { reason, .. }
            | Verb::Release { reason }
            | Verb::Revoke { reason, .. }
            | Verb::ForceComplete { reason }
            | Verb::ForceFail { reason, .. }
            | Verb::Purge { reason }
            | Verb::Priority { reason, .. }
            | Verb::Tag { reason, .. }
            | Verb::Reschedule { reason, .. } => reason,
        }
    }
}

/// What came of the executions that were met. Every one that matched was done or refused.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    pub matched: u64,
    /// The verb was accepted; in a dry run: it would have been.
    pub done: u64,
    /// By the code of the refusal.
    pub refused: BTreeMap<Text, u64>,
    /// Could not be read, so that nobody knows whether they match.
    pub unreadable: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.matched += other.matched;
        self.done += other.done;
        self.unreadable += other.unreadable;
        for (code, count) in &other.refused {
            *self.refused.entry(code.clone()).or_default() += count;
        }
    }

    pub fn refuse(&mut self, code: &str) {
        *self.refused.entry(code.into()).or_default() += 1;
    }
}

/// How far a partition is with its share, as the job knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Standing {
    /// Has no share yet, because others may use up the maximum.
    Ahead,
    /// Is to be told: that it has a share or, if the job is stopped, that it has none any more.
    Owed,
    Told,
    /// Its counts are in those of the job, or it never had a share.
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub definition: Definition,
    pub max: Option<u64>,
    pub created_at: Time,
    pub stopped: bool,
    /// One per partition.
    pub shares: Vec<Standing>,
    /// Since when somebody is to be told.
    pub owed_since: Time,
    /// Of the partitions that are over.
    pub counts: Counts,
    pub ended_at: Option<Time>,
    /// Failures of scanners on this job.
    pub trouble: Option<Trouble>,
}

impl Job {
    /// To how many executions the verb may still be done.
    pub fn left(&self) -> Option<u64> {
        self.max.map(|max| max.saturating_sub(self.counts.done))
    }

    pub fn owed(&self) -> impl Iterator<Item = PartitionId> {
        let owed = self.shares.iter().enumerate().filter(|(_, standing)| **standing == Standing::Owed);
        owed.map(|(at, _)| PartitionId(at as u16))
    }
}

/// A place in the walk over the executions of a partition, which goes by their creation and then by their ids. The members
/// of one flow are walked in the order they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// When it was created, in milliseconds; of a member its number.
    pub at: u64,
    pub uuid: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub home: PartitionId,
    pub definition: Definition,
    /// Executions of a later time are not meant, so that the walk has an end.
    pub created_at: Time,
    /// Where the walk is.
    pub after: Option<Place>,
    pub left: Option<u64>,
    pub counts: Counts,
    pub stage: Stage,
    /// Since when.
    pub since: Time,
    pub trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    Walking,
    /// The walk is over, and the job is to be told the counts.
    Reporting,
    Over,
}

impl BulkJob {
    pub fn key(&self) -> Key {
        let role = match self.body {
            Body::Job(_) => Role::Job,
            Body::Share(_) => Role::Share,
        };
        Key::BulkJob(self.partition, self.uuid, role)
    }

    /// Where the job `id` itself is.
    pub fn key_of(id: BulkId) -> Key {
        Key::BulkJob(id.partition(), id.uuid(), Role::Job)
    }

    /// Where a partition's share of it is.
    pub fn key_of_share(id: BulkId, partition: PartitionId) -> Key {
        Key::BulkJob(partition, id.uuid(), Role::Share)
    }

    pub fn definition(&self) -> &Definition {
        match &self.body {
            Body::Job(job) => &job.definition,
            Body::Share(share) => &share.definition,
        }
    }

    pub fn trouble(&self) -> Option<&Trouble> {
        match &self.body {
            Body::Job(job) => job.trouble.as_ref(),
            Body::Share(share) => share.trouble.as_ref(),
        }
    }

    pub fn trouble_mut(&mut self) -> &mut Option<Trouble> {
        match &mut self.body {
            Body::Job(job) => &mut job.trouble,
            Body::Share(share) => &mut share.trouble,
        }
    }

    pub fn facets(&self) -> Vec<Value> {
        let (role, created_at) = match &self.body {
            Body::Job(job) => (Role::Job, job.created_at),
            Body::Share(share) => (Role::Share, share.created_at),
        };
        vec![
            Value::text(&self.definition().namespace),
            Value::Text(role.name().into()),
            Value::Int(created_at.as_i64()),
        ]
    }

    /// Its timers, as if no scanner had ever failed on it.
    pub fn timers(&self) -> Vec<Due> {
        let kept = |at: Time| vec![Due { timer: Timer::Retention, at: at + BULK_KEEP_MS }];
        let due = |at| vec![Due { timer: Timer::Bulk, at }];
        match &self.body {
            Body::Job(Job { ended_at: Some(at), .. }) => kept(*at),
            Body::Job(job) if job.owed().next().is_some() => due(job.owed_since),
            Body::Job(_) => Vec::new(),
            Body::Share(share) if share.stage == Stage::Over => kept(share.since),
            Body::Share(share) => due(share.since),
        }
    }

    pub fn due(&self) -> Vec<Due> {
        match self.trouble() {
            None => self.timers(),
            Some(trouble) => trouble.apply(self.timers()),
        }
    }

    pub fn encode(&self, mask: PartMask) -> Vec<(u8, Option<Bytes>)> {
        if mask.has(0) { vec![(0, Some(codec::encode(&self.body)))] } else { Vec::new() }
    }

    pub fn loaded(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn dirty(&self) -> PartMask {
        PartMask::of(0)
    }

    pub fn mark_clean(&mut self) {}

    pub fn weight(&self) -> usize {
        let shares = if let Body::Job(job) = &self.body { job.shares.len() } else { 0 };
        2048 + shares
    }
}

impl Decode for BulkJob {
    type Id = (PartitionId, Uuid, Role);

    fn decode((partition, uuid, role): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        let body: Body = codec::required("body", parts, 0)?;
        match (&body, role) {
            (Body::Job(_), Role::Job) | (Body::Share(_), Role::Share) => Ok(Self { partition, uuid, body }),
            _ => Err(DecodeError::new("body", "is not what its key says")),
        }
    }
}
