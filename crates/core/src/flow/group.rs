//! Groups of edges: when one is decided, and what that means for its member.

use super::{decide, emit, follow::Follow};
use crate::event::{Event, Fact, GroupCounts};
use crate::execution::finish::{self, End};
use crate::execution::settle::{self, Waits};
use crate::id::ExecutionId;
use crate::record::attempt::AttemptState;
use crate::record::execution::{Hold, HoldKey, LeaseEnd, Outcome, Reason, State};
use crate::record::member::{EndedBy, Group, GroupState, Inlet, Others, Then};
use crate::record::{Execution, Key, Record};
use crate::schema::{PartMask, execution as schema};
use crate::text::Text;
use crate::time::Time;
use crate::tx::{Stop, Tx};

/// How many unmet edges a skipped member names, and how many edges are looked at together to find them.
const UNMET_TOLD: usize = 5;
const UNMET_PAGE: usize = 64;

/// The verdict on a group: a pure function of what is known of its edges. `k` is what its policy needs.
pub const fn evaluate(sealed: bool, k: u32, n: u32, met: u32, unmet: u32) -> GroupState {
    if !sealed {
        GroupState::Pending
    } else if met >= k {
        GroupState::Satisfied
    } else if k > n || unmet > n - k {
        GroupState::Impossible
    } else {
        GroupState::Pending
    }
}

pub(crate) fn verdict(group: &Group, sealed: bool) -> GroupState {
    evaluate(sealed, group.policy.needed(group.n), group.n, group.met, group.unmet)
}

/// The hold of a member that waits for its edges: pending edges, and whether all are known.
pub(crate) fn hold(execution: &Execution) -> Option<(u32, bool)> {
    let State::Blocked { holds, .. } = &execution.hot.state else { return None };
    match holds.get(HoldKey::Dependencies) {
        Some(Hold::Dependencies { unresolved, sealed }) => Some((*unresolved, *sealed)),
        _ => None,
    }
}

/// Writes the hold of a member that has one.
pub(crate) fn set_hold(execution: &mut Execution, pending: u32, seal: bool) {
    if seal {
        execution.member_mut().sealed = true;
    }
    if let State::Blocked { holds, .. } = &mut execution.hot.state
        && let Some(Hold::Dependencies { unresolved, sealed }) = holds.get_mut(HoldKey::Dependencies)
    {
        *unresolved = pending;
        *sealed |= seal;
    }
}

/// Judges the groups of a member that waits for them, and writes it: it becomes ready when all are satisfied, and is
/// skipped as soon as one is impossible. Groups that are decided are not judged again.
pub(crate) fn judge(tx: &mut Tx<'_>, mut execution: Execution, by: &Text, follow: &mut Follow) -> Result<(), Stop> {
    let now = tx.now();
    let Some((_, sealed)) = hold(&execution) else {
        tx.put_execution(execution);
        return Ok(());
    };
    let pending = execution.member().map_or(0, |member| member.pending());
    set_hold(&mut execution, pending, false);
    if !sealed {
        tx.put_execution(execution);
        return Ok(());
    }
    let id = execution.id;
    let member = execution.member_mut();
    let flow = member.flow;
    let (mut impossible, mut facts) = (None, Vec::new());
    for (at, group) in member.groups.iter_mut().enumerate() {
        if group.state != GroupState::Pending {
            continue;
        }
        let state = verdict(group, true);
        if state == GroupState::Pending {
            continue;
        }
        group.state = state;
        group.decided_at = Some(now);
        let (name, policy, counts) = (group.name.clone(), Text::from(group.policy.name()), Some(counts(group)));
        facts.push(match state {
            GroupState::Impossible => {
                impossible.get_or_insert(name.clone());
                Fact::GroupImpossible { flow, group: name, policy, counts }
            }
            _ => Fact::GroupSatisfied { flow, group: name, policy, waived: false, counts },
        });
        if matches!(group.then, Then::CancelRemaining(_)) {
            follow.decided.push_back((id, at as u8));
        }
    }
    let satisfied = member.groups.iter().all(|group| group.state == GroupState::Satisfied);
    for fact in facts {
        tell(tx, &execution, by, fact);
    }
    match impossible {
        Some(group) => skip(tx, execution, group, by, follow),
        None => {
            if satisfied {
                settle::lift(&mut execution, HoldKey::Dependencies, now);
            }
            tx.put_execution(execution);
            Ok(())
        }
    }
}

fn counts(group: &Group) -> GroupCounts {
    let cancels = match group.then {
        Then::CancelRemaining(_) => group.pending(),
        Then::LetRun => 0,
    };
    let Group { n, met, unmet, .. } = *group;
    GroupCounts { k: group.policy.needed(n), n, met, unmet, cancels }
}

pub(crate) fn tell(tx: &mut Tx<'_>, execution: &Execution, by: &Text, fact: Fact) {
    let spec = &execution.spec;
    tx.emit(Event {
        at: tx.now(),
        execution: Some(execution.id),
        flow: execution.member().map(|member| member.flow),
        namespace: spec.namespace.clone(),
        lane: spec.lane.clone(),
        kind: spec.kind.clone(),
        epoch: execution.hot.epoch,
        by: by.clone(),
        fact,
    });
}

