//! Children of the execution that a handler runs. Submitting one again in a later attempt finds the first; waiting hands
//! the execution back unless the wait is decided already.

use super::ctx::Ctx;
use super::failure::Failure;
use super::step::read;
use crate::client::ms;
use crate::{Error, payload};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::time::Duration;
use weft_api::execution::{Outcome, OwnFlow, Policy, Submit};
use weft_api::work::{
    ChildOutcome, ChildrenOutcome, ChildrenRule, ReadChildren, SpawnChildren, WaitChildrenItem, WaitingChildren,
};
use weft_api::{Args, op};

/// A child to be.
#[must_use = "nothing is submitted before `submit`"]
pub struct NewChild<'a> {
    ctx: &'a Ctx,
    submit: Submit,
    wrong: Option<Error>,
}

/// A child that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    id: String,
}

impl Child {
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Ctx {
    /// A child of `kind` with `input` as JSON. A child of a member joins its flow, unless it is told to stay outside.
    pub fn child<T: Serialize + ?Sized>(&self, kind: impl Into<String>, input: &T) -> NewChild<'_> {
        let (input, wrong) = match payload::json(input) {
            Ok(input) => (Some(input), None),
            Err(error) => (None, Some(error)),
        };
        NewChild { ctx: self, submit: Submit { kind: kind.into(), input, ..Submit::default() }, wrong }
    }

    /// Submits a child of `kind` with `input` as JSON: short for `child(kind, input).submit()`.
    pub async fn spawn<T: Serialize + ?Sized>(&self, kind: impl Into<String>, input: &T) -> Result<Child, Failure> {
        self.child(kind, input).submit().await
    }

    /// Waits until all of them have ended with success, or that has become impossible.
    pub async fn wait_all(&self, children: &[Child]) -> Result<Children, Failure> {
        self.wait_children(children, ChildrenRule::AllOf {}, None).await
    }

    /// Waits until one of them has ended with success, or that has become impossible.
    pub async fn wait_any(&self, children: &[Child]) -> Result<Children, Failure> {
        self.wait_children(children, ChildrenRule::AnyOf {}, None).await
    }

    /// Waits until `k` of them have ended with success, or that has become impossible.
    pub async fn wait_quorum(&self, k: u32, children: &[Child]) -> Result<Children, Failure> {
        self.wait_children(children, ChildrenRule::Quorum { k }, None).await
    }

    /// Waits for children by any rule, at most for `timeout`. The others are short for it.
    pub async fn wait_children(
        &self,
        children: &[Child],
        rule: ChildrenRule,
        timeout: Option<Duration>,
    ) -> Result<Children, Failure> {
        let (name, found) = self.remembered("weft.wait_children").await?;
        let asked: BTreeSet<String> = children.iter().map(|child| child.id.clone()).collect();
        let is_first = self.journal().waits_first_for(&asked);
        if let Some(found) = found {
            let recorded: ChildrenOutcome = read(&found, &name)?;
            // Only the verdict was recorded if the results were too large.
            return match recorded.children.is_empty() {
                true => self.outcomes(children, recorded.verdict).await.map(Children),
                false => Ok(Children(recorded)),
            };
        }
        let decided = match self.handed_over(&name, &asked, is_first).await? {
            Some(ended) => ended,
            None => {
                if !is_first {
                    let begun = begun(&name, self.claimed().lease.epoch);
                    self.record(&begun, payload::json(&())?).await?;
                }
                let verdict = self.wait_decided(children, rule, timeout).await?;
                self.outcomes(children, verdict).await?
            }
        };
        self.record_wait(&name, &decided).await?;
        Ok(Children(decided))
    }

    /// What the claim says about the children, if that is the answer to this very wait. The server hands over the outcome
    /// of the last wait with every claim that goes on after a pause, be it the pause of a later sleep. For the first wait
    /// for these children it can be no other's; a further one must have begun under the lease before this.
    async fn handed_over(
        &self,
        name: &str,
        asked: &BTreeSet<String>,
        is_first: bool,
    ) -> Result<Option<ChildrenOutcome>, Failure> {
        let claimed = self.claimed();
        let Some(ended) = &claimed.children else { return Ok(None) };
        let is_asked =
            ended.children.len() == asked.len() && ended.children.iter().all(|child| asked.contains(&child.execution));
        if !is_asked {
            return Ok(None);
        }
        let began = begun(name, claimed.lease.epoch.saturating_sub(1));
        let is_own = is_first || self.recorded(&began).await?.is_some();
        Ok(is_own.then(|| ended.clone()))
    }

