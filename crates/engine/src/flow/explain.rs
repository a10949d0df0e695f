//! Why a flow is not done.

use super::members::{self, MemberFilter};
use super::reads;
use crate::client::Client;
use crate::explain::{Explanation, Obstacle, failing, failure_of};
use crate::parked::{self, Parked};
use crate::reads::{decode, unavailable};
use weft_core::error::Rejection;
use weft_core::record::Record;
use weft_core::record::execution::{PublicState, State as MemberState};
use weft_core::record::flow::{CompletionPolicy, Flow, State};
use weft_core::schema::{IndexId, Value, execution as schema};
use weft_core::text::Text;
use weft_core::{ExecutionId, FlowId, Time};
use weft_store::{Entry, Range, Scan, Target};

/// What keeps a flow from being done.
#[derive(Clone, Debug)]
pub struct FlowExplanation {
    pub flow: Flow,
    /// Nobody has said that it may finish; it is cancelled at this time.
    pub unsealed_until: Option<Time>,
    /// Members are being sealed.
    pub sealing: bool,
    /// All have ended, and the outcome has yet to be declared.
    pub undeclared: bool,
    /// Live members by public state; none is zero.
    pub live: Vec<(PublicState, u32)>,
    /// The first of them, each with why it is not running.
    pub first: Vec<(Text, ExecutionId, Explanation)>,
    /// The first members that count against it, and how each ended.
    pub against: Vec<Against>,
    pub cancel_owed: u32,
    /// Continuations and groups with work that a commit left.
    pub works: u32,
    /// Failures of scanners on the flow itself, each an `Obstacle::Trouble`, and by which timer.
    pub trouble: Vec<(&'static str, Obstacle)>,
    /// The first items of it that scanners have parked.
    pub parked: Vec<Parked>,
}

/// A member that counts against its flow.
#[derive(Clone, Debug)]
pub struct Against {
    pub key: Text,
    pub id: ExecutionId,
    pub state: PublicState,
    /// Category and message of its last attempt, if that failed and its record is there.
    pub failure: Option<(Text, Text)>,
}

const TOLD: usize = 20;
/// Members against it that are told; there may be as many as there are members.
const AGAINST_TOLD: usize = 5;
/// Entries that are looked at for them: some may not be readable, and are told among what is parked.
const LOOKED_AT: usize = 100;

pub async fn explain(client: &Client, id: FlowId) -> Result<FlowExplanation, Rejection> {
    let flow = reads::get(&client.shared, &client.principal, id).await?.flow;
    let open = matches!(flow.hot.state, State::Open);
    let unsealed = open && flow.hot.sealed_at.is_none() && flow.hot.sealing.is_none();
    let live = PublicState::ALL.into_iter().filter(|state| !state.is_terminal());
    let live: Vec<(PublicState, u32)> =
        live.map(|state| (state, flow.summary.of(state))).filter(|(_, count)| *count > 0).collect();
    let mut first = Vec::new();
    if !live.is_empty() {
        for (key, id) in first_live(client, id).await? {
            // One that ends in between needs no explanation.
            if let Ok(explanation) = client.explain(id).await {
                first.push((key, id, explanation));
            }
        }
    }
    let against = if flow.summary.failures > 0 { first_against(client, id).await? } else { Vec::new() };
    let trouble = flow.trouble().into_iter().flat_map(|trouble| &trouble.items);
    Ok(FlowExplanation {
        unsealed_until: flow.hot.seal_by.filter(|_| unsealed),
        sealing: flow.hot.sealing.is_some(),
        undeclared: open
            && flow.summary.live() == 0
            && matches!(flow.definition.completion, CompletionPolicy::Declared { .. }),
        live,
        first,
        against,
        cancel_owed: flow.summary.cancel_owed,
        works: flow.hot.works,
        trouble: trouble.map(|item| (item.timer.name(), failing(id.partition(), item))).collect(),
        parked: parked::of_flow(&client.shared, id, TOLD).await?,
        flow,
    })
}

/// The first members that count against it, in the order they were added; of a large flow only its first members are looked
/// at.
async fn first_against(client: &Client, flow: FlowId) -> Result<Vec<Against>, Rejection> {
    let filter = MemberFilter { against: Some(true), ..MemberFilter::added_after(None, AGAINST_TOLD) };
    let page = members::members(&client.shared, &client.principal, flow, filter).await?;
    let mut told = Vec::new();
    for (execution, _) in page.members {
        let Some(member) = execution.member() else { continue };
        let attempt = match &execution.hot.state {
            MemberState::Done { attempt, .. } => *attempt,
            _ => None,
        };
        let failure = match attempt {
            Some(attempt) => failure_of(&client.shared, execution.id, attempt).await?,
            None => None,
        };
        told.push(Against { key: member.key.clone(), id: execution.id, state: execution.public_state(), failure });
    }
    Ok(told)
}

/// The first members that have not ended, however many have: those have left their index. Of more than are looked at, the
/// ones whose ids come first.
async fn first_live(client: &Client, flow: FlowId) -> Result<Vec<(Text, ExecutionId)>, Rejection> {
    let prefix = vec![Value::bytes(flow.uuid().as_bytes())];
    let scan = Scan {
        target: Target::Index(IndexId::LiveMembers),
        ranges: vec![Range { prefix, after: None, until: None }],
        limit: LOOKED_AT,
        descending: false,
        parts: Some(schema::LIGHT),
    };
    let pages = client.shared.store.scan(Some(flow.partition()), scan).await.map_err(unavailable)?;
    let named = |entry: &Entry| {
        let (key, found) = (entry.key()?, entry.found.as_ref()?);
        match decode(key, found, schema::LIGHT) {
            Ok(Record::Execution(execution)) => {
                let member = execution.member()?;
                Some((member.number, member.key.clone(), execution.id))
            }
            _ => None,
        }
    };
    let mut live: Vec<_> = pages.iter().flat_map(|page| &page.entries).filter_map(named).collect();
    live.sort();
    live.truncate(TOLD);
    Ok(live.into_iter().map(|(_, key, id)| (key, id)).collect())
}
