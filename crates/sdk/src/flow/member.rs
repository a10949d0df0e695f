//! Members: executions under a key of their flow.

use super::group::Group;
use crate::client::ms;
use crate::payload;
use crate::{Error, Payload};
use serde::Serialize;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;
use weft_api::execution::Policy;
use weft_api::flow::NewMember;

/// A member to be.
#[derive(Clone, Debug)]
pub struct Member {
    new: NewMember,
    /// Why its input cannot be sent.
    wrong: Option<String>,
}

impl Member {
    /// The member `key`: an execution of `kind` with `input` as JSON.
    pub fn new<T: Serialize + ?Sized>(key: impl Into<String>, kind: impl Into<String>, input: &T) -> Self {
        let mut member = Self::empty(key, kind);
        match payload::json(input) {
            Ok(input) => member.new.input = Some(input),
            Err(error) => member.wrong = Some(error.to_string()),
        }
        member
    }

    /// Without an input of its own.
    pub fn empty(key: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { new: NewMember { key: key.into(), kind: kind.into(), ..NewMember::default() }, wrong: None }
    }

    /// With these bytes as its input.
    pub fn payload(key: impl Into<String>, kind: impl Into<String>, input: Payload) -> Self {
        let mut member = Self::empty(key, kind);
        member.new.input = Some(input);
        member
    }

    pub fn key(&self) -> &str {
        &self.new.key
    }

    /// How a group of the edges that lead to it is judged.
    pub fn group(mut self, group: Group) -> Self {
        self.new.groups.push(group.into_request());
        self
    }

    /// A bad end of it does not count against the flow.
    pub fn not_critical(mut self) -> Self {
        self.new.critical = Some(false);
        self
    }

    /// The queue it waits in; `default` unless given.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.new.lane = Some(lane.into());
        self
    }

    /// 0 to 9000, larger first.
    pub fn priority(mut self, priority: u32) -> Self {
        self.new.priority = Some(priority);
        self
    }

    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.new.tags.insert(key.into(), value.into());
        self
    }

    /// What a worker must offer to get it.
    pub fn capability(mut self, capability: impl Into<String>) -> Self {
        self.new.capabilities.push(capability.into());
        self
    }

    /// It starts after this time, and not before its edges are met.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.new.delay_ms = Some(ms(delay));
        self
    }

    /// It expires if it has not ended after this time.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.new.deadline_in_ms = Some(ms(deadline));
        self
    }

    /// How it is retried, how long it may run and how long it is kept.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.new.policy = Some(policy);
        self
    }

    /// How often a failed attempt is retried.
    pub fn max_retries(mut self, retries: u32) -> Self {
        let policy = self.new.policy.get_or_insert_default();
        policy.retry.get_or_insert_default().max_retries = Some(retries);
        self
    }

    /// W3C trace context, handed to the worker; that of the flow unless given.
    pub fn trace(mut self, traceparent: impl Into<String>) -> Self {
        self.new.trace = Some(traceparent.into());
        self
    }

    /// The member as it would be sent.
    pub fn into_request(self) -> Result<NewMember, Error> {
        match self.wrong {
            None => Ok(self.new),
            Some(why) => Err(Error::Decode {
                message: format!("the input of the member `{}`: {why}", self.new.key),
                source: None,
            }),
        }
    }
}

/// A member by its key, with the type of its result. Edges take it where they take a key.
pub struct Node<R> {
    key: String,
    result: PhantomData<fn() -> R>,
}

impl<R> Node<R> {
    pub(crate) fn of(member: &Member) -> Self {
        Self { key: member.key().to_string(), result: PhantomData }
    }

    pub fn key(&self) -> &str {
        &self.key
    }
}

impl<R> Clone for Node<R> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), result: PhantomData }
    }
}

impl<R> fmt::Debug for Node<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.key)
    }
}

impl<R> From<&Node<R>> for String {
    fn from(node: &Node<R>) -> Self {
        node.key.clone()
    }
}
