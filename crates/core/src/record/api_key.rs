//! An API key: who may call, what, and where. Of its secret only a MAC is kept.
//!
//! A key that was revoked is gone: its id reads as unknown.

use super::Key;
use crate::codec::{self, Decode, DecodeError};
use crate::command::Scopes;
use crate::id::{KeyId, PartitionId};
use crate::schema::{Due, PartMask, Value};
use crate::text::Text;
use crate::time::Time;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Where the keys of a deployment are.
pub const HOME: PartitionId = PartitionId(0);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    pub partition: PartitionId,
    pub id: KeyId,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// No other key has it.
    pub name: Text,
    pub scopes: Scopes,
    pub namespaces: Reach,
    pub attributes: Attributes,
    pub creator: Text,
    pub created_at: Time,
    pub expires_at: Option<Time>,
    /// Not older than an hour before the last use.
    pub last_used_at: Option<Time>,
    pub rotated_at: Option<Time>,
    pub mac: Mac,
    /// The secret before the last rotation, and until when it is good.
    pub previous: Option<(Mac, Time)>,
}

impl Body {
    /// Whether the key may create and change keys of every namespace and never expires.
    pub fn is_lasting_admin(&self) -> bool {
        let everywhere = self.namespaces == Reach::All;
        self.scopes.has(Scopes::ADMIN) && everywhere && !self.attributes.read_only && self.expires_at.is_none()
    }
}

/// What is kept of a secret. It is not shown.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mac(pub [u8; 32]);

impl Default for Mac {
    /// That of no secret.
    fn default() -> Self {
        Self([0; 32])
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mac(***)")
    }
}

/// The namespaces somebody may act in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reach {
    All,
    Some(Arc<[Text]>),
}

impl Reach {
    pub fn holds(&self, namespace: &str) -> bool {
        match self {
            Reach::All => true,
            Reach::Some(names) => names.iter().any(|name| &**name == namespace),
        }
    }

    /// Every namespace of `other` is one of these.
    pub fn covers(&self, other: &Reach) -> bool {
        match (self, other) {
            (Reach::All, _) => true,
            (Reach::Some(_), Reach::All) => false,
            (Reach::Some(_), Reach::Some(names)) => names.iter().all(|name| self.holds(name)),
        }
    }

    /// The namespace, if there is no choice.
    pub fn only(&self) -> Option<&Text> {
        match self {
            Reach::Some(names) if names.len() == 1 => names.first(),
            _ => None,
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reach::All => f.write_str("*"),
            Reach::Some(names) => f.write_str(&names.join(",")),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// It may read and nothing else.
    pub read_only: bool,
    pub rate_class: RateClass,
}

/// How often a key may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RateClass {
    #[default]
    Default,
    Worker,
    None,
}

impl RateClass {
    pub const fn name(self) -> &'static str {
        match self {
            RateClass::Default => "default",
            RateClass::Worker => "worker",
            RateClass::None => "none",
        }
    }
}

impl ApiKey {
    pub fn key(&self) -> Key {
        Key::ApiKey(self.partition, self.id)
    }

    pub fn is_expired(&self, now: Time) -> bool {
        self.body.expires_at.is_some_and(|at| at <= now)
    }

    /// The MACs of the secrets that are good now: none of an expired key, two while a rotation overlaps.
    pub fn good(&self, now: Time) -> impl Iterator<Item = &Mac> {
        let previous = self.body.previous.as_ref().filter(|(_, until)| *until > now).map(|(mac, _)| mac);
        let all = [Some(&self.body.mac), previous].into_iter().flatten();
        let expired = self.is_expired(now);
        all.filter(move |_| !expired)
    }

    /// Until when the secret before the last rotation is good, if it still is.
    pub fn previous_until(&self, now: Time) -> Option<Time> {
        self.body.previous.map(|(_, until)| until).filter(|until| *until > now)
    }

    /// What it may do, in one line without its secrets.
    pub fn summary(&self) -> String {
        let body = &self.body;
        let mut text = format!("name={} scopes={} namespaces={}", body.name, body.scopes, body.namespaces);
        if body.attributes.read_only {
            text += " read_only";
        }
        if body.attributes.rate_class != RateClass::Default {
            text += &format!(" rate_class={}", body.attributes.rate_class.name());
        }
        for (name, at) in [("expires_at", body.expires_at), ("rotated_at", body.rotated_at)] {
            if let Some(at) = at {
                text += &format!(" {name}={}", at.ms());
            }
        }
        text
    }

    pub fn facets(&self) -> Vec<Value> {
        vec![
            Value::text(&self.body.name),
            Value::Int(self.body.created_at.as_i64()),
            Value::opt_time(self.body.expires_at),
            Value::opt_time(self.body.last_used_at),
        ]
    }

    /// An expired key stays in sight until it is revoked.
    pub fn due(&self) -> Vec<Due> {
        Vec::new()
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
        let names = match &self.body.namespaces {
            Reach::All => 0,
            Reach::Some(names) => names.len() * 64,
        };
        384 + names
    }
}

impl Decode for ApiKey {
    type Id = (PartitionId, KeyId);

    fn decode((partition, id): Self::Id, parts: &[(u8, Bytes)], _: PartMask) -> Result<Self, DecodeError> {
        Ok(Self { partition, id, body: codec::required("body", parts, 0)? })
    }
}
