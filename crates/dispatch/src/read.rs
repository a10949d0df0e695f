//! Reads of executions.

use crate::across::{Asked, Of};
use crate::cursor::Bound;
use crate::flow::flow_id;
use crate::rejection::problem;
use crate::submit::time;
use crate::view;
use crate::{Acting, Answer, execution_id, text};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use weft_api::execution as wire;
use weft_api::operation::{NoBody, NoQuery, Raw};
use weft_api::page::PageQuery;
use weft_api::{Args, Page, Payload, Problem, Reply};
use weft_core::CommitId;
use weft_core::error::Rejection;
use weft_core::record::Attempt;
use weft_core::text::Text;
use weft_engine::{AttemptFilter, ExecutionView, GroupBy, ListFilter};

/// Before a key that is given by its bytes.
const BYTES: &str = "b64:";

type One<Q> = Args<[String; 1], Q, NoBody>;
type Two<Q> = Args<[String; 2], Q, NoBody>;

/// How long a call counts before it answers with lower bounds: well below what clients wait for an answer.
pub const COUNT_MS: u64 = 5_000;

impl Acting<'_> {
    pub async fn get(&self, args: One<wire::GetQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let include = included(args.query.include.as_deref())?;
        let until = until(args.query.until.as_deref())?;
        let view = match args.query.wait_ms {
            None if args.query.until.is_some() => {
                return Err(Problem::invalid(
                    "until",
                    "is given without `wait_ms`, which says how long to wait for it",
                ));
            }
            None | Some(0) => client.get(id).await,
            Some(wait_ms) => client.wait(id, until, wait_ms).await,
        }
        .map_err(problem)?;
        let mut reply = self.full(&view);
        if include.contains(&"input") {
            reply.input = input(&view);
        }
        if include.contains(&"checkpoint") {
            reply.checkpoint = view.execution.checkpoint().map(view::checkpoint);
        }
        if include.contains(&"result") && view.public_state.is_terminal() {
            reply.result = match client.result(id, 0).await {
                Ok(result) => result.bytes.map(|bytes| view::payload(&bytes, result.content_type.as_ref())),
                // It was replayed meanwhile.
                Err(Rejection::ExecutionNotTerminal { .. }) => None,
                Err(rejection) => return Err(problem(rejection)),
            };
        }
        if include.contains(&"attempts") {
            let page = client.attempts(id, AttemptFilter::default()).await.map_err(problem)?;
            reply.attempt_list = Some(page.attempts.iter().map(view::run).collect());
        }
        let revision = Some(reply.revision.clone());
        Ok(Answer { revision, ..Reply::GetExecution(reply).into() })
    }

    fn full(&self, view: &ExecutionView) -> wire::Execution {
        wire::Execution {
            failure: view.last_failure.as_ref().map(view::failure),
            policy: Some(view::policy(&view.execution.spec.policy)),
            ..view::execution(&view.execution, view.revision, self.engine.now())
        }
    }

    pub async fn input(&self, args: One<NoQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let view = client.get(id).await.map_err(problem)?;
        Ok(tagged(input(&view), Reply::GetInput))
    }

    pub async fn checkpoint(&self, args: One<NoQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let view = client.get(id).await.map_err(problem)?;
        let checkpoint = view.execution.checkpoint().map(|checkpoint| view::checkpoint(checkpoint).value);
        Ok(tagged(checkpoint, Reply::GetCheckpoint))
    }

    pub async fn result(&self, args: One<wire::WaitQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let result = client.result(id, args.query.wait_ms.unwrap_or(0)).await.map_err(problem)?;
        let payload = result.bytes.map(|bytes| view::payload(&bytes, result.content_type.as_ref()));
        Ok(tagged(payload, Reply::GetResult))
    }

    pub async fn attempts(&self, args: One<wire::AttemptsQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let bound = Bound::new("list_attempts", &args.path[0], &());
        let limit = limit(args.query.limit)?;
        let include = words("include", args.query.include.as_deref(), &["result", "detail"])?;
        let from: u32 = match &args.query.cursor {
            Some(cursor) => bound.open(cursor)?.parse().map_err(|_| problem(Rejection::InvalidCursor))?,
            None => 0,
        };
        let filter = AttemptFilter { from, limit, payloads: !include.is_empty() };
        let page = client.attempts(id, filter).await.map_err(problem)?;
        let item = |attempt: &Attempt| {
            let mut item = if filter.payloads { view::attempt(attempt) } else { view::run(attempt) };
            item.result = item.result.filter(|_| include.contains(&"result"));
            if let Some(failure) = item.failure.as_mut().filter(|_| !include.contains(&"detail")) {
                failure.detail = None;
            }
            item
        };
        let items = page.attempts.iter().map(item).collect();
        let next_cursor = page.next.map(|next| bound.seal(&next.to_string()));
        Ok(Reply::ListAttempts(Page { items, next_cursor }).into())
    }

    async fn one_attempt(&self, args: &Two<NoQuery>) -> Result<(Attempt, CommitId), Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let unknown = || problem(Rejection::AttemptNotFound);
        let index: u32 = args.path[1].parse().map_err(|_| unknown())?;
        client.attempt(id, index).await.map_err(problem)
    }

    pub async fn attempt(&self, args: Two<NoQuery>) -> Result<Answer, Problem> {
        let (attempt, revision) = self.one_attempt(&args).await?;
        Ok(Answer { revision: Some(revision.to_string()), ..Reply::GetAttempt(view::attempt(&attempt)).into() })
    }

    pub async fn attempt_result(&self, args: Two<NoQuery>) -> Result<Answer, Problem> {
        let (attempt, _) = self.one_attempt(&args).await?;
        let result = attempt.result().map(|bytes| view::payload(bytes, attempt.content_type.as_ref()));
        Ok(tagged(result, Reply::GetAttemptResult))
    }

    pub async fn history(&self, args: One<PageQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let bound = Bound::new("get_history", &args.path[0], &());
        let limit = limit(args.query.limit)?;
        let place = match &args.query.cursor {
            Some(cursor) => Some(bound.open(cursor)?.parse().map_err(problem)?),
            None => None,
        };
        let page = client.history(id, place, limit).await.map_err(problem)?;
        Ok(Reply::GetHistory(wire::History {
            items: page.entries.into_iter().map(view::history).collect(),
            dropped: page.dropped,
            next_cursor: page.next.map(|next| bound.seal(&next.to_string())),
        })
        .into())
    }

    pub async fn explain(&self, args: One<wire::ExplainQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let explanation = match args.query.instance {
            Some(instance) => client.explain_for(id, text(instance)).await,
            None => client.explain(id).await,
        };
        let explanation = explanation.map_err(problem)?;
        Ok(Reply::ExplainExecution(view::explanation(explanation)).into())
    }

    pub async fn children(&self, args: One<PageQuery>) -> Result<Answer, Problem> {
        let (id, client) = self.one(&args.path[0]).await?;
        let bound = Bound::new("list_children", &args.path[0], &());
        let limit = limit(args.query.limit)?;
        let cursor = match &args.query.cursor {
            Some(cursor) => Some(bound.open(cursor)?.parse().map_err(|_| problem(Rejection::InvalidCursor))?),
            None => None,
        };
        let page = client.children(id, cursor, limit).await.map_err(problem)?;
        let now = self.engine.now();
        let children = page.children.iter().zip(page.revisions);
        Ok(Reply::ListChildren(Page {
            items: children.map(|(child, revision)| view::execution(child, revision, now)).collect(),
            next_cursor: page.next_cursor.map(|last| bound.seal(&last.to_string())),
        })
        .into())
    }

    pub async fn list(&self, args: Args<[String; 0], wire::ListQuery, NoBody>) -> Result<Answer, Problem> {
        Ok(Reply::ListExecutions(self.page("list_executions", args.query).await?).into())
    }

    /// One page. A caller that could mean several namespaces and names none gets all of them, one after the other.
    async fn page(&self, operation: &str, mut query: wire::ListQuery) -> Result<Page<wire::Execution>, Problem> {
        let asked = Asked { cursor: query.cursor.take(), limit: limit(query.limit.take())? };
        let now = self.engine.now();
        let filter = filter_of(&query)?;
        self.across(Of::Executions, operation, &query, asked, |client, cursor, limit| {
            let filter = ListFilter { limit: Some(limit), cursor, ..filter.clone() };
            async move {
                let page = client.list(filter).await.map_err(problem)?;
                let found = page.executions.iter().zip(page.revisions).zip(&page.failures);
                let item = |((execution, revision), failure): ((_, _), &Option<_>)| wire::Execution {
                    failure: failure.as_ref().map(view::failure),
                    ..view::execution(execution, revision, now)
                };
                let items = found.map(item).collect();
                Ok((items, page.next_cursor))
            }
        })
        .await
    }

    pub async fn count(&self, args: Args<[String; 0], wire::CountQuery, NoBody>) -> Result<Answer, Problem> {
        let query = args.query;
        let groups = grouped(query.group_by.as_deref())?;
        let filter = filter_of(&wire::ListQuery {
            state: query.state,
            lane: query.lane,
            kind: query.kind,
            tag: query.tag,
            parent: query.parent,
            flow: query.flow,
            against: query.against,
            worker: query.worker,
            concurrency_key: query.concurrency_key,
            created_from: query.created_from,
            created_until: query.created_until,
            finished_from: query.finished_from,
            finished_until: query.finished_until,
            updated_since: query.updated_since,
            ..wire::ListQuery::default()
        })?;
        let by = |name: &str| groups.contains(&name);
        let fields = GroupBy { lane: by("lane"), kind: by("kind"), state: by("state") || by("public_state") };
        let until = self.engine.now() + COUNT_MS;
        let (mut summed, mut at_least) = (BTreeMap::new(), false);
        let mut after: Option<Text> = None;
        // One name at a time, so that the time to look for names counts too.
        while let Some(namespace) = self.namespaces_after(Of::Executions, after.as_deref(), 1).await?.pop() {
            if after.is_some() && self.engine.now() >= until {
                at_least = true;
                break;
            }
            let client = self.engine.client_as(self.caller.principal(namespace.clone()));
            let within_ms = until.since(self.engine.now());
            let counted = client.count_within(&filter, fields, within_ms).await.map_err(problem)?;
            at_least |= counted.at_least;
            for ((lane, kind, state), count) in counted.counts {
                let group = (
                    by("namespace").then(|| namespace.to_string()),
                    lane.map(|lane| lane.to_string()),
                    kind.map(|kind| kind.to_string()),
                    state,
                );
                *summed.entry(group).or_default() += count;
            }
            after = Some(namespace);
        }
        let total = summed.values().sum();
        let group = |((namespace, lane, kind, state), count)| wire::Count {
            namespace,
            lane,
            kind,
            state: Option::map(state, view::state),
            count,
        };
        let groups = if groups.is_empty() { Vec::new() } else { summed.into_iter().map(group).collect() };
        Ok(Reply::CountExecutions(wire::Counts { total, groups, at_least }).into())
    }
}

