//! What a handler may ask for by its parameters.

use super::ctx::Ctx;
use super::failure::Failure;
use super::outcome::{Coded, Json};
use super::state::States;
use super::task::Task;
use crate::payload::{self, Codec};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use weft_api::Payload;
use weft_api::execution::Failure as Failed;

/// A parameter of a handler. A type of your own is one if it can be made from a task.
pub trait FromTask: Sized {
    fn from_task(task: &Task) -> Result<Self, Failure>;

    /// What is missing for it, if anything is. Asked once, before the first task is claimed.
    fn missing(states: &States) -> Option<String> {
        let _ = states;
        None
    }
}

impl FromTask for Task {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        Ok(task.clone())
    }
}

impl FromTask for Ctx {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        Ok(task.ctx.clone())
    }
}

impl<T: DeserializeOwned> FromTask for Json<T> {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        let value = payload::from_json(task.input(), "the input");
        value.map(Json).map_err(|error| Failure::decode(error.to_string()))
    }
}

impl<C: Codec, T: DeserializeOwned> FromTask for Coded<C, T> {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        let value = payload::decode::<C, T>(task.input(), "the input");
        value.map(|value| Coded(value, PhantomData)).map_err(|error| Failure::decode(error.to_string()))
    }
}

/// The bytes of the input as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw(pub Option<Payload>);

impl FromTask for Raw {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        Ok(Raw(task.input().cloned()))
    }
}

/// Something that all tasks of a worker share, given by `Worker::state`.
#[derive(Clone, Debug)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> FromTask for State<T> {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        let found = task.ctx.states().get::<T>().cloned();
        found
            .map(State)
            .ok_or_else(|| Failure::retry(format!("the worker has no state `{}`", std::any::type_name::<T>())))
    }

    fn missing(states: &States) -> Option<String> {
        let name = std::any::type_name::<T>();
        states.get::<T>().is_none().then(|| format!("the state `{name}`; give it by `.state(…)`"))
    }
}

/// The tags of the execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tags(pub BTreeMap<String, String>);

impl FromTask for Tags {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        Ok(Tags(task.claimed().tags.clone()))
    }
}

/// Facts about the execution and this attempt.
#[derive(Clone, Debug)]
pub struct Info {
    pub id: String,
    pub namespace: String,
    pub lane: String,
    pub kind: String,
    pub priority: u32,
    pub epoch: u64,
    /// From 0
    pub attempt: u32,
    pub attempt_kind: String,
    /// The attempt goes on after a pause
    pub resumed: bool,
    pub retries_left: u32,
    /// Milliseconds since 1970
    pub deadline_at: Option<u64>,
    pub trace: Option<String>,
    /// Why the attempt before failed
    pub previous: Option<Failed>,
}

impl FromTask for Info {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        Ok(task.ctx.info())
    }
}

/// What was saved last by `Ctx::checkpoint`, in this attempt or an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint<T>(pub Option<T>);

impl<T: DeserializeOwned> FromTask for Checkpoint<T> {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        let Some(saved) = &task.claimed().checkpoint else { return Ok(Checkpoint(None)) };
        let value = payload::from_json(Some(&saved.value), "the checkpoint");
        value.map(|value| Checkpoint(Some(value))).map_err(|error| Failure::decode(error.to_string()))
    }
}
