//! Questions about the deployment, and asking a node of it to stop.

use crate::across::Of;
use crate::cursor::Bound;
use crate::read::{COUNT_MS, limit};
use crate::rejection::problem;
use crate::{Acting, Answer, request_id};
use std::collections::BTreeMap;
use weft_api::node as wire;
use weft_api::operation::NoQuery;
use weft_api::page::PageQuery;
use weft_api::{Args, Page, Problem, Reply};
use weft_core::limits;
use weft_core::record::node::Filters;
use weft_engine::{GroupBy, ListFilter};

impl Acting<'_> {
    pub fn version(&self) -> Answer {
        let store = self.engine.describe().name.to_string();
        let version = env!("CARGO_PKG_VERSION").to_string();
        let features = ["steps", "notices", "revisions", "flows"].map(str::to_string).to_vec();
        let mode = if cfg!(debug_assertions) { "debug" } else { "release" };
        let build = format!("{mode} {}-{}", std::env::consts::ARCH, std::env::consts::OS);
        Reply::GetVersion(wire::Version { version, build, store, features }).into()
    }

    pub fn capabilities(&self) -> Answer {
        let (store, set) = (self.engine.described_now(), self.engine.limits());
        Reply::GetCapabilities(wire::Capabilities {
            durability: wire::Durability {
                store: store.name.to_string(),
                level: store.durability.level.name().to_string(),
                acknowledged: store.durability.acknowledged,
                can_lose: store.durability.can_lose,
                verified: store.durability.verified,
            },
            partitions: store.partitions,
            limits: wire::Limits {
                input_bytes: set.input_max as u64,
                result_bytes: set.result_max as u64,
                checkpoint_bytes: set.checkpoint_max as u64,
                step_bytes: set.step_max as u64,
                batch_items: limits::BATCH_ITEMS_MAX as u64,
                batch_bytes: limits::BATCH_BYTES_MAX as u64,
                claim_max: limits::CLAIM_MAX as u64,
                wait_ms: limits::CLAIM_WAIT_MAX_MS,
                flow: wire::FlowLimits {
                    members: set.flow_members_max.into(),
                    edges: set.flow_edges_max,
                    edges_per_member: set.edges_per_member_max.into(),
                    groups_per_member: limits::GROUPS_PER_MEMBER_MAX as u64,
                    submit_members: limits::FLOW_SUBMIT_MEMBERS_MAX as u64,
                    submit_edges: limits::FLOW_SUBMIT_EDGES_MAX as u64,
                    key_bytes: limits::NODE_KEY_MAX as u64,
                    input_name_bytes: limits::INPUT_NAME_MAX as u64,
                    group_name_bytes: limits::GROUP_NAME_MAX as u64,
                    inputs_inline_bytes: set.inputs_inline_max as u64,
                    seal_by_ms: set.seal_by_ms,
                },
            },
        })
        .into()
    }

    /// The namespaces of the caller, also those without executions; for a caller that reaches all, the namespaces that have
    /// some. A page whose counting takes too long ends early. Only the numbers of its first namespace may be lower bounds.
    pub async fn namespaces(&self, query: PageQuery) -> Result<Answer, Problem> {
        let limit = limit(query.limit)?;
        let bound = Bound::new("list_namespaces", &self.caller.reach.to_string(), &());
        let mut after = query.cursor.map(|cursor| bound.open(&cursor)).transpose()?;
        let until = self.engine.now() + COUNT_MS;
        let mut items = Vec::new();
        while items.len() < limit && (items.is_empty() || self.engine.now() < until) {
            let next = self.reachable_after(Of::Executions, after.as_deref(), 1).await?.pop();
            let Some(name) = next else { return Ok(Reply::ListNamespaces(Page { items, next_cursor: None }).into()) };
            let client = self.engine.client_as(self.caller.principal(name.clone()));
            let within_ms = until.since(self.engine.now());
            let by = GroupBy { state: true, ..GroupBy::default() };
            let counted = client.count_within(&ListFilter::default(), by, within_ms).await.map_err(problem)?;
            // The next page begins with it, and gives it all the time there is.
            if counted.at_least && !items.is_empty() {
                break;
            }
            let mut states = BTreeMap::new();
            for ((_, _, state), count) in counted.counts {
                let state = state.expect("count: it is grouped by state");
                *states.entry(state.name().to_string()).or_default() += count;
            }
            let (executions, at_least) = (states.values().sum(), counted.at_least);
            items.push(wire::Namespace { name: name.to_string(), executions, states, at_least });
            after = Some(name.to_string());
        }
        let more = !self.reachable_after(Of::Executions, after.as_deref(), 1).await?.is_empty();
        let next_cursor = after.filter(|_| more).map(|last| bound.seal(&last));
        Ok(Reply::ListNamespaces(Page { items, next_cursor }).into())
    }

    pub async fn nodes(&self) -> Result<Answer, Problem> {
        let now = self.engine.now();
        let mut nodes = self.engine.nodes().await.map_err(problem)?;
        nodes.sort_by_key(|node| (node.body.started_at, node.uuid));
        let (me, lag_ms) = (self.engine.node_id(), self.engine.scanners().map(|(_, meter)| meter.lag_ms(now)).max());
        let items = nodes.into_iter().map(|node| wire::Node {
            lag_ms: lag_ms.filter(|_| node.uuid == me),
            id: format!("n_{}", node.uuid),
            name: node.body.name.to_string(),
            version: node.body.version.to_string(),
            started_at: node.body.started_at.ms(),
            seen_at: node.body.seen_at.ms(),
            live: node.is_live(now),
            partitions: node.body.claimed.clone(),
            filters: filters(&node.body.filters),
        });
        Ok(Reply::ListNodes(wire::Nodes { items: items.collect() }).into())
    }

    /// Nodes belong to the deployment, not to a namespace.
    pub async fn drain_node(&self, args: Args<[String; 1], NoQuery, wire::DrainNode>) -> Result<Answer, Problem> {
        let request_id = request_id(&args, args.body.request_id.as_ref())?;
        let client = self.engine.client_as(self.caller.principal("".into()));
        let asked = client.drain_node(&args.path[0], args.body.reason, request_id).await.map_err(problem)?;
        let reply = wire::DrainingNode { node: format!("n_{}", asked.value), draining: true };
        Ok(Answer { replayed: asked.repeated, ..Reply::DrainNode(reply).into() })
    }
}

