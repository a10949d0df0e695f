//! Scanners of this node, and the items that scanners have parked. A caller sees items of the namespaces it reaches;
//! those whose namespace is not known are seen by a caller that reaches all.

use crate::cursor::Bound;
use crate::once::{Repeat, once};
use crate::read::limit;
use crate::rejection::{invalid_id, problem};
use crate::{Acting, Answer, Reach, text};
use data_encoding::HEXLOWER;
use weft_api::operation::{NoBody, NoQuery, Operation};
use weft_api::scanner as wire;
use weft_api::{Args, Page, Problem, Reply, nearest, op};
use weft_core::error::Rejection;
use weft_core::limits::BATCH_ITEMS_MAX;
use weft_core::record::Key;
use weft_core::record::dead_letter::Why;
use weft_core::reply::Retried;
use weft_core::text::Text;
use weft_core::{BulkId, ParkedId, Time};
use weft_engine::scanner::{Condition, ScannerStatus};
use weft_engine::{Parked, ParkedFilter};

type One<B> = Args<[String; 1], NoQuery, B>;
type Plain<B> = Args<[String; 0], NoQuery, B>;

impl Acting<'_> {
    pub async fn list_scanners(&self) -> Result<Answer, Problem> {
        let items = self.engine.scanner_status().await;
        let reply = wire::Scanners {
            node: format!("n_{}", self.engine.node_id()),
            node_name: self.engine.node().to_string(),
            at: self.engine.now().ms(),
            items: items.iter().map(scanner).collect(),
        };
        Ok(Reply::ListScanners(reply).into())
    }

    pub async fn list_parked(&self, args: Args<[String; 0], wire::ParkedQuery, NoBody>) -> Result<Answer, Problem> {
        let wire::ParkedQuery { scanner, namespace, limit: asked, cursor } = args.query;
        let bound = Bound::new("list_parked", &self.caller.reach.to_string(), &(&scanner, &namespace));
        let filter = ParkedFilter {
            scanner: self.known_scanner(scanner)?,
            within: Some(self.caller.within(namespace.as_deref())?),
            limit: Some(limit(asked)?),
            cursor: cursor.map(|cursor| bound.open(&cursor)).transpose()?,
        };
        let page = self.keeper().parked(&filter).await.map_err(problem)?;
        let next_cursor = page.next_cursor.map(|cursor| bound.seal(&cursor));
        Ok(Reply::ListParked(Page { items: page.items.iter().map(item).collect(), next_cursor }).into())
    }

    pub async fn retry_parked(&self, args: One<wire::RetryParked>) -> Result<Answer, Problem> {
        let repeat = Repeat::of(op::RetryParked::SPEC, &args, args.body.request_id.as_ref())?;
        let id = parked_id(&args.path[0])?;
        once(&self.keeper(), repeat, async {
            let namespace = self.namespace_of_parked("retry_parked", id).await?;
            let client = self.engine.client_as(self.caller.principal(namespace));
            let (outcome, error) = match client.retry_parked(id, None).await.map_err(problem)?.value {
                Retried::Retried => (wire::RetryOutcome::Retried, None),
                Retried::NothingLeft => (wire::RetryOutcome::NothingLeft, None),
                Retried::StillDamaged { error } => (wire::RetryOutcome::StillDamaged, Some(error.to_string())),
            };
            Ok(Reply::RetryParked(wire::RetriedItem { id: id.to_string(), outcome, error }))
        })
        .await
    }

    pub async fn discard_parked(&self, args: One<wire::DiscardParked>) -> Result<Answer, Problem> {
        let repeat = Repeat::of(op::DiscardParked::SPEC, &args, args.body.request_id.as_ref())?;
        let id = parked_id(&args.path[0])?;
        once(&self.keeper(), repeat, async {
            let namespace = self.namespace_of_parked("discard_parked", id).await?;
            let client = self.engine.client_as(self.caller.principal(namespace));
            client.discard_parked(id, text(args.body.reason), None).await.map_err(problem)?;
            Ok(Reply::DiscardParked(wire::DiscardedItem { id: id.to_string(), discarded: true }))
        })
        .await
    }

    /// Retries up to 1 000 parked items, from the cursor on. Each item is a command of its own, with its own entry in the
    /// audit log. One that is still damaged stays in the list and counts, so that a call is bounded; the next call goes on
    /// after it, so that it hides nothing.
    pub async fn retry_all_parked(&self, args: Plain<wire::RetryAllParked>) -> Result<Answer, Problem> {
        let repeat = Repeat::of(op::RetryAllParked::SPEC, &args, args.body.request_id.as_ref())?;
        let wire::RetryAllParked { scanner, namespace, cursor, request_id: _ } = args.body;
        let bound = Bound::new("retry_all_parked", &self.caller.reach.to_string(), &(&scanner, &namespace));
        let is_first = cursor.is_none();
        let mut filter = ParkedFilter {
            scanner: self.known_scanner(scanner)?,
            within: Some(self.caller.within(namespace.as_deref())?),
            cursor: cursor.map(|cursor| bound.open(&cursor)).transpose()?,
            limit: None,
        };
        once(&self.keeper(), repeat, async {
            let (mut all, mut tried, mut refused) = (wire::RetriedItems::default(), 0, None);
            loop {
                filter.limit = Some(BATCH_ITEMS_MAX - tried);
                let page = self.keeper().parked(&filter).await.map_err(problem)?;
                tried += page.items.len();
                let named = page.items.iter().map(|parked| {
                    let namespace = parked.letter.body.namespace.clone().unwrap_or_else(|| "".into());
                    (self.caller.principal(namespace), parked.id)
                });
                for answer in self.engine.retry_parked_as(named.collect()).await {
                    match answer {
                        Ok(Retried::Retried) => all.retried += 1,
                        Ok(Retried::StillDamaged { .. }) => all.still_damaged += 1,
                        Ok(Retried::NothingLeft) => all.nothing_left += 1,
                        // Somebody else was faster.
                        Err(Rejection::DeadLetterNotFound) => {}
                        // The others are retried all the same; this one stays parked.
                        Err(rejection) => (all.refused, refused) = (all.refused + 1, Some(rejection)),
                    }
                }
                filter.cursor = page.next_cursor;
                if filter.cursor.is_none() || tried >= BATCH_ITEMS_MAX {
                    break;
                }
            }
            all.next_cursor = filter.cursor.map(|cursor| bound.seal(&cursor));
            all.more = all.next_cursor.is_some() || refused.is_some();
            let is_whole = is_first && all.next_cursor.is_none();
            let has_retried = all.retried + all.nothing_left + all.still_damaged > 0;
            match refused.filter(|_| is_whole && !has_retried) {
                Some(rejection) => Err(problem(rejection)),
                None => Ok(Reply::RetryAllParked(all)),
            }
        })
        .await
    }

    /// The namespace in which to act on an item, empty if it is not known. Items that the caller may not see are
    /// refused as unknown.
    async fn namespace_of_parked(&self, verb: &str, id: ParkedId) -> Result<Text, Problem> {
        let within = self.caller.within(None)?;
        let refuse = |rejection| self.refuse(verb, &id.to_string(), problem(rejection));
        let found = self.engine.namespace_of_parked(id).await.map_err(refuse)?;
        let seen = match (&found, &within) {
            (_, Reach::All) => true,
            (Some(namespace), within) => within.holds(namespace),
            (None, _) => false,
        };
        match seen {
            true => Ok(found.unwrap_or_else(|| "".into())),
            false => Err(refuse(Rejection::DeadLetterNotFound)),
        }
    }

    /// Refuses a name that no scanner of this node has.
    fn known_scanner(&self, name: Option<String>) -> Result<Option<Text>, Problem> {
        let Some(name) = name else { return Ok(None) };
        let known = || self.engine.scanners().map(|(known, _)| known);
        if known().any(|known| known == name) {
            return Ok(Some(name.into()));
        }
        let refusal = Problem::invalid("scanner", format!("is `{name}`, and there is no such scanner"));
        Err(refusal.hint(match nearest(&name, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`weft scanners`, or `GET /v1/scanners`, lists them".to_string(),
        }))
    }
}

