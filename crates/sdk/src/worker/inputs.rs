//! The ends of upstreams, as a member of a flow gets them. What was too large to come with the claim is read when it is
//! asked for, under the lease.

use super::ctx::Ctx;
use super::extract::FromTask;
use super::failure::Failure;
use super::task::Task;
use crate::payload;
use serde::de::DeserializeOwned;
use weft_api::execution::Outcome;
use weft_api::flow::{InputRead, ReadInputs};
use weft_api::work::{InputFailure, TaskInput};
use weft_api::{Args, Payload, op};

/// Inputs by the names of the edges that lead to the execution. There are none outside of a flow. They are pinned by the
/// first claim: every attempt gets the same ones.
#[derive(Clone, Debug)]
pub struct Inputs {
    ctx: Ctx,
}

impl FromTask for Inputs {
    fn from_task(task: &Task) -> Result<Self, Failure> {
        Ok(Self { ctx: task.ctx.clone() })
    }
}

impl Inputs {
    fn every(&self) -> &[TaskInput] {
        &self.ctx.claimed().inputs
    }

    /// How the upstreams under this name ended, in the order of their edges: their keys, outcomes and failures.
    pub fn ends(&self, name: &str) -> impl Iterator<Item = &TaskInput> {
        self.every().iter().filter(move |input| input.name == name)
    }

    /// How the upstream under this name ended; the first of them if it is a list.
    pub fn outcome(&self, name: &str) -> Option<Outcome> {
        self.ends(name).next().map(|input| input.outcome)
    }

    /// Why the upstream under this name failed, if it did; the first of them if it is a list.
    pub fn failure(&self, name: &str) -> Option<&InputFailure> {
        self.ends(name).next()?.failure.as_ref()
    }

    /// Names of edges whose upstreams had not ended at the first claim. They will not be delivered.
    pub fn missing(&self) -> &[String] {
        &self.ctx.claimed().inputs_missing
    }

    /// The result of the upstream under this name, as JSON. If it is missing or did not succeed, that is a failure for
    /// good, since another attempt would get the same.
    pub async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<T, Failure> {
        let input = self.one(name)?;
        succeeded(input)?;
        decoded(input, self.value(input).await?.as_ref())
    }

    /// The result of the upstream under this name, as JSON; nothing if it had not ended or did not succeed.
    pub async fn find<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Failure> {
        if self.is_missing(name) && self.outcome(name).is_none() {
            return Ok(None);
        }
        match self.one(name)?.outcome {
            Outcome::Success => self.get(name).await.map(Some),
            _ => Ok(None),
        }
    }

    /// The results of all upstreams under this name that succeeded, in the order of their edges, as JSON. `ends` has the
    /// others too.
    pub async fn all<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, Failure> {
        let (mut values, mut pages) = (Vec::new(), None);
        for input in self.ends(name).filter(|input| input.outcome == Outcome::Success) {
            succeeded(input)?;
            values.push(decoded(input, value(&self.ctx, &mut pages, input).await?.as_ref())?);
        }
        match self.outcome(name).is_some() || self.is_missing(name) {
            true => Ok(values),
            false => Err(self.unknown(name)),
        }
    }

    /// The bytes of the result of the upstream under this name, if it has one.
    pub async fn payload(&self, name: &str) -> Result<Option<Payload>, Failure> {
        self.value(self.one(name)?).await
    }

    fn is_missing(&self, name: &str) -> bool {
        self.missing().iter().any(|missing| missing == name)
    }

