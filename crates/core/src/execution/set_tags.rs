//! Changing tags, all or nothing, in every state. Repeating it is harmless.

use super::fence::{self, Verb};
use super::{WITH_ACTIONS, emit, note, visible};
use crate::command::{Principal, SetTags};
use crate::error::Rejection;
use crate::event::Fact;
use crate::limits::{REASON_MAX, TAGS_MAX};
use crate::planted::{self, Defect};
use crate::reply::Reply;
use crate::text::{check_tag, check_tags, check_text};
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &SetTags) -> Result<(), Rejection> {
    check_text("reason", &cmd.reason, REASON_MAX)?;
    check_tags(&cmd.set)?;
    for key in &cmd.remove {
        check_tag(key, "")?;
        if cmd.set.contains_key(key) {
            return Err(Rejection::invalid("remove", "names a tag that is set by the same call"));
        }
    }
    Ok(())
}

pub fn set_tags(tx: &mut Tx<'_>, who: &Principal, cmd: &SetTags) -> Result<Reply, Stop> {
    let now = tx.now();
    let mut execution = visible(tx, who, cmd.id, WITH_ACTIONS)?;
    if cmd.fence.is_some() {
        fence::admit(tx, &execution, cmd.fence, Verb::SetTags)?;
    }
    let mut tags = (**execution.tags()).clone();
    for key in &cmd.remove {
        tags.remove(key);
    }
    tags.extend(cmd.set.iter().map(|(key, value)| (key.clone(), value.clone())));
    if tags.len() > TAGS_MAX {
        return Err(Rejection::invalid("tags", "would have more than 64 entries").into());
    }
    if tags == **execution.tags() {
        return Ok(Reply::Tags(execution.tags().clone()));
    }
    if !planted::on(Defect::TagsNotWritten) {
        execution.set_tags(tags);
    }
    note(&mut execution, "set_tags", who, &cmd.reason, now);
    emit(tx, &execution, &who.name, Fact::TagsChanged { reason: cmd.reason.clone() });
    let tags = execution.tags().clone();
    tx.put_execution(execution);
    Ok(Reply::Tags(tags))
}