fn parked_id(text: &str) -> Result<ParkedId, Problem> {
    text.parse().map_err(|_| invalid_id("d", text))
}

fn scanner(status: &ScannerStatus) -> wire::Scanner {
    let filter = &status.filter;
    wire::Scanner {
        name: status.name.to_string(),
        state: match status.condition {
            Condition::Ok => wire::ScannerState::Ok,
            Condition::Late => wire::ScannerState::Late,
            Condition::Failing => wire::ScannerState::Failing,
            Condition::Stuck => wire::ScannerState::Stuck,
        },
        interval_ms: status.interval_ms,
        filter: (!filter.is_none()).then(|| wire::ScannerFilter {
            namespace: filter.namespace.as_ref().map(ToString::to_string),
            tag: filter.tag.as_ref().map(|(key, value)| format!("{key}={value}")),
        }),
        partitions: status.partitions as u32,
        last_cycle: status.last_cycle.map(|cycle| wire::ScannerCycle {
            ended_at: cycle.ended_at.ms(),
            took_ms: cycle.took_ms,
            processed: cycle.processed,
            errors: cycle.errors,
        }),
        lag_ms: status.lag_ms,
        lateness_p99_ms: status.lateness_p99_ms,
        backlog: status.backlog,
        parked: status.parked,
        restarts: status.restarts,
    }
}

fn item(parked: &Parked) -> wire::ParkedItem {
    let body = &parked.letter.body;
    wire::ParkedItem {
        id: parked.id.to_string(),
        scanner: body.scanner.to_string(),
        why: match body.why {
            Why::Failing => wire::ParkedWhy::Failing,
            Why::Damaged => wire::ParkedWhy::Damaged,
            Why::Poison => wire::ParkedWhy::Poison,
        },
        item: parked.item.map(kind),
        item_id: parked.item.map(name),
        entry: parked.item.is_none().then(|| HEXLOWER.encode(&body.key)),
        timer: body.timer.name().to_string(),
        namespace: body.namespace.as_ref().map(ToString::to_string),
        flow: body.flow.map(|flow| flow.to_string()),
        since: body.parked_at.ms(),
        tries: body.fails,
        next_try_at: body.next_try_at.map(Time::ms),
        last_error: body.error.to_string(),
        expires_at: body.expires_at.map(Time::ms),
    }
}

/// The kind of a record in one word: `execution`.
fn kind(key: Key) -> String {
    let table = key.kind().table().name;
    table.strip_suffix('s').unwrap_or(table).to_string()
}

/// A record as people name it: by its id if it has one.
pub fn name(key: Key) -> String {
    match key {
        Key::Execution(id) | Key::Continuation(id, _) | Key::Tombstone(id) => id.to_string(),
        Key::Flow(id) => id.to_string(),
        Key::Edge(upstream, number) => format!("edge {number} of {upstream}"),
        Key::BulkJob(partition, uuid, _) => BulkId::new(partition, uuid).to_string(),
        other => HEXLOWER.encode(other.to_bytes().as_slice()),
    }
}