    /// Records how a wait ended; without results, which can be read again, if they are too large.
    async fn record_wait(&self, name: &str, decided: &ChildrenOutcome) -> Result<(), Failure> {
        let verdict = ChildrenOutcome { verdict: decided.verdict.clone(), children: Vec::new() };
        for value in [decided, &verdict] {
            match self.record(name, payload::json(value)?).await {
                Err(failure) if self.cancellation().is_some() => return Err(failure),
                Ok(_) => break,
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The verdict if there is one; otherwise the execution is handed back.
    async fn wait_decided(
        &self,
        children: &[Child],
        rule: ChildrenRule,
        timeout: Option<Duration>,
    ) -> Result<String, Failure> {
        let claimed = self.claimed();
        let checkpoint = self.riders().checkpoint.clone();
        let body = WaitChildrenItem {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            children: Some(children.iter().map(|child| child.id.clone()).collect()),
            rule: Some(rule),
            timeout_ms: timeout.map(ms),
            // It is saved only if the wait is not decided, so that it stays among what the next renewal brings.
            checkpoint,
            request_id: None,
        };
        match self.fenced::<op::WaitChildren>(Args { body, ..Args::default() }).await? {
            WaitingChildren::Decided { verdict } => Ok(verdict),
            WaitingChildren::Waiting { .. } => Err(self.paused()),
        }
    }

    /// How the children have ended, read under the lease: a worker need not be allowed to read anything else.
    async fn outcomes(&self, children: &[Child], verdict: String) -> Result<ChildrenOutcome, Failure> {
        let claimed = self.claimed();
        let mut ended = Vec::with_capacity(children.len());
        while ended.len() < children.len() {
            let body = ReadChildren {
                execution: claimed.execution.clone(),
                lease: Some(claimed.lease.id.clone()),
                epoch: Some(claimed.lease.epoch),
                children: children[ended.len()..].iter().map(|child| child.id.clone()).collect(),
            };
            let read = self.fenced::<op::ReadChildren>(Args { body, ..Args::default() }).await?;
            if read.children.is_empty() {
                return Err(Failure::retry("the server did not answer for the children"));
            }
            ended.extend(read.children);
        }
        Ok(ChildrenOutcome { verdict, children: ended })
    }
}

impl NewChild<'_> {
    /// Tells children of one execution apart; by kind and order unless given. In a flow it is the key of the member, so that
    /// it must tell all members of the flow apart.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.submit.idempotency_key = Some(key.into());
        self
    }

    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.submit.lane = Some(lane.into());
        self
    }

    pub fn priority(mut self, priority: u32) -> Self {
        self.submit.priority = Some(priority);
        self
    }

    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.submit.tags.insert(key.into(), value.into());
        self
    }

    pub fn delay(mut self, delay: Duration) -> Self {
        self.submit.delay_ms = Some(ms(delay));
        self
    }

    pub fn policy(mut self, policy: Policy) -> Self {
        self.submit.policy = Some(policy);
        self
    }

    /// It does not join the flow of its parent. Changes nothing if the parent is in none.
    pub fn outside_flow(mut self) -> Self {
        self.submit.flow = Some(OwnFlow::None);
        self
    }

    /// In the flow of its parent, a bad end of it does not count against the flow.
    pub fn not_critical(mut self) -> Self {
        self.submit.critical = Some(false);
        self
    }

    pub async fn submit(mut self) -> Result<Child, Failure> {
        if let Some(error) = self.wrong {
            return Err(error.into());
        }
        if self.submit.idempotency_key.is_none() {
            let joins = self.ctx.claimed().flow.is_some() && self.submit.flow.is_none();
            self.submit.idempotency_key = Some(self.ctx.child_key(&self.submit.kind, joins));
        }
        if self.submit.trace.is_none() {
            self.submit.trace = self.ctx.trace().map(str::to_string);
        }
        let claimed = self.ctx.claimed();
        let body = SpawnChildren {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            items: vec![self.submit],
        };
        let mut failures = 0;
        loop {
            let args = Args { body: body.clone(), ..Args::default() };
            let reply = self.ctx.fenced::<op::SpawnChildren>(args).await?;
            let error = match reply.results.into_iter().next().map(weft_api::Item::into_result) {
                Some(Ok(submitted)) => return Ok(Child { id: submitted.id }),
                Some(Err(problem)) => Error::from(problem),
                None => return Err(Failure::retry("the server did not answer for the child")),
            };
            if !self.ctx.tries_again(&error, &mut failures).await {
                return Err(self.ctx.refused(error));
            }
        }
    }
}

/// The step that says under which lease a wait began.
fn begun(wait: &str, epoch: u64) -> String {
    format!("{wait}/{epoch}")
}

/// How children ended.
#[derive(Clone, Debug)]
pub struct Children(ChildrenOutcome);

impl Children {
    /// `met`, `impossible` or `timeout`.
    pub fn verdict(&self) -> &str {
        &self.0.verdict
    }

    pub fn outcome(&self, child: &Child) -> Option<Outcome> {
        self.find(child)?.outcome
    }

    /// The result of a child that ended with success; a failure in its place if it did not.
    pub fn result<T: DeserializeOwned>(&self, child: &Child) -> Result<T, Failure> {
        match self.find(child) {
            Some(ChildOutcome { outcome: Some(Outcome::Success), result, .. }) => {
                Ok(payload::from_json(result.as_ref(), &format!("the result of the child `{}`", child.id))?)
            }
            Some(ChildOutcome { outcome: Some(outcome), .. }) => {
                Err(Failure::retry(format!("the child `{}` has ended as `{}`", child.id, outcome.name()))
                    .category("child"))
            }
            _ => Err(Failure::retry(format!("the child `{}` has not ended", child.id)).category("child")),
        }
    }

    fn find(&self, child: &Child) -> Option<&ChildOutcome> {
        self.0.children.iter().find(|ended| ended.execution == child.id)
    }
}