/// Filters of a node as the API shows them: first the one of all scanners, then those of single ones.
pub fn filters(filters: &Filters) -> Vec<wire::NodeFilter> {
    let general = Some((None, &filters.general)).filter(|(_, filter)| !filter.is_none());
    let named = filters.scanners.iter().map(|(scanner, filter)| (Some(scanner.to_string()), filter));
    let shown = general.into_iter().chain(named).map(|(scanner, filter)| wire::NodeFilter {
        scanner,
        namespace: filter.namespace.as_ref().map(ToString::to_string),
        tag: filter.tag.as_ref().map(|(key, value)| format!("{key}={value}")),
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use crate::{Around, Caller, Dispatch, Reach};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::time::Duration;
    use weft_api::Call;
    use weft_api::operation::Wire;
    use weft_core::Time;
    use weft_core::command::Principal;
    use weft_engine::{Config, Engine, Submission, TokioRuntime};
    use weft_store::faulty::{Faults, Sleeper};
    use weft_store::{Faulty, MemoryStore};

    struct Tokio;

    impl Sleeper for Tokio {
        fn sleep(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
        }

        fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
            tokio::spawn(task);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn api_a_namespace_that_a_page_has_no_time_for_begins_the_next_page() {
        let began = tokio::time::Instant::now();
        let clock = move || Time::from_ms(1_700_000_000_000 + began.elapsed().as_millis() as u64);
        let store = Arc::new(MemoryStore::new(1, Arc::new(clock)));
        let faulty = Arc::new(Faulty::new(store, Faults::default(), 7, Arc::new(Tokio)));
        let runtime = Arc::new(TokioRuntime::current());
        let engine = Engine::open_on(faulty.clone(), Config::default(), runtime).await.expect("it opens");
        for number in 0..12 {
            let client = engine.client(&format!("shop-{number:02}")).expect("a good name");
            client.submit(Submission::new("mail")).await.expect("a good submission");
        }
        let dispatch = Dispatch::new(engine);
        let everywhere = Caller::new(Principal::all("", "ann"), Reach::All, None, None);
        // With some of these the time is up between finding a namespace and counting it.
        for slow_ms in (400..1_000).step_by(50) {
            faulty.set_faults(Faults { before_ms: (slow_ms, slow_ms), ..Faults::default() });
            let (mut seen, mut cursor) = (0, String::new());
            loop {
                let wire = Wire { query: format!("limit=40{cursor}"), ..Wire::default() };
                let call = Call::from_wire("list_namespaces", wire).expect("a good call");
                let answer = dispatch.call(&everywhere, call, &Around { trace: None }).await.expect("a page");
                let page: serde_json::Value =
                    serde_json::from_slice(&answer.reply.carry().bytes).expect("a reply is JSON");
                for item in page["items"].as_array().expect("a page has items") {
                    assert_eq!(
                        (&item["executions"], &item["at_least"]),
                        (&1.into(), &false.into()),
                        "{slow_ms}: {item}"
                    );
                    seen += 1;
                }
                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            assert_eq!(seen, 12, "{slow_ms}");
        }
    }
}
