//! Noting that an API key is in use, so that one that nobody needs can be found. Coarse, because every call uses a key.

use super::{existing, put};
use crate::command::TouchKey;
use crate::limits::KEY_TOUCH_MS;
use crate::reply::Reply;
use crate::tx::{Stop, Tx};

/// Writes at most once an hour.
pub fn touch_key(tx: &mut Tx<'_>, cmd: &TouchKey) -> Result<Reply, Stop> {
    let mut key = existing(tx, cmd.id)?;
    let now = tx.now();
    if key.body.last_used_at.is_none_or(|at| now.since(at) >= KEY_TOUCH_MS) {
        key.body.last_used_at = Some(now);
        put(tx, key);
    }
    Ok(Reply::Noted)
}
