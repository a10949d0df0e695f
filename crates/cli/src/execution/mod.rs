//! Commands about executions: submitting, reading, waiting, and every verb.

pub mod cancel;
pub mod count;
pub mod explain;
pub mod force_complete;
pub mod force_fail;
pub mod get;
pub mod history;
pub mod hold;
pub mod list;
pub mod priority;
pub mod purge;
pub mod release;
pub mod replay;
pub mod reschedule;
pub mod result;
pub mod revoke;
pub mod submit;
pub mod tag;
pub mod wait;

use crate::End;
use crate::fault::Fault;
use crate::remote::Remote;
use crate::render::{self, execution};
use anyhow::Result;
use std::collections::BTreeMap;
use weft_api::execution::{Execution, PublicState};

/// `key=value`, cut in two.
fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write `key=value`".to_owned()),
    }
}

/// A key that is given twice with different values is misuse: nobody knows which is meant.
fn tags(pairs: Vec<(String, String)>) -> Result<BTreeMap<String, String>> {
    let mut tags = BTreeMap::new();
    for (key, value) in pairs {
        if let Some(other) = tags.insert(key.clone(), value.clone()).filter(|other| *other != value) {
            return Err(Fault::usage(format!("the tag `{key}` is given twice: `{key}={other}` and `{key}={value}`")));
        }
    }
    Ok(tags)
}

/// Shows how an execution ended; its exit code is that of its end.
fn put_ending(remote: &Remote, ended: &Execution) -> Result<()> {
    remote.put(ended, &ended.id, || {
        let ending = render::state_text(ended.public_state, &execution::ending(ended), remote.colour.out);
        format!("{}  {ending}", ended.id)
    })
}

fn end_of(ended: &Execution) -> End {
    match ended.public_state {
        PublicState::Completed => End::Done,
        _ => End::Unsuccessful,
    }
}
