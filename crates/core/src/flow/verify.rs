//! Comparing the totals of a flow with a recount. They are set right only from a view that stood still, twice the same.

use super::emit;
use super::follow::Follow;
use crate::command::{Principal, VerifyFlow};
use crate::event::Fact;
use crate::execution::expire;
use crate::limits::VERIFY_AFTER_MS;
use crate::record::execution::PublicState;
use crate::record::flow::{Flow, Summary};
use crate::record::{Key, Record};
use crate::reply::{Reply, Verified};
use crate::schema::{Due, Timer};
use crate::text::Text;
use crate::tx::{Stop, Tx};

pub fn verify(tx: &mut Tx<'_>, who: &Principal, cmd: &VerifyFlow, follow: &mut Follow) -> Result<Reply, Stop> {
    let hint = Due { timer: Timer::FlowVerify, at: cmd.due };
    let Some(Record::Flow(mut flow)) = expire::armed(tx, Key::Flow(cmd.flow), hint)? else {
        return Ok(Reply::Verified(Verified::Stale));
    };
    let now = tx.now();
    if flow.summary.change_no != cmd.change_no {
        // A busy flow is never repaired from a moving target.
        flow.hot.verify_at = Some(now + VERIFY_AFTER_MS);
        flow.hot.doubt = None;
        tx.put_flow(*flow);
        return Ok(Reply::Verified(Verified::Moved));
    }
    let fields = differences(&flow.summary, &cmd.counted);
    let verified = if fields.is_empty() {
        flow.summary.verified_at = Some(cmd.now);
        flow.summary.verified_no = Some(cmd.change_no);
        flow.hot.verify_at = None;
        flow.hot.doubt = None;
        Verified::Equal
    } else if flow.hot.doubt == Some(cmd.change_no) {
        repair(tx, who, &mut flow, cmd, fields);
        (follow.decides, follow.anew) = (true, true);
        Verified::Repaired
    } else {
        flow.hot.doubt = Some(cmd.change_no);
        flow.hot.verify_at = Some(now + VERIFY_AFTER_MS);
        Verified::Doubtful
    };
    tx.put_flow(*flow);
    Ok(Reply::Verified(verified))
}

type Field = (Text, u64, u64);

/// What was counted otherwise: field, what stands there, what was counted.
fn differences(stands: &Summary, counted: &Summary) -> Vec<Field> {
    let states = PublicState::ALL
        .into_iter()
        .map(|state| (format!("members_{}", state.name()), u64::from(stands.of(state)), u64::from(counted.of(state))));
    let others = [
        ("total_members", stands.total_members, counted.total_members),
        ("members_neutral", stands.members_neutral, counted.members_neutral),
        ("members_purged", stands.members_purged, counted.members_purged),
        ("failures", stands.failures, counted.failures),
    ];
    let others = others.map(|(name, stands, counted)| (name.to_owned(), u64::from(stands), u64::from(counted)));
    let all = states.chain(others).filter(|(_, stands, counted)| stands != counted);
    all.map(|(name, stands, counted)| (Text::from(name), stands, counted)).collect()
}

fn repair(tx: &mut Tx<'_>, who: &Principal, flow: &mut Flow, cmd: &VerifyFlow, fields: Vec<Field>) {
    let fact = Fact::FlowRepaired {
        flow: flow.id,
        fields: fields.iter().map(|(name, ..)| name.clone()).collect(),
        was: fields.iter().map(|(_, was, _)| *was).collect(),
        is: fields.iter().map(|(.., is)| *is).collect(),
    };
    emit(tx, flow, &who.name, fact);
    let (summary, counted) = (&mut flow.summary, &cmd.counted);
    summary.total_members = counted.total_members;
    summary.by_state = counted.by_state;
    summary.members_neutral = counted.members_neutral;
    summary.members_purged = counted.members_purged;
    summary.failures = counted.failures;
    summary.change_no += 1;
    summary.last_change_at = tx.now();
    summary.verified_at = Some(cmd.now);
    summary.verified_no = Some(summary.change_no);
    flow.hot.verify_at = None;
    flow.hot.doubt = None;
}
