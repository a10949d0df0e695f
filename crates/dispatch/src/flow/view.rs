//! Flows from the engine's views to the wire's. Every field is named here once.

use std::collections::BTreeMap;
use weft_api::execution::{CancelMode, Forever, Keep};
use weft_api::flow as wire;
use weft_core::record::edge::{On, Resolution};
use weft_core::record::execution::{Execution, PublicState, State as MemberState};
use weft_core::record::flow::{
    Cause, CompletionPolicy, FailurePolicy, Flow, FlowOutcome, Growth, Mode, PublicFlowState, Remaining, State, Summary,
};
use weft_core::record::member::{EndedBy, Group, GroupPolicy, GroupState, Member, Then};
use weft_core::{CommitId, Time};
use weft_engine::flow::{EdgeView, GroupView};

pub fn state(state: PublicFlowState) -> wire::PublicFlowState {
    use PublicFlowState as From;
    use wire::PublicFlowState as To;
    match state {
        From::Open => To::Open,
        From::Running => To::Running,
        From::Blocked => To::Blocked,
        From::Ending => To::Ending,
        From::Completed => To::Completed,
        From::Failed => To::Failed,
        From::Cancelled => To::Cancelled,
    }
}

pub fn core_state(state: wire::PublicFlowState) -> PublicFlowState {
    PublicFlowState::from_name(state.name()).expect("view: both sides have the same states of flows")
}

pub fn outcome(outcome: FlowOutcome) -> wire::FlowOutcome {
    match outcome {
        FlowOutcome::Completed => wire::FlowOutcome::Completed,
        FlowOutcome::Failed => wire::FlowOutcome::Failed,
        FlowOutcome::Cancelled => wire::FlowOutcome::Cancelled,
    }
}

pub fn growth(growth: Growth) -> wire::Growth {
    match growth {
        Growth::Dynamic => wire::Growth::Dynamic,
        Growth::Fixed => wire::Growth::Fixed,
    }
}

/// What was asked for when the flow was cancelled, by what became of it.
pub fn cancel_policy(remaining: Remaining) -> wire::CancelPolicy {
    match remaining {
        Remaining::Cancel(_) => wire::CancelPolicy::CancelAll,
        Remaining::FinishActive => wire::CancelPolicy::LetActiveFinish,
        Remaining::LetRun => wire::CancelPolicy::FlowOnly,
    }
}

fn mode(mode: Mode) -> (Option<CancelMode>, Option<u64>) {
    match mode {
        Mode::Immediate => (Some(CancelMode::Immediate), None),
        Mode::Graceful { grace_ms } => (Some(CancelMode::Graceful), Some(grace_ms)),
    }
}

fn remaining(remaining: Remaining) -> wire::Remaining {
    match remaining {
        Remaining::LetRun => wire::Remaining::LetRun {},
        Remaining::FinishActive => wire::Remaining::FinishActive {},
        Remaining::Cancel(how) => {
            let (mode, grace_ms) = mode(how);
            wire::Remaining::Cancel { mode, grace_ms }
        }
    }
}

fn failure(policy: FailurePolicy) -> wire::FailurePolicy {
    match policy {
        FailurePolicy::Isolate => wire::FailurePolicy::Isolate {},
        FailurePolicy::CollectAll => wire::FailurePolicy::CollectAll {},
        FailurePolicy::FailFast { remaining: left } => {
            wire::FailurePolicy::FailFast { remaining: Some(remaining(left)) }
        }
    }
}

fn completion(policy: &CompletionPolicy) -> wire::CompletionPolicy {
    match policy {
        CompletionPolicy::AllTerminal => wire::CompletionPolicy::AllTerminal {},
        CompletionPolicy::Root { key, remaining: left } => {
            wire::CompletionPolicy::Root { key: key.to_string(), remaining: Some(remaining(*left)) }
        }
        CompletionPolicy::Threshold { successes, remaining: left } => {
            wire::CompletionPolicy::Threshold { successes: *successes, remaining: Some(remaining(*left)) }
        }
        CompletionPolicy::Declared { remaining: left } => {
            wire::CompletionPolicy::Declared { remaining: Some(remaining(*left)) }
        }
    }
}