    /// The only input under this name.
    fn one(&self, name: &str) -> Result<&TaskInput, Failure> {
        let mut inputs = self.ends(name);
        match (inputs.next(), inputs.next()) {
            (Some(input), None) => Ok(input),
            (Some(_), Some(_)) => Err(wrong(format!("there are several inputs `{name}`; take them by `all`"))),
            (None, _) if self.is_missing(name) => {
                let why = "its upstream had not ended when the execution was first claimed";
                Err(wrong(format!("there is no input `{name}`: {why}")))
            }
            (None, _) => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> Failure {
        let Some(flow) = &self.ctx.claimed().flow else {
            return wrong(format!("there is no input `{name}`: `{}` is no member of a flow", self.ctx.id()));
        };
        let mut names: Vec<_> = self.every().iter().map(|input| format!("`{}`", input.name)).collect();
        names.dedup();
        let names = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        wrong(format!("no edge to `{}` has the input `{name}`; there is {names}", flow.key))
    }

    /// Every input with its result if it has one, for handlers that pass all of them on. Those under one name come one
    /// after the other, in the order of their edges.
    pub fn values(&self) -> Values<'_> {
        let mut inputs: Vec<&TaskInput> = self.every().iter().collect();
        inputs.sort_by(|a, b| a.name.cmp(&b.name));
        Values { ctx: &self.ctx, inputs: inputs.into_iter(), pages: None }
    }

    /// The result as it came with the claim, or read now.
    async fn value(&self, input: &TaskInput) -> Result<Option<Payload>, Failure> {
        value(&self.ctx, &mut None, input).await
    }
}

/// Inputs with their results. Of those that did not come with the claim a page at a time is read.
#[derive(Debug)]
pub struct Values<'a> {
    ctx: &'a Ctx,
    inputs: std::vec::IntoIter<&'a TaskInput>,
    pages: Option<Pages>,
}

impl<'a> Values<'a> {
    pub async fn next(&mut self) -> Result<Option<(&'a TaskInput, Option<Payload>)>, Failure> {
        let Some(input) = self.inputs.next() else { return Ok(None) };
        Ok(Some((input, value(self.ctx, &mut self.pages, input).await?)))
    }
}

/// Where reading the results under one name has come to.
#[derive(Debug)]
struct Pages {
    name: String,
    read: std::vec::IntoIter<InputRead>,
    /// The next page begins after this; none if there is none, and none inside for the first.
    next: Option<Option<u32>>,
}

/// The result of an input. `pages` is kept from one input to the next under the same name, which are asked for in the order
/// of their edges: so no page is read twice.
async fn value(ctx: &Ctx, pages: &mut Option<Pages>, input: &TaskInput) -> Result<Option<Payload>, Failure> {
    if input.handle.is_none() {
        return Ok(input.value.clone());
    }
    let kept = pages.take().filter(|pages| pages.name == input.name);
    let fresh = || Pages { name: input.name.clone(), read: Vec::new().into_iter(), next: Some(None) };
    let pages = pages.insert(kept.unwrap_or_else(fresh));
    loop {
        if let Some(read) = pages.read.find(|read| read.execution == input.execution) {
            return Ok(read.value);
        }
        let Some(after) = pages.next else {
            let (name, upstream) = (&input.name, &input.upstream);
            return Err(Failure::retry(format!("the server did not give the input `{name}` of `{upstream}`")));
        };
        let claimed = ctx.claimed();
        let body = ReadInputs {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            name: input.name.clone(),
            after,
        };
        let page = ctx.fenced::<op::ReadInputs>(Args { body, ..Args::default() }).await?;
        (pages.read, pages.next) = (page.items.into_iter(), page.next.map(Some));
    }
}

fn wrong(message: String) -> Failure {
    Failure::permanent(message).category("input")
}

fn decoded<T: DeserializeOwned>(input: &TaskInput, value: Option<&Payload>) -> Result<T, Failure> {
    let what = format!("the input `{}` of `{}`", input.name, input.upstream);
    payload::from_json(value, &what).map_err(|error| Failure::decode(error.to_string()))
}

/// Refuses an upstream that left no result because of how it ended, or whose result is gone.
fn succeeded(input: &TaskInput) -> Result<(), Failure> {
    let (name, upstream) = (&input.name, &input.upstream);
    if input.outcome != Outcome::Success {
        let why = input.failure.as_ref().map_or_else(String::new, |it| format!(": `{}`: {}", it.category, it.message));
        return Err(wrong(format!("the input `{name}`: `{upstream}` has ended as `{}`{why}", input.outcome.name())));
    }
    match input.purged {
        true => Err(wrong(format!("the input `{name}`: `{upstream}` was purged, and its result with it"))),
        false => Ok(()),
    }
}