/// Ends a member that can never run. In a flow that is being cancelled it ends like the others there.
fn skip(tx: &mut Tx<'_>, mut execution: Execution, group: Text, by: &Text, follow: &Follow) -> Result<(), Stop> {
    let flow = execution.member().map(|member| member.flow).expect("skip: it is a member");
    let flow = tx.flow_of(flow)?;
    if let Some(ending) = flow.ending().filter(|ending| ending.remaining.closes()) {
        let end = decide::cancelled(ending);
        return finish::finish(tx, execution, end);
    }
    let unmet = first_unmet(tx, &execution, &group, follow)?;
    let cause = match others(&execution, tx.now()) {
        Some(others) => EndedBy::DependencyAmongOthers { group, unmet, others },
        None => EndedBy::Dependency { group, unmet },
    };
    execution.member_mut().cause = Some(cause);
    let end = End {
        outcome: Outcome::Skipped,
        reason: Reason::Dependency,
        by: by.clone(),
        attempt: AttemptState::Cancelled,
        failure: None,
        lease: LeaseEnd::Forced,
        cascade: None,
    };
    finish::finish(tx, execution, end)
}

/// What a member waits for besides its groups, if anything.
fn others(execution: &Execution, now: Time) -> Option<Others> {
    let Waits { mut holds, not_before, .. } = settle::waits(execution)?;
    holds.remove(HoldKey::Dependencies);
    let not_before = not_before.filter(|(at, _)| *at > now);
    (!holds.is_empty() || not_before.is_some()).then_some(Others { holds, not_before })
}

/// The upstreams of the first edges that did not meet the group.
fn first_unmet(tx: &mut Tx<'_>, execution: &Execution, name: &str, follow: &Follow) -> Result<Vec<ExecutionId>, Stop> {
    let member = execution.member().expect("skip: it is a member");
    let Some((at, group)) = member.group(name) else { return Ok(Vec::new()) };
    // The usual case needs no look: the only one is the one that has just ended.
    if let (1, Some(upstream)) = (group.unmet, follow.upstream) {
        return Ok(vec![upstream]);
    }
    let inlets = tx.execution(execution.id, PartMask::of(schema::INLETS))?.inlets().clone();
    let of_group: Vec<&Inlet> = inlets.iter().filter(|inlet| usize::from(inlet.group) == at).collect();
    let id = |inlet: &Inlet| ExecutionId::new(execution.id.partition(), inlet.upstream);
    let mut unmet = Vec::new();
    for page in of_group.chunks(UNMET_PAGE) {
        if tx.prefetch_all(page.iter().map(|inlet| Key::Edge(id(inlet), inlet.number))) {
            return Err(Stop::Miss);
        }
        for inlet in page {
            if let Ok(Some(Record::Edge(edge))) = tx.get(Key::Edge(id(inlet), inlet.number), PartMask::NONE)
                && edge.body.resolved.is_some_and(|end| !end.met)
            {
                unmet.push(edge.upstream);
                if unmet.len() == UNMET_TOLD {
                    return Ok(unmet);
                }
            }
        }
    }
    Ok(unmet)
}

/// The event of a group that was waived.
pub(crate) fn tell_waived(tx: &mut Tx<'_>, execution: &Execution, by: &Text, group: &Group) {
    let flow = execution.member().map(|member| member.flow).expect("waive: it is a member");
    let (name, policy) = (group.name.clone(), Text::from(group.policy.name()));
    // Nobody is cancelled for it: it was decided before.
    let counts = Some(GroupCounts { cancels: 0, ..counts(group) });
    tell(tx, execution, by, Fact::GroupSatisfied { flow, group: name, policy, waived: true, counts });
}

/// Tells the flow's own fact after a change of its graph.
pub(crate) fn tell_changed(tx: &mut Tx<'_>, flow: &crate::record::Flow, by: &Text, members: u32, edges: u64) {
    let fact = Fact::FlowChanged { flow: flow.id, members, edges, revision: flow.hot.revision };
    emit(tx, flow, by, fact);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fl_36_impossible_is_declared_at_once_and_nothing_before_the_seal() {
        assert_eq!(evaluate(true, 3, 5, 0, 2), GroupState::Pending);
        assert_eq!(evaluate(true, 3, 5, 0, 3), GroupState::Impossible, "quorum 3 of 5 at the third unmet edge");
        assert_eq!(evaluate(true, 3, 5, 2, 2), GroupState::Pending);
        assert_eq!(evaluate(true, 3, 5, 3, 2), GroupState::Satisfied);
        assert_eq!(evaluate(true, 4, 4, 3, 1), GroupState::Impossible, "FL-35 all_of at the first unmet edge");
        assert_eq!(evaluate(true, 1, 5, 0, 5), GroupState::Impossible);
        assert_eq!(evaluate(false, 1, 5, 5, 0), GroupState::Pending, "FL-32");
    }

    #[test]
    fn fl_33_a_verdict_never_turns_into_the_other_as_more_edges_resolve() {
        for n in 1..7u32 {
            for k in 1..=n {
                for met in 0..=n {
                    for unmet in 0..=n - met {
                        let verdict = evaluate(true, k, n, met, unmet);
                        let later = [(met + 1, unmet), (met, unmet + 1)];
                        for (met, unmet) in later.into_iter().filter(|(met, unmet)| met + unmet <= n) {
                            let then = evaluate(true, k, n, met, unmet);
                            assert!(verdict == GroupState::Pending || verdict == then, "{k} of {n}: {met}, {unmet}");
                        }
                    }
                }
            }
        }
    }
}