/// Everything of a flow but its graph.
pub fn flow(flow: &Flow, revision: CommitId, now: Time) -> wire::Flow {
    let (definition, hot, totals) = (&flow.definition, &flow.hot, &flow.summary);
    let finished_at = match &hot.state {
        State::Done { at, .. } => Some(*at),
        _ => None,
    };
    let ended = f64::from(totals.ended());
    wire::Flow {
        id: flow.id.to_string(),
        namespace: definition.namespace.to_string(),
        kind: definition.kind.to_string(),
        name: definition.name.as_ref().map(|name| name.to_string()),
        tags: crate::view::tags(flow.tags()),
        creator: definition.creator.to_string(),
        public_flow_state: state(flow.public_state()),
        decided: decided(&hot.state),
        failure_policy: failure(definition.failure),
        completion_policy: completion(&definition.completion),
        growth: growth(hot.growth),
        sealed_at: hot.sealed_at.map(Time::ms),
        seal_by: hot.seal_by.filter(|_| hot.sealed_at.is_none()).map(Time::ms),
        revision: hot.revision,
        reopens: hot.reopens,
        summary: summary(totals),
        live: totals.live(),
        progress: (totals.total_members > 0).then(|| ended / f64::from(totals.total_members)),
        duration_ms: totals.first_started_at.map(|from| finished_at.unwrap_or(now).since(from)),
        deadline_at: hot.deadline_at.map(Time::ms),
        retention_ms: definition.retention_ms.map_or(Keep::Word(Forever::Forever), Keep::Ms),
        trace: definition.trace.as_ref().map(|trace| trace.to_string()),
        created_at: definition.created_at.ms(),
        updated_at: hot.updated_at.ms(),
        finished_at: finished_at.map(Time::ms),
        purge_at: hot.purge_at.map(Time::ms),
        etag: revision.to_string(),
        reached: None,
    }
}

fn decided(state: &State) -> Option<wire::Decided> {
    let (decision, cause, by, at, left) = match state {
        State::Open => return None,
        State::Ending(ending) => {
            (ending.outcome, &ending.cause, &ending.by, ending.since, Some(remaining(ending.remaining)))
        }
        State::Done { outcome, cause, by, at } => (*outcome, cause, by, *at, None),
    };
    let member = match cause {
        Cause::Member(id) | Cause::Root(id) => Some(id.to_string()),
        _ => None,
    };
    let reason = match cause {
        Cause::Declared { reason } | Cause::Requested { reason } | Cause::Budget { reason } => Some(reason.to_string()),
        _ => None,
    };
    Some(wire::Decided {
        outcome: outcome(decision),
        cause: cause.name().to_string(),
        member,
        reason,
        by: by.to_string(),
        at: at.ms(),
        done: left.is_none(),
        remaining: left,
    })
}

fn summary(totals: &Summary) -> wire::Summary {
    let of = |state| totals.of(state);
    wire::Summary {
        total_members: totals.total_members,
        members_waiting: of(PublicState::Waiting),
        members_delayed: of(PublicState::Delayed),
        members_held: of(PublicState::Held),
        members_waiting_children: of(PublicState::WaitingChildren),
        members_rate_limited: of(PublicState::RateLimited),
        members_active: of(PublicState::Active),
        members_suspended: of(PublicState::Suspended),
        members_completed: of(PublicState::Completed),
        members_failed: of(PublicState::Failed),
        members_cancelled: of(PublicState::Cancelled),
        members_expired: of(PublicState::Expired),
        members_skipped: of(PublicState::Skipped),
        members_neutral: totals.members_neutral,
        members_purged: totals.members_purged,
        failures: totals.failures,
        cancel_owed: totals.cancel_owed,
        edges_total: totals.edges_total,
        edges_pending: totals.edges_pending,
        attempts: totals.attempts,
        retries: totals.retries,
        usage: totals.usage.iter().map(|(name, amount)| (name.to_string(), *amount)).collect::<BTreeMap<_, _>>(),
        first_started_at: totals.first_started_at.map(Time::ms),
        last_change_at: totals.last_change_at.ms(),
        change_no: totals.change_no,
        verified_at: totals.verified_at.map(Time::ms),
        verified_no: totals.verified_no,
    }
}

