//! Revoking an API key for good. It is gone, and its name is free. The last administrator stays.

use super::{existing, key_of, names, put_names, refuse_last_admin};
use crate::command::RevokeKey;
use crate::reply::Reply;
use crate::tx::{Stop, Tx};

pub fn revoke_key(tx: &mut Tx<'_>, cmd: &RevokeKey) -> Result<Reply, Stop> {
    let key = existing(tx, cmd.id)?;
    refuse_last_admin(tx, &key, None, "id")?;
    let mut names = names(tx)?;
    names.remove(&key.body.name);
    put_names(tx, names);
    tx.delete(key_of(cmd.id));
    Ok(Reply::KeyRevoked)
}
