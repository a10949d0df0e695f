//! Changing what may change of a flow: its tags, in every state, and that it grows no more.

use super::visible;
use crate::command::{ChangeFlow, Principal};
use crate::error::Rejection;
use crate::limits::REASON_MAX;
use crate::record::flow::{Growth, State};
use crate::reply::Reply;
use crate::text::{check_tag, check_tags, check_text};
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &ChangeFlow) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)?;
    check_tags(&cmd.set)?;
    cmd.remove.iter().try_for_each(|key| check_tag(key, ""))
}

pub fn change_flow(tx: &mut Tx<'_>, who: &Principal, cmd: &ChangeFlow) -> Result<Reply, Stop> {
    let mut flow = visible(tx, who, cmd.flow)?;
    match cmd.growth {
        Some(Growth::Dynamic) if flow.hot.growth == Growth::Fixed => {
            return Err(Rejection::invalid("growth", "is fixed, which is for good").into());
        }
        Some(growth) if growth != flow.hot.growth => {
            if !matches!(flow.hot.state, State::Open) {
                return Err(Rejection::FlowClosed { why: flow.public_state().name() }.into());
            }
            flow.hot.growth = growth;
        }
        _ => {}
    }
    let mut tags = (**flow.tags()).clone();
    tags.extend(cmd.set.iter().map(|(key, value)| (key.clone(), value.clone())));
    for key in &cmd.remove {
        tags.remove(key);
    }
    check_tags(&tags)?;
    if tags != **flow.tags() {
        flow.set_tags(tags);
    }
    let reply = Reply::FlowChanged { tags: flow.tags().clone(), growth: flow.hot.growth };
    tx.put_flow(flow);
    Ok(reply)
}
