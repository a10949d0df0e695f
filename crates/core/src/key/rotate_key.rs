//! Giving an API key another secret. At most two are good at a time.

use super::{existing, put};
use crate::command::RotateKey;
use crate::error::Rejection;
use crate::limits::{KEY_OVERLAP_MS_DEFAULT, KEY_OVERLAP_MS_MAX};
use crate::reply::Reply;
use crate::text::check_range;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &RotateKey) -> Result<(), Rejection> {
    check_range("overlap_ms", cmd.overlap_ms.unwrap_or(0), 0, KEY_OVERLAP_MS_MAX)
}

/// The old secret stays good for the overlap; with an overlap of 0 it is bad at once. One that still overlapped from a
/// rotation before is bad now.
pub fn rotate_key(tx: &mut Tx<'_>, cmd: &RotateKey) -> Result<Reply, Stop> {
    let mut key = existing(tx, cmd.id)?;
    let now = tx.now();
    let overlap_ms = cmd.overlap_ms.unwrap_or(KEY_OVERLAP_MS_DEFAULT);
    key.body.previous = (overlap_ms > 0).then_some((key.body.mac, now + overlap_ms));
    key.body.mac = cmd.mac;
    key.body.rotated_at = Some(now);
    put(tx, key.clone());
    Ok(Reply::Key(Box::new(key)))
}
