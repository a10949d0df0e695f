//! Comparing the totals of a flow with a recount. They are set right only from a view that stood still, twice the same.

use super::follow::Follow;
use super::{emit, summary};
use crate::command::{Principal, VerifyFlow};
use crate::event::Fact;
use crate::execution::expire;
use crate::limits::{VERIFY_AFTER_MS, VERIFY_MAX_MS};
use crate::record::execution::PublicState;
use crate::record::flow::{Flow, Summary};
use crate::record::{Key, Record};
use crate::reply::{Reply, Verified};
use crate::schema::{Due, Timer};
use crate::text::Text;
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn verify(tx: &mut Tx<'_>, who: &Principal, cmd: &VerifyFlow, follow: &mut Follow) -> Result<Reply, Stop> {
    let hint = Due { timer: Timer::FlowVerify, at: cmd.due };
    let Some(Record::Flow(mut flow)) = expire::armed(tx, Key::Flow(cmd.flow), hint)? else {
        return Ok(Reply::Verified(Verified::Stale));
    };
    let now = tx.now();
    if flow.summary.change_no != cmd.change_no {
        // A busy flow is never repaired from a moving target.
        flow.hot.verify_at = Some(now + (VERIFY_AFTER_MS << flow.hot.moves.min(16)).min(VERIFY_MAX_MS));
        flow.hot.moves = flow.hot.moves.saturating_add(1);
        flow.hot.doubt = None;
        tx.put_flow(*flow);
        return Ok(Reply::Verified(Verified::Moved));
    }
    let right = set_right(&flow, cmd);
    let fields = differences(&flow.summary, &right);
    let verdict = if fields.is_empty() {
        verified(&mut flow, cmd.now);
        Verified::Equal
    } else if flow.hot.doubt == Some(cmd.change_no) {
        repair(tx, who, &mut flow, cmd, right, fields);
        (follow.decides, follow.anew) = (true, true);
        Verified::Repaired
    } else {
        flow.hot.doubt = Some(cmd.change_no);
        flow.hot.verify_at = Some(now + VERIFY_AFTER_MS);
        Verified::Doubtful
    };
    tx.put_flow(*flow);
    Ok(Reply::Verified(verdict))
}

/// The totals as they should stand: what was counted, and what follows from it.
fn set_right(flow: &Flow, cmd: &VerifyFlow) -> Summary {
    let (mut right, counted) = (flow.clone(), &cmd.counted);
    let summary = &mut right.summary;
    summary.total_members = counted.total_members;
    summary.by_state = counted.by_state;
    summary.members_neutral = counted.members_neutral;
    summary.members_purged = counted.members_purged;
    summary.failures = counted.failures;
    if cmd.edges {
        (summary.edges_total, summary.edges_pending) = (counted.edges_total, counted.edges_pending);
    }
    let owed = right.ending().map(|ending| summary::owed(&right, ending.remaining, ending.unsealed));
    right.summary.cancel_owed = owed.unwrap_or(0);
    right.summary
}

type Field = (Text, u64, u64);

/// What was counted otherwise: field, what stands there, what was counted.
fn differences(stands: &Summary, counted: &Summary) -> Vec<Field> {
    let states = PublicState::ALL
        .into_iter()
        .map(|state| (format!("members_{}", state.name()), u64::from(stands.of(state)), u64::from(counted.of(state))));
    let others = [
        ("total_members", stands.total_members.into(), counted.total_members.into()),
        ("members_neutral", stands.members_neutral.into(), counted.members_neutral.into()),
        ("members_purged", stands.members_purged.into(), counted.members_purged.into()),
        ("failures", stands.failures.into(), counted.failures.into()),
        ("cancel_owed", stands.cancel_owed.into(), counted.cancel_owed.into()),
        ("edges_total", stands.edges_total, counted.edges_total),
        ("edges_pending", stands.edges_pending, counted.edges_pending),
    ];
    let others = others.map(|(name, stands, counted)| (name.to_owned(), stands, counted));
    let all = states.chain(others).filter(|(_, stands, counted)| stands != counted);
    all.map(|(name, stands, counted)| (Text::from(name), stands, counted)).collect()
}

fn repair(tx: &mut Tx<'_>, who: &Principal, flow: &mut Flow, cmd: &VerifyFlow, right: Summary, fields: Vec<Field>) {
    let fact = Fact::FlowRepaired {
        flow: flow.id,
        fields: fields.iter().map(|(name, ..)| name.clone()).collect(),
        was: fields.iter().map(|(_, was, _)| *was).collect(),
        is: fields.iter().map(|(.., is)| *is).collect(),
    };
    emit(tx, flow, &who.name, fact);
    flow.summary = right;
    flow.summary.change_no += 1;
    flow.summary.last_change_at = tx.now();
    verified(flow, cmd.now);
}

/// Records that the totals are right as of `at`. No recount is due until the flow changes again.
fn verified(flow: &mut Flow, at: Time) {
    flow.summary.verified_at = Some(at);
    flow.summary.verified_no = Some(flow.summary.change_no);
    flow.hot.verify_at = None;
    flow.hot.doubt = None;
    flow.hot.moves = 0;
}
