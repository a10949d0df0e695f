//! Why a flow is not done.

use super::members::{self, MemberFilter};
use super::reads;
use crate::client::Client;
use crate::explain::Explanation;
use crate::parked::{self, Parked};
use weft_core::error::Rejection;
use weft_core::record::execution::PublicState;
use weft_core::record::flow::{CompletionPolicy, Flow, State};
use weft_core::text::Text;
use weft_core::{ExecutionId, FlowId, Time};

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
    pub cancel_owed: u32,
    /// Continuations and groups with work that a commit left.
    pub works: u32,
    /// Failures of scanners on the flow itself: timer, error, and whether it is parked.
    pub trouble: Vec<(&'static str, Text, bool)>,
    /// The first items of it that scanners gave up on, or that cannot be read.
    pub parked: Vec<Parked>,
}

const TOLD: usize = 20;

pub async fn explain(client: &Client, id: FlowId) -> Result<FlowExplanation, Rejection> {
    let flow = reads::get(&client.shared, &client.principal, id).await?.flow;
    let open = matches!(flow.hot.state, State::Open);
    let unsealed = open && flow.hot.sealed_at.is_none() && flow.hot.sealing.is_none();
    let live = PublicState::ALL.into_iter().filter(|state| !state.is_terminal());
    let live: Vec<(PublicState, u32)> =
        live.map(|state| (state, flow.summary.of(state))).filter(|(_, count)| *count > 0).collect();
    let mut first = Vec::new();
    if !live.is_empty() {
        let states = live.iter().map(|(state, _)| *state).collect();
        let filter = MemberFilter { states, limit: Some(TOLD), ..MemberFilter::default() };
        let page = members::members(&client.shared, &client.principal, id, filter).await?;
        for (execution, _) in page.members {
            let key = execution.member().map_or_else(|| "".into(), |member| member.key.clone());
            // One that ends in between needs no explanation.
            if let Ok(explanation) = client.explain(execution.id).await {
                first.push((key, execution.id, explanation));
            }
        }
    }
    let trouble = flow.trouble().into_iter().flat_map(|trouble| &trouble.items);
    Ok(FlowExplanation {
        unsealed_until: flow.hot.seal_by.filter(|_| unsealed),
        sealing: flow.hot.sealing.is_some(),
        undeclared: open
            && flow.summary.live() == 0
            && matches!(flow.definition.completion, CompletionPolicy::Declared { .. }),
        live,
        first,
        cancel_owed: flow.summary.cancel_owed,
        works: flow.hot.works,
        trouble: trouble.map(|item| (item.timer.name(), item.last_error.clone(), item.parked)).collect(),
        parked: parked::of_flow(&client.shared, id, TOLD).await?,
        flow,
    })
}
