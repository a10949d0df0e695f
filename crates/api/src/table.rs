//! Every operation, in one table. Each row becomes a route, a permission, a variant of `Call` and of `Reply`, a typed
//! operation for clients, and an entry of the document.

use crate::bulk as b;
use crate::execution as x;
use crate::flow as f;
use crate::key as k;
use crate::node as n;
use crate::operation::{
    Args, BodyMax, Carried, Carry, Method, NoBody, NoQuery, Operation, Raw, Reading, Scope, Spec, Wire, schema_of,
};
use crate::page::{Batch, Page, PageQuery, Results};
use crate::problem::{Code, Problem};
use crate::scanner as s;
use crate::work as w;
use crate::worker as r;

const ID: &[Code] = &[Code::InvalidId, Code::ExecutionNotFound];
const LIST: &[Code] = &[Code::InvalidCursor];
const REVISION: &[Code] = &[Code::RevisionMismatch];
const CHANGE: &[Code] = &[Code::IdempotencyMismatch, Code::RevisionMismatch];
const SUBMIT: &[Code] = &[Code::DeadlineInPast, Code::IdempotencyMismatch];
const FENCED: &[Code] = &[
    Code::InvalidId,
    Code::ExecutionNotFound,
    Code::FenceRequired,
    Code::LeaseExpired,
    Code::LeaseRevoked,
    Code::LeaseLost,
    Code::Cancelled,
    Code::StaleLease,
    Code::ExecutionNotActive,
    Code::ExecutionTerminal,
    Code::IdempotencyMismatch,
    Code::LimitExceeded,
];
const ENDED: &[Code] = &[Code::ExecutionTerminal];
const WORKER: &[Code] = &[Code::WorkerNotFound, Code::WorkerDead, Code::InstanceSuperseded];
const BULK: &[Code] = &[Code::InvalidId, Code::NotFound, Code::IdempotencyMismatch];
const KEY: &[Code] = &[Code::KeyNotFound, Code::NameTaken, Code::IdempotencyMismatch];
const PARKED: &[Code] = &[Code::InvalidId, Code::NotFound, Code::IdempotencyMismatch];
const FLOW: &[Code] = &[Code::InvalidId, Code::FlowNotFound];
const FLOW_CHANGE: &[Code] = &[Code::InvalidId, Code::FlowNotFound, Code::IdempotencyMismatch, Code::RevisionMismatch];
const OWN_FLOW: &[Code] = &[Code::FlowNotFound, Code::FlowClosed, Code::CancelRequested, Code::RevisionMismatch];
const GRAPH: &[Code] = &[
    Code::DeadlineInPast,
    Code::EmptyFlow,
    Code::UnknownNode,
    Code::DuplicateNode,
    Code::SelfEdge,
    Code::DuplicateEdge,
    Code::DuplicateInput,
    Code::EmptyGroup,
    Code::GroupConflict,
    Code::QuorumUnreachable,
    Code::ThresholdUnreachable,
    Code::Cycle,
    Code::GraphTooLarge,
    Code::UnknownPolicy,
    Code::LimitExceeded,
];
const GROWTH: &[Code] = &[Code::FlowClosed, Code::ExecutionTerminal, Code::GroupDecided, Code::DownstreamBegun];

/// A schema for what an operation takes or gives; none where that is not JSON.
macro_rules! body_schema {
    (NoBody) => {
        None
    };
    ($($body:tt)+) => {
        Some(schema_of::<$($body)+>)
    };
}

macro_rules! reply_schema {
    (Raw) => {
        None
    };
    ($($reply:tt)+) => {
        Some(schema_of::<$($reply)+>)
    };
}

/// Reads a call. Items of one that answers them one by one are also read one by one.
macro_rules! from_wire {
    ($wire:ident, Results<$($item:tt)+) => {
        Args::batch_from_wire($wire)
    };
    ($wire:ident, w::RenewReply) => {
        Args::batch_from_wire($wire)
    };
    ($wire:ident, $($reply:tt)+) => {
        Args::from_wire($wire)
    };
}