/// Bytes with a revision that changes exactly when they do.
fn tagged(payload: Option<Payload>, reply: impl FnOnce(Raw) -> Reply) -> Answer {
    let revision = payload.as_ref().map(|payload| {
        let kind = payload.content_type.as_deref().unwrap_or_default();
        let digest = Sha256::new().chain_update(kind).chain_update([0]).chain_update(&payload.bytes).finalize();
        HEXLOWER.encode(&digest[..16])
    });
    Answer { revision, ..reply(Raw(payload)).into() }
}

fn input(view: &ExecutionView) -> Option<Payload> {
    let bytes = view.execution.input()?;
    Some(view::payload(bytes, view.execution.spec.content_type.as_ref()))
}

fn included(include: Option<&str>) -> Result<Vec<&str>, Problem> {
    words("include", include, &["input", "result", "checkpoint", "attempts", "tags"])
}

fn grouped(group_by: Option<&str>) -> Result<Vec<&str>, Problem> {
    words("group_by", group_by, &["lane", "kind", "state", "public_state", "namespace"])
}

/// Words of a list that is joined by commas, all of them known.
fn words<'a>(field: &str, given: Option<&'a str>, known: &[&str]) -> Result<Vec<&'a str>, Problem> {
    let words: Vec<&str> = given.into_iter().flat_map(|given| given.split(',')).collect();
    match words.iter().find(|word| !known.contains(word)) {
        None => Ok(words),
        Some(wrong) => {
            let problem = Problem::invalid(field, format!("has `{wrong}`, allowed are `{}`", known.join("`, `")));
            Err(problem.suggest(wrong, known.iter().copied()))
        }
    }
}