pub fn membership(member: &Member) -> wire::Membership {
    wire::Membership {
        id: member.flow.to_string(),
        key: member.key.to_string(),
        number: member.number,
        critical: member.critical,
        groups: groups(member),
        ended_by: member.cause.as_ref().map(|cause| match cause {
            EndedBy::Dependency { group, unmet } | EndedBy::DependencyAmongOthers { group, unmet, .. } => {
                wire::EndedBy::Dependency {
                    group: group.to_string(),
                    unmet: unmet.iter().map(ToString::to_string).collect(),
                }
            }
            EndedBy::Sibling { downstream, group, verdict } => wire::EndedBy::Sibling {
                downstream: downstream.to_string(),
                group: group.to_string(),
                verdict: verdict_of(*verdict),
            },
        }),
    }
}

pub fn groups(member: &Member) -> Vec<wire::Group> {
    member.groups.iter().map(|group| self::group(&member.key, group)).collect()
}

pub fn group(member: &str, group: &Group) -> wire::Group {
    wire::Group {
        member: member.to_string(),
        name: group.name.to_string(),
        policy: match group.policy {
            GroupPolicy::AllOf => wire::GroupPolicy::AllOf {},
            GroupPolicy::AnyOf => wire::GroupPolicy::AnyOf {},
            GroupPolicy::Quorum(k) => wire::GroupPolicy::Quorum { k },
        },
        then: match group.then {
            Then::LetRun => wire::Then::LetRun {},
            Then::CancelRemaining(how) => {
                let (mode, grace_ms) = mode(how);
                wire::Then::CancelRemaining { mode, grace_ms }
            }
        },
        n: group.n,
        needed: group.policy.needed(group.n),
        met: group.met,
        unmet: group.unmet,
        pending: group.pending(),
        state: verdict_of(group.state),
        decided_at: group.decided_at.map(Time::ms),
        waived: group.waived,
        owed_since: group.owed.map(|owed| owed.since.ms()),
    }
}

fn verdict_of(state: GroupState) -> wire::GroupState {
    match state {
        GroupState::Pending => wire::GroupState::Pending,
        GroupState::Satisfied => wire::GroupState::Satisfied,
        GroupState::Impossible => wire::GroupState::Impossible,
    }
}

pub fn group_detail(view: &GroupView) -> wire::GroupDetail {
    let pending = view.pending.iter().map(|(key, id, state)| wire::Upstream {
        key: key.to_string(),
        execution: id.to_string(),
        public_state: state.map(crate::view::state),
        outcome: None,
    });
    let unmet = view.unmet.iter().map(|(key, id, outcome)| wire::Upstream {
        key: key.to_string(),
        execution: id.to_string(),
        public_state: None,
        outcome: Some(crate::view::outcome(*outcome)),
    });
    wire::GroupDetail {
        group: group(&view.key, &view.group),
        execution: view.member.to_string(),
        sealed: view.sealed,
        pending: pending.collect(),
        unmet: unmet.collect(),
    }
}

pub fn edge(view: &EdgeView) -> wire::Edge {
    let body = &view.edge.body;
    wire::Edge {
        from: view.from.to_string(),
        to: view.to.to_string(),
        group: view.group.to_string(),
        on: match body.on {
            On::Success => wire::On::Success,
            On::Failure => wire::On::Failure,
            On::Any => wire::On::Any,
        },
        input: body.input.as_ref().map(|input| input.to_string()),
        state: match &body.resolved {
            None => wire::EdgeState::Pending,
            Some(Resolution { met: true, .. }) => wire::EdgeState::Met,
            Some(_) => wire::EdgeState::Unmet,
        },
        resolved: body.resolved.map(|end| wire::Resolved {
            outcome: crate::view::outcome(end.outcome),
            reason: end.reason.name().to_string(),
            attempt: end.attempt,
            at: end.at.ms(),
        }),
    }
}

/// A member, as it is drawn. Nothing for an execution that is none.
pub fn node(execution: &Execution) -> Option<wire::Node> {
    let member = execution.member()?;
    let ended = match &execution.hot.state {
        MemberState::Done { reason, at, .. } => Some((reason.name().to_string(), at.ms())),
        _ => None,
    };
    let (reason, finished_at) = ended.unzip();
    Some(wire::Node {
        key: member.key.to_string(),
        execution: execution.id.to_string(),
        kind: execution.spec.kind.to_string(),
        public_state: crate::view::state(execution.public_state()),
        critical: member.critical,
        attempts: execution.hot.attempts,
        parent: execution.spec.parent.map(|parent| parent.to_string()),
        reason,
        first_started_at: execution.hot.first_started_at.map(Time::ms),
        finished_at,
        groups: groups(member),
    })
}