macro_rules! operations {
    ($(
        $name:ident $id:literal $tag:literal: $method:ident $path:literal ($params:literal) $scope:ident $status:literal
        { $query:ty, [$($body:tt)+], $max:ident } => [$($reply:tt)+], [$($codes:expr),*], $summary:literal;
    )+) => {
        /// One call of any operation.
        #[derive(Clone, Debug)]
        pub enum Call {
            $($name(Box<Args<[String; $params], $query, $($body)+>>),)+
        }

        /// What any operation answers. It lives once per call, so that its size does not matter.
        #[derive(Clone, Debug)]
        #[allow(clippy::large_enum_variant)]
        pub enum Reply {
            $($name($($reply)+),)+
        }

        pub static OPERATIONS: &[&Spec] = &[$(op::$name::SPEC,)+];

        impl Call {
            pub fn spec(&self) -> &'static Spec {
                match self {
                    $(Call::$name(_) => op::$name::SPEC,)+
                }
            }

            /// Reads a call of the operation with this id.
            pub fn from_wire(id: &str, wire: Wire) -> Result<Call, Problem> {
                match id {
                    $($id => {
                        op::$name::SPEC.check_conditions(&wire)?;
                        Ok(Call::$name(Box::new(from_wire!(wire, $($reply)+)?)))
                    })+
                    other => Err(Problem::new(Code::RouteNotFound, format!("there is no operation `{other}`"))),
                }
            }

            pub fn into_wire(self) -> Wire {
                match self {
                    $(Call::$name(args) => args.into_wire(),)+
                }
            }
        }

        impl Reply {
            pub fn carry(&self) -> Carried {
                match self {
                    $(Reply::$name(reply) => reply.carry(),)+
                }
            }

            /// Reads the reply of the operation with this id.
            pub fn uncarry(id: &str, carried: Carried) -> Result<Reply, serde_json::Error> {
                match id {
                    $($id => Ok(Reply::$name(Carry::uncarry(carried)?)),)+
                    other => Err(serde::de::Error::custom(format!("there is no operation `{other}`"))),
                }
            }
        }

        /// The operations as types.
        pub mod op {
            use super::*;

            $(
                #[doc = $summary]
                pub enum $name {}

                impl Operation for $name {
                    type Path = [String; $params];
                    type Query = $query;
                    type Body = $($body)+;
                    type Reply = $($reply)+;
                    const SPEC: &'static Spec = &Spec {
                        id: $id,
                        method: Method::$method,
                        path: $path,
                        summary: $summary,
                        tag: $tag,
                        scope: Scope::$scope,
                        status: $status,
                        body_max: BodyMax::$max,
                        codes: &[$($codes),*],
                        parameters: <$query as Reading>::parameters,
                        body: body_schema!($($body)+),
                        reply: reply_schema!($($reply)+),
                    };

                    fn call(args: Args<Self::Path, Self::Query, Self::Body>) -> Call {
                        Call::$name(Box::new(args))
                    }

                    fn reply(reply: Reply) -> Option<Self::Reply> {
                        match reply {
                            Reply::$name(reply) => Some(reply),
                            #[allow(unreachable_patterns)]
                            _ => None,
                        }
                    }
                }
            )+
        }
    };
}