fn until(until: Option<&str>) -> Result<Option<weft_core::record::execution::PublicState>, Problem> {
    match until {
        None | Some("done") => Ok(None),
        Some(name) => match wire::PublicState::from_name(name) {
            Some(state) => Ok(Some(view::core_state(state))),
            None => {
                let known: Vec<&str> =
                    ["done"].into_iter().chain(wire::PublicState::ALL.map(|state| state.name())).collect();
                let problem = Problem::invalid("until", format!("is `{name}`, allowed are `{}`", known.join("`, `")));
                Err(problem.suggest(name, known))
            }
        },
    }
}

pub fn limit(limit: Option<u32>) -> Result<usize, Problem> {
    let limit = limit.map_or(weft_core::limits::LIST_LIMIT_DEFAULT, |limit| limit as usize);
    let max = weft_core::limits::LIST_LIMIT_MAX;
    weft_core::text::check_range("limit", limit as u64, 1, max as u64).map_err(problem)?;
    Ok(limit)
}

/// A key as a parameter names it.
pub fn key_text(key: &[u8]) -> String {
    match std::str::from_utf8(key) {
        Ok(text) if !text.starts_with(BYTES) => text.to_string(),
        _ => format!("{BYTES}{}", data_encoding::BASE64.encode(key)),
    }
}

