//! Flows, as clients use them: verbs, and reads that go straight to the store.

pub(crate) mod edges;
pub(crate) mod explain;
pub(crate) mod members;
pub(crate) mod reads;
mod request;
mod verbs;

pub use edges::{EdgeFilter, EdgeKey, EdgePage, EdgePlace, EdgeView};
pub use explain::{Against, FlowExplanation};
pub use members::{MemberFilter, MemberOrder, MemberPage};
pub use reads::{FlowFilter, FlowPage, FlowView, GroupView, InputPage};
pub use request::{Declaring, Edge, FlowCancellation, FlowChange, FlowSubmission, Growing, Member, Sealing};
pub use verbs::Ended;

use weft_core::{ExecutionId, FlowId};

/// Under which name the hub knows those who wait for a flow. Ids of flows and executions never meet: both are drawn anew.
pub(crate) fn wait_name(flow: FlowId) -> ExecutionId {
    ExecutionId::new(flow.partition(), flow.uuid())
}