operations! {
    SubmitExecution "submit_execution" "executions": Post "/v1/executions" (0) Submit 201
        { NoQuery, [x::Submit], Payload } => [x::Submitted], [SUBMIT], "Submit an execution";
    SubmitExecutions "submit_executions" "executions": Post "/v1/executions/batch" (0) Submit 200
        { NoQuery, [x::SubmitBatch], Batch } => [Results<x::Submitted>], [SUBMIT], "Submit many executions";
    ListExecutions "list_executions" "executions": Get "/v1/executions" (0) Read 200
        { x::ListQuery, [NoBody], Small } => [Page<x::Execution>], [LIST, &[Code::InvalidId]], "List executions";
    CountExecutions "count_executions" "executions": Get "/v1/executions/count" (0) Read 200
        { x::CountQuery, [NoBody], Small } => [x::Counts], [&[Code::InvalidId]], "Count executions, exactly";
    CancelExecutions "cancel_executions" "executions": Post "/v1/executions/cancel" (0) SubmitOrOperate 200
        { NoQuery, [Batch<x::CancelItem>], Batch } => [Results<x::Cancelled>], [&[Code::IdempotencyMismatch]], "Cancel many executions";
    GetExecution "get_execution" "executions": Get "/v1/executions/{execution}" (1) Read 200
        { x::GetQuery, [NoBody], Small } => [x::Execution], [ID], "Get an execution, and wait for it if asked";
    GetInput "get_input" "executions": Get "/v1/executions/{execution}/input" (1) Read 200
        { NoQuery, [NoBody], Small } => [Raw], [ID], "The bytes of its input";
    GetResult "get_result" "executions": Get "/v1/executions/{execution}/result" (1) Read 200
        { x::WaitQuery, [NoBody], Small } => [Raw], [ID, &[Code::ExecutionNotTerminal]], "The bytes of its result";
    GetCheckpoint "get_checkpoint" "executions": Get "/v1/executions/{execution}/checkpoint" (1) Read 200
        { NoQuery, [NoBody], Small } => [Raw], [ID], "The bytes of its checkpoint";
    ListAttempts "list_attempts" "executions": Get "/v1/executions/{execution}/attempts" (1) Read 200
        { x::AttemptsQuery, [NoBody], Small } => [Page<x::Attempt>], [ID, LIST], "Its attempts, in order";
    GetAttempt "get_attempt" "executions": Get "/v1/executions/{execution}/attempts/{index}" (2) Read 200
        { NoQuery, [NoBody], Small } => [x::Attempt], [ID, &[Code::NotFound]], "One of its attempts";
    GetAttemptResult "get_attempt_result" "executions": Get "/v1/executions/{execution}/attempts/{index}/result" (2) Read 200
        { NoQuery, [NoBody], Small } => [Raw], [ID, &[Code::NotFound]], "The bytes of the result of an attempt";
    GetHistory "get_history" "executions": Get "/v1/executions/{execution}/history" (1) Read 200
        { PageQuery, [NoBody], Small } => [x::History], [ID, LIST], "What happened to it, in order";
    ListChildren "list_children" "executions": Get "/v1/executions/{execution}/children" (1) Read 200
        { PageQuery, [NoBody], Small } => [Page<x::Execution>], [ID, LIST], "The executions it spawned";
    ExplainExecution "explain_execution" "executions": Get "/v1/executions/{execution}/explain" (1) Read 200
        { x::ExplainQuery, [NoBody], Small } => [x::Explanation], [ID, &[Code::WorkerNotFound]], "Why it is not running";
    ListSteps "list_steps" "executions": Get "/v1/executions/{execution}/steps" (1) Read 200
        { PageQuery, [NoBody], Small } => [Page<w::Step>], [ID, LIST], "Its recorded steps, in order";
    GetStep "get_step" "executions": Get "/v1/executions/{execution}/steps/{name}" (2) Read 200
        { NoQuery, [NoBody], Small } => [w::Step], [ID, &[Code::NotFound]], "One of its recorded steps";
    CancelExecution "cancel_execution" "executions": Post "/v1/executions/{execution}/cancel" (1) SubmitOrOperate 200
        { NoQuery, [x::Cancel], Small } => [x::Cancelled], [ID, CHANGE, ENDED], "Cancel an execution";
    ReplayExecution "replay_execution" "executions": Post "/v1/executions/{execution}/replay" (1) SubmitOrOperate 200
        { NoQuery, [x::Replay], Small } => [x::Replayed],
        [ID, CHANGE, &[Code::ExecutionNotTerminal, Code::ReplayLimit, Code::DeadlineInPast, Code::FlowClosed, Code::StillImpossible]], "Run an ended execution again";
    RescheduleExecution "reschedule_execution" "executions": Post "/v1/executions/{execution}/reschedule" (1) Submit 200
        { NoQuery, [x::Reschedule], Small } => [x::Rescheduled], [ID, CHANGE, &[Code::NotDelayed]], "Move the start of a delayed execution";
    SetPriority "set_priority" "executions": Put "/v1/executions/{execution}/priority" (1) SubmitOrOperate 200
        { NoQuery, [x::Priority], Small } => [x::PriorityChanged], [ID, CHANGE, ENDED], "Change its priority";
    SetTags "set_tags" "executions": Patch "/v1/executions/{execution}/tags" (1) SubmitOrOperate 200
        { NoQuery, [x::TagChange], Small } => [x::Tags], [ID, CHANGE], "Change its tags";
    HoldExecution "hold_execution" "executions": Post "/v1/executions/{execution}/hold" (1) Operate 200
        { NoQuery, [x::HoldRequest], Small } => [x::Held], [ID, CHANGE, ENDED], "Keep it from running";
    ReleaseExecution "release_execution" "executions": Post "/v1/executions/{execution}/release" (1) Operate 200
        { NoQuery, [x::Release], Small } => [x::Released], [ID, CHANGE, ENDED], "Let a held execution run";
    RevokeExecution "revoke_execution" "executions": Post "/v1/executions/{execution}/revoke" (1) Operate 200
        { NoQuery, [x::Revoke], Small } => [x::Revoked],
        [ID, CHANGE, ENDED, &[Code::ExecutionNotActive, Code::StaleLease]], "Take its lease away";
    ForceComplete "force_complete" "executions": Post "/v1/executions/{execution}/force-complete" (1) Operate 200
        { NoQuery, [x::ForceComplete], Payload } => [x::Forced], [ID, CHANGE, ENDED], "End it with success";
    ForceFail "force_fail" "executions": Post "/v1/executions/{execution}/force-fail" (1) Operate 200
        { NoQuery, [x::ForceFail], Small } => [x::Forced], [ID, CHANGE, ENDED], "End it as failed";
    PurgeExecution "purge_execution" "executions": Delete "/v1/executions/{execution}" (1) Operate 202
        { x::PurgeQuery, [NoBody], Small } => [x::Purging], [ID, CHANGE, &[Code::ExecutionNotTerminal]], "Remove an ended execution";

    SubmitFlow "submit_flow" "flows": Post "/v1/flows" (0) Submit 201
        { NoQuery, [f::SubmitFlow], Batch } => [f::FlowSubmitted], [GRAPH, &[Code::IdempotencyMismatch]], "Submit a flow";
    ListFlows "list_flows" "flows": Get "/v1/flows" (0) Read 200
        { f::FlowsQuery, [NoBody], Small } => [f::Flows], [LIST], "List flows";
    GetFlow "get_flow" "flows": Get "/v1/flows/{flow}" (1) Read 200
        { f::FlowQuery, [NoBody], Small } => [f::Flow], [FLOW], "Get a flow, and wait for it if asked";
    ListMembers "list_members" "flows": Get "/v1/flows/{flow}/members" (1) Read 200
        { f::MembersQuery, [NoBody], Small } => [f::Members], [FLOW, LIST], "Its members, in the order they were added or by their keys";
    ListEdges "list_edges" "flows": Get "/v1/flows/{flow}/edges" (1) Read 200
        { f::EdgesQuery, [NoBody], Small } => [f::Edges], [FLOW, LIST, &[Code::UnknownNode]], "Its edges, upstream by upstream";
    ListGroups "list_groups" "flows": Get "/v1/flows/{flow}/groups" (1) Read 200
        { f::GroupsQuery, [NoBody], Small } => [Page<f::Group>], [FLOW, LIST], "Its groups of edges, member by member";
    GetGroup "get_group" "flows": Get "/v1/flows/{flow}/groups/{member}/{name}" (3) Read 200
        { NoQuery, [NoBody], Small } => [f::GroupDetail], [FLOW, &[Code::NotFound, Code::UnknownNode]], "A group of edges, and what it waits for";
    GetGraph "get_graph" "flows": Get "/v1/flows/{flow}/graph" (1) Read 200
        { PageQuery, [NoBody], Small } => [f::Graph], [FLOW, LIST], "Its nodes and then its edges, to draw it";
    ExplainFlow "explain_flow" "flows": Get "/v1/flows/{flow}/explain" (1) Read 200
        { NoQuery, [NoBody], Small } => [f::FlowExplanation], [FLOW], "Why it is not done";
    AddMembers "add_members" "flows": Post "/v1/flows/{flow}/members" (1) Submit 200
        { NoQuery, [f::AddMembers], Batch } => [f::Grown], [FLOW_CHANGE, GRAPH, GROWTH], "Add members and edges";
    AddEdges "add_edges" "flows": Post "/v1/flows/{flow}/edges" (1) Submit 200
        { NoQuery, [f::AddEdges], Batch } => [f::Grown], [FLOW_CHANGE, GRAPH, GROWTH], "Add edges";
    SealFlow "seal_flow" "flows": Post "/v1/flows/{flow}/seal" (1) Submit 200
        { NoQuery, [f::Seal], Batch } => [f::Sealed],
        [FLOW_CHANGE, &[Code::FlowClosed, Code::EmptyFlow, Code::UnknownNode, Code::QuorumUnreachable]], "Say that edges are known, and that it may finish";
    FinishFlow "finish_flow" "flows": Post "/v1/flows/{flow}/finish" (1) Submit 200
        { NoQuery, [f::Finish], Small } => [f::Finished], [FLOW_CHANGE, &[Code::FlowTerminal]], "Declare its outcome";
    CancelFlow "cancel_flow" "flows": Post "/v1/flows/{flow}/cancel" (1) Submit 200
        { NoQuery, [f::CancelFlow], Small } => [f::FlowCancelled], [FLOW_CHANGE, &[Code::FlowTerminal, Code::UnknownPolicy]], "Cancel a flow, and wait for its members if asked";
    ChangeFlow "change_flow" "flows": Patch "/v1/flows/{flow}" (1) Submit 200
        { NoQuery, [f::ChangeFlow], Small } => [f::FlowChanged], [FLOW_CHANGE, &[Code::FlowClosed]], "Change its tags, or stop its growth";
    ReplayFlow "replay_flow" "flows": Post "/v1/flows/{flow}/replay" (1) SubmitOrOperate 202
        { NoQuery, [f::ReplayFlow], Small } => [b::BulkJob], [FLOW_CHANGE, &[Code::FlowClosed]], "Replay every member that counts against it, in a bulk job";
    PurgeFlow "purge_flow" "flows": Delete "/v1/flows/{flow}" (1) Operate 202
        { x::PurgeQuery, [NoBody], Small } => [x::Purging], [FLOW_CHANGE, &[Code::FlowNotTerminal]], "Remove a flow that is done, with all its members";

    Claim "claim" "work": Post "/v1/work/claim" (0) Work 200
        { NoQuery, [w::Claim], Small } => [w::Claimed],
        [WORKER, &[Code::InvalidId, Code::ExecutionNotFound, Code::NotClaimable]], "Claim work, and wait for it if asked";
    Renew "renew" "work": Post "/v1/work/renew" (0) Work 200
        { NoQuery, [Batch<w::RenewItem>], Batch } => [w::RenewReply], [], "Renew leases";
    Complete "complete" "work": Post "/v1/work/complete" (0) Work 200
        { NoQuery, [Batch<w::CompleteItem>], Batch } => [Results<w::Completed>], [FENCED], "Complete work";
    Fail "fail" "work": Post "/v1/work/fail" (0) Work 200
        { NoQuery, [Batch<w::FailItem>], Batch } => [Results<w::Failed>], [FENCED], "Fail work";
    Settle "settle" "work": Post "/v1/work/settle" (0) Work 200
        { NoQuery, [Batch<w::Settle>], Batch } => [Results<w::Settled>], [], "End leases of several kinds of work";
    Progress "progress" "work": Post "/v1/work/progress" (0) Work 200
        { NoQuery, [w::ProgressItem], Payload } => [w::Progressed], [FENCED], "Tell how far work is, save a checkpoint";
    Delay "delay" "work": Post "/v1/work/delay" (0) Work 200
        { NoQuery, [w::DelayItem], Payload } => [w::Delayed], [FENCED, &[Code::CancelRequested]], "Hand work back until a time";
    WaitChildren "wait_children" "work": Post "/v1/work/wait-children" (0) Work 200
        { NoQuery, [w::WaitChildrenItem], Payload } => [w::WaitingChildren],
        [FENCED, &[Code::CancelRequested, Code::NotAChild]], "Hand work back until children have ended";
    CancelHeld "cancel_held" "work": Post "/v1/work/cancel" (0) Work 200
        { NoQuery, [w::CancelHeldItem], Small } => [x::Cancelled], [FENCED], "Cancel work that is held";
    TagHeld "tag_held" "work": Post "/v1/work/tags" (0) Work 200
        { NoQuery, [w::TagItem], Small } => [x::Tags], [FENCED], "Change tags of work that is held";
    RecordSteps "record_steps" "work": Post "/v1/work/steps" (0) Work 200
        { NoQuery, [w::RecordSteps], Batch } => [w::RecordedSteps], [FENCED], "Record steps";
    ReadSteps "read_steps" "work": Post "/v1/work/steps/read" (0) Work 200
        { NoQuery, [w::ReadSteps], Small } => [w::Steps], [FENCED], "Read recorded steps of work that is held";
    ReadChildren "read_children" "work": Post "/v1/work/children/read" (0) Work 200
        { NoQuery, [w::ReadChildren], Small } => [w::ChildrenRead],
        [FENCED, &[Code::NotAChild]], "Read how children of work that is held have ended";
    SpawnChildren "spawn_children" "work": Post "/v1/work/children" (0) Work 200
        { NoQuery, [w::SpawnChildren], Batch } => [Results<x::Submitted>], [], "Submit children of work that is held";
    AddOwnMembers "add_own_members" "work": Post "/v1/work/members" (0) Work 200
        { NoQuery, [f::AddOwnMembers], Batch } => [f::Grown], [FENCED, OWN_FLOW, GRAPH, GROWTH], "Add members and edges to the flow of work that is held";
    AddOwnEdges "add_own_edges" "work": Post "/v1/work/edges" (0) Work 200
        { NoQuery, [f::AddOwnEdges], Batch } => [f::Grown], [FENCED, OWN_FLOW, GRAPH, GROWTH], "Add edges to the flow of work that is held";
    SealOwnMembers "seal_own_members" "work": Post "/v1/work/seal" (0) Work 200
        { NoQuery, [f::SealOwnMembers], Batch } => [f::Sealed],
        [FENCED, OWN_FLOW, &[Code::UnknownNode, Code::QuorumUnreachable]], "Say that edges are known, in the flow of work that is held";
    FinishOwnFlow "finish_own_flow" "work": Post "/v1/work/finish-flow" (0) Work 200
        { NoQuery, [f::FinishOwnFlow], Small } => [f::Finished], [FENCED, OWN_FLOW, &[Code::FlowTerminal]], "Declare the outcome of the flow of work that is held";
    ReadInput "read_input" "work": Post "/v1/work/input" (0) Work 200
        { NoQuery, [f::ReadInput], Small } => [Raw], [FENCED, &[Code::NotFound]], "The bytes of an input of work that is held";
    ReadInputs "read_inputs" "work": Post "/v1/work/inputs/read" (0) Work 200
        { NoQuery, [f::ReadInputs], Small } => [f::Inputs], [FENCED], "Read inputs of work that is held";

    RegisterWorker "register_worker" "workers": Post "/v1/workers" (0) Work 200
        { NoQuery, [r::Register], Small } => [r::Registered], [WORKER], "Register a worker process";
    Heartbeat "heartbeat" "workers": Post "/v1/workers/{instance}/heartbeat" (1) Work 200
        { NoQuery, [r::Heartbeat], Batch } => [r::Beat], [WORKER, &[Code::InvalidId]], "A worker is alive, and tells what it holds";
    DeregisterWorker "deregister_worker" "workers": Delete "/v1/workers/{instance}" (1) Work 200
        { r::SessionQuery, [NoBody], Small } => [r::WorkerEnd], [WORKER], "A worker process ends";
    ListWorkers "list_workers" "workers": Get "/v1/workers" (0) Read 200
        { r::WorkersQuery, [NoBody], Small } => [Page<r::Worker>], [LIST], "List workers";
    GetWorker "get_worker" "workers": Get "/v1/workers/{instance}" (1) Read 200
        { NoQuery, [NoBody], Small } => [r::Worker], [WORKER], "Get a worker";
    ListLeases "list_leases" "workers": Get "/v1/workers/{instance}/leases" (1) Read 200
        { PageQuery, [NoBody], Small } => [Page<r::HeldLease>], [LIST], "What a worker holds";
    DrainWorkers "drain_workers" "workers": Post "/v1/workers/drain" (0) WorkOrOperate 200
        { NoQuery, [r::DrainTarget], Small } => [r::DrainReply], [WORKER], "Tell workers to take no more work";
    UndrainWorkers "undrain_workers" "workers": Post "/v1/workers/undrain" (0) WorkOrOperate 200
        { NoQuery, [r::UndrainTarget], Small } => [r::DrainReply], [WORKER], "Let workers take work again";
    MarkWorkerDead "mark_worker_dead" "workers": Post "/v1/workers/{instance}/dead" (1) Operate 200
        { NoQuery, [r::MarkDead], Small } => [r::WorkerEnd], [WORKER], "Give what a worker holds to others";

    CreateKey "create_key" "keys": Post "/v1/keys" (0) Admin 201
        { NoQuery, [k::NewKey], Small } => [k::CreatedKey], [KEY], "Create an API key";
    ListKeys "list_keys" "keys": Get "/v1/keys" (0) Admin 200
        { PageQuery, [NoBody], Small } => [Page<k::Key>], [LIST], "List API keys";
    GetKey "get_key" "keys": Get "/v1/keys/{key}" (1) Admin 200
        { NoQuery, [NoBody], Small } => [k::Key], [KEY], "Get an API key";
    ChangeKey "change_key" "keys": Patch "/v1/keys/{key}" (1) Admin 200
        { NoQuery, [k::KeyChange], Small } => [k::Key], [KEY, REVISION], "Change an API key";
    RotateKey "rotate_key" "keys": Post "/v1/keys/{key}/rotate" (1) Admin 200
        { NoQuery, [k::RotateKey], Small } => [k::CreatedKey], [KEY, REVISION], "Give an API key another secret";
    RevokeKey "revoke_key" "keys": Delete "/v1/keys/{key}" (1) Admin 200
        { NoQuery, [NoBody], Small } => [k::RevokedKey], [KEY, REVISION], "Revoke an API key";
    ListAudit "list_audit" "operation": Get "/v1/audit" (0) Admin 200
        { k::AuditQuery, [NoBody], Small } => [Page<k::AuditEntry>], [LIST], "What operators and administrators did";
    VerifyAudit "verify_audit" "operation": Get "/v1/audit/verify" (0) Admin 200
        { NoQuery, [NoBody], Small } => [k::AuditChecked], [], "Whether the audit log is as it was written";

    StartBulk "start_bulk" "bulk": Post "/v1/bulk" (0) Operate 202
        { NoQuery, [b::StartBulk], Small } => [b::BulkJob],
        [&[Code::InvalidId, Code::IdempotencyMismatch, Code::DeadlineInPast]], "Do one verb to all executions of a filter";
    GetBulk "get_bulk" "bulk": Get "/v1/bulk/{job}" (1) Operate 200
        { NoQuery, [NoBody], Small } => [b::BulkJob], [BULK], "How far a bulk job is";
    StopBulk "stop_bulk" "bulk": Post "/v1/bulk/{job}/stop" (1) Operate 200
        { NoQuery, [b::StopBulk], Small } => [b::BulkJob], [BULK], "Stop a bulk job; what is done stays done";

    GetVersion "get_version" "operation": Get "/v1/version" (0) Any 200
        { NoQuery, [NoBody], Small } => [n::Version], [], "Version and store of this node";
    GetCapabilities "get_capabilities" "operation": Get "/v1/capabilities" (0) Any 200
        { NoQuery, [NoBody], Small } => [n::Capabilities], [], "Durability and limits";
    ListNamespaces "list_namespaces" "operation": Get "/v1/namespaces" (0) Read 200
        { PageQuery, [NoBody], Small } => [Page<n::Namespace>], [LIST], "Namespaces of the key, with exact counts of their executions";
    GetStats "get_stats" "operation": Get "/v1/stats" (0) Read 200
        { NoQuery, [NoBody], Small } => [n::Stats], [], "Rates, depths and latencies of a namespace, or of all that the key reads";
    GetConfig "get_config" "operation": Get "/v1/config" (0) Admin 200
        { NoQuery, [NoBody], Small } => [n::Configuration], [], "What is set on this node, and where that came from";
    ListNodes "list_nodes" "operation": Get "/v1/nodes" (0) Operate 200
        { NoQuery, [NoBody], Small } => [n::Nodes], [], "The nodes of this deployment";
    DrainNode "drain_node" "operation": Post "/v1/nodes/{node}/drain" (1) Operate 200
        { NoQuery, [n::DrainNode], Small } => [n::DrainingNode], [&[Code::NotFound, Code::IdempotencyMismatch]], "Let a node drain and stop, named by its id or its name";
    ListScanners "list_scanners" "operation": Get "/v1/scanners" (0) Operate 200
        { NoQuery, [NoBody], Small } => [s::Scanners], [], "The scanners of this node, and how they are doing";
    ListParked "list_parked" "operation": Get "/v1/parked" (0) Operate 200
        { s::ParkedQuery, [NoBody], Small } => [Page<s::ParkedItem>], [LIST], "Items that scanners could not handle";
    RetryParked "retry_parked" "operation": Post "/v1/parked/{item}/retry" (1) Operate 200
        { NoQuery, [s::RetryParked], Small } => [s::RetriedItem], [PARKED], "Let a parked item be tried again, at once";
    DiscardParked "discard_parked" "operation": Post "/v1/parked/{item}/discard" (1) Operate 200
        { NoQuery, [s::DiscardParked], Small } => [s::DiscardedItem], [PARKED], "Give a parked item up";
    RetryAllParked "retry_all_parked" "operation": Post "/v1/parked/retry" (0) Operate 200
        { NoQuery, [s::RetryAllParked], Small } => [s::RetriedItems], [&[Code::IdempotencyMismatch]], "Let up to a thousand parked items be tried again, at once";
}