/// A key in a parameter: its text, or its bytes after `b64:`.
fn key_bytes(text: &str) -> Result<Bytes, Problem> {
    let Some(encoded) = text.strip_prefix(BYTES) else { return Ok(Bytes::copy_from_slice(text.as_bytes())) };
    let bytes = data_encoding::BASE64.decode(encoded.as_bytes());
    bytes.map(Bytes::from).map_err(|_| Problem::invalid("concurrency_key", "is not base64 after `b64:`"))
}

/// A tag in a parameter.
pub fn tag(tag: Option<&str>) -> Result<Option<(Text, Text)>, Problem> {
    let Some(tag) = tag else { return Ok(None) };
    match tag.split_once('=') {
        Some((key, value)) => Ok(Some((key.into(), value.into()))),
        None => Err(Problem::invalid("tag", format!("is `{tag}`; it looks like `key=value`"))),
    }
}

/// The one lane or kind that a filter selects. A list with commas is refused, because it would select nothing.
pub fn one(field: &'static str, name: Option<&str>) -> Result<Option<Text>, Problem> {
    match name {
        Some(name) if name.contains(',') => {
            Err(Problem::invalid(field, format!("is `{name}`; it takes one {field}, and none has a comma in its name")))
        }
        name => Ok(name.map(Into::into)),
    }
}

pub fn filter_of(query: &wire::ListQuery) -> Result<ListFilter, Problem> {
    let tag = tag(query.tag.as_deref())?;
    let parent = query.parent.as_deref().map(execution_id).transpose()?;
    let flow = query.flow.as_deref().map(flow_id).transpose()?;
    Ok(ListFilter {
        states: query.state.iter().map(|state| view::core_state(*state)).collect(),
        lane: one("lane", query.lane.as_deref())?,
        kind: one("kind", query.kind.as_deref())?,
        tag,
        parent,
        flow,
        against: query.against,
        worker: query.worker.as_deref().map(Into::into),
        concurrency_key: query.concurrency_key.as_deref().map(key_bytes).transpose()?,
        created_from: query.created_from.map(time),
        created_until: query.created_until.map(time),
        finished_from: query.finished_from.map(time),
        finished_until: query.finished_until.map(time),
        updated_since: query.updated_since.map(time),
        ascending: query.order == Some(wire::Order::Asc),
        ..ListFilter::default()
    })
}
