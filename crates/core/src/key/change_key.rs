//! Changing what an API key may do. Never its secret.

use super::{check_expiry, check_reach, check_scopes, existing, names, put, put_names, refuse_last_admin};
use crate::command::ChangeKey;
use crate::error::Rejection;
use crate::reply::Reply;
use crate::text::check_name;
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &ChangeKey, now: Time) -> Result<(), Rejection> {
    cmd.name.as_ref().map_or(Ok(()), |name| check_name("name", name))?;
    cmd.scopes.map_or(Ok(()), check_scopes)?;
    cmd.namespaces.as_ref().map_or(Ok(()), check_reach)?;
    check_expiry(cmd.expires_at.flatten(), now)
}

/// Fields that are not given keep their values. The last administrator stays one.
pub fn change_key(tx: &mut Tx<'_>, cmd: &ChangeKey) -> Result<Reply, Stop> {
    let mut key = existing(tx, cmd.id)?;
    let before = key.clone();
    if let Some(name) = cmd.name.as_ref().filter(|name| **name != key.body.name) {
        let mut names = names(tx)?;
        if names.contains_key(name) {
            return Err(Rejection::NameTaken.into());
        }
        names.remove(&key.body.name);
        names.insert(name.clone(), cmd.id);
        put_names(tx, names);
        key.body.name = name.clone();
    }
    let body = &mut key.body;
    body.scopes = cmd.scopes.unwrap_or(body.scopes);
    body.namespaces = cmd.namespaces.clone().unwrap_or_else(|| body.namespaces.clone());
    body.attributes.read_only = cmd.read_only.unwrap_or(body.attributes.read_only);
    body.attributes.rate_class = cmd.rate_class.unwrap_or(body.attributes.rate_class);
    body.expires_at = cmd.expires_at.unwrap_or(body.expires_at);
    let given = [
        (cmd.scopes.is_some(), "scopes"),
        (cmd.namespaces.is_some(), "namespaces"),
        (cmd.read_only.is_some(), "read_only"),
    ];
    let field = given.into_iter().find(|(given, _)| *given).map_or("expires_at", |(_, field)| field);
    refuse_last_admin(tx, &before, Some(&key), field)?;
    put(tx, key.clone());
    Ok(Reply::Key(Box::new(key)))
}
