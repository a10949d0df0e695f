//! Creating an API key. The caller has drawn its id and secret; only the MAC of the secret gets here.

use super::{check_expiry, check_reach, check_scopes, key_of, names, put, put_names};
use crate::command::{CreateKey, Principal};
use crate::error::Rejection;
use crate::limits::{KEYS_MAX, KEYS_RESERVED};
use crate::record::api_key::{ApiKey, Body, HOME};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::text::check_name;
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &CreateKey, now: Time) -> Result<(), Rejection> {
    check_name("name", &cmd.name)?;
    check_scopes(cmd.scopes)?;
    check_reach(&cmd.namespaces)?;
    check_expiry(cmd.expires_at, now)
}

/// A name that another key has is refused. With `only_if_none` nothing happens if there is any key.
pub fn create_key(tx: &mut Tx<'_>, who: &Principal, cmd: &CreateKey) -> Result<Reply, Stop> {
    let missing = tx.prefetch(key_of(cmd.id), PartMask::NONE);
    let mut names = names(tx)?;
    if missing {
        return Err(Stop::Miss);
    }
    if cmd.only_if_none && !names.is_empty() {
        return Ok(Reply::KeysExist);
    }
    if names.contains_key(&cmd.name) {
        return Err(Rejection::NameTaken.into());
    }
    if tx.get(key_of(cmd.id), PartMask::NONE)?.is_some() {
        return Err(Rejection::invalid("id", "is that of another key; draw another").into());
    }
    let body = Body {
        name: cmd.name.clone(),
        scopes: cmd.scopes,
        namespaces: cmd.namespaces.clone(),
        attributes: cmd.attributes,
        creator: who.name.clone(),
        created_at: tx.now(),
        expires_at: cmd.expires_at,
        last_used_at: None,
        rotated_at: None,
        mac: cmd.mac,
        previous: None,
    };
    let reserved = if who.origin.is_none() && body.is_lasting_admin() { KEYS_RESERVED } else { 0 };
    if names.len() >= KEYS_MAX + reserved {
        return Err(Rejection::LimitExceeded { what: "keys", max: (KEYS_MAX + reserved) as u64 }.into());
    }
    let key = ApiKey { partition: HOME, id: cmd.id, body };
    names.insert(cmd.name.clone(), cmd.id);
    put_names(tx, names);
    put(tx, key.clone());
    Ok(Reply::Key(Box::new(key)))
}
