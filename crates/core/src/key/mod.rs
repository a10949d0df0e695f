//! Every operation on an API key, one file each, and the register of their names, by which they are unique and counted.

pub(crate) mod change_key;
pub(crate) mod create_key;
pub(crate) mod revoke_key;
pub(crate) mod rotate_key;
pub(crate) mod touch_key;

#[cfg(test)]
mod tests;

use crate::command::Scopes;
use crate::error::Rejection;
use crate::id::KeyId;
use crate::limits::KEY_NAMESPACES_MAX;
use crate::record::api_key::{ApiKey, HOME, Reach};
use crate::record::register::{self, Subject};
use crate::record::{Key, Record, Register};
use crate::schema::PartMask;
use crate::text::{Text, check_name};
use crate::time::Time;
use crate::tx::{Stop, Tx};
use std::collections::BTreeMap;

pub(crate) const fn key_of(id: KeyId) -> Key {
    Key::ApiKey(HOME, id)
}

const NAMES: Key = Key::Register(HOME, Subject::KeyNames);

/// The key, or `key_not_found`. One that has expired is still a key.
fn existing(tx: &mut Tx<'_>, id: KeyId) -> Result<ApiKey, Stop> {
    match tx.get(key_of(id), PartMask::NONE)? {
        Some(Record::ApiKey(key)) => Ok(*key),
        _ => Err(Rejection::KeyNotFound.into()),
    }
}

/// Refuses a change after which nobody could make keys any more: one that takes the rights of the last lasting
/// administrator or, where none lasts, of the last administrator that has not expired. `after` is absent if the change
/// revokes the key.
fn refuse_last_admin(
    tx: &mut Tx<'_>,
    before: &ApiKey,
    after: Option<&ApiKey>,
    field: &'static str,
) -> Result<(), Stop> {
    let (now, lasting) = (tx.now(), before.body.is_lasting_admin());
    let counts = |key: &ApiKey| if lasting { key.body.is_lasting_admin() } else { is_admin(key, now) };
    if !counts(before) || after.is_some_and(counts) {
        return Ok(());
    }
    let others: Vec<Key> = names(tx)?.into_values().filter(|id| *id != before.id).map(key_of).collect();
    if tx.prefetch_all(others.iter().copied()) {
        return Err(Stop::Miss);
    }
    for other in others {
        if matches!(tx.get(other, PartMask::NONE)?, Some(Record::ApiKey(other)) if counts(&other)) {
            return Ok(());
        }
    }
    let why = match lasting {
        true => "would leave no key with the scope `admin` on `*` that does not expire; make another one first",
        false => "would leave no key with the scope `admin` on `*`; make another one first",
    };
    Err(Rejection::invalid(field, why).into())
}

/// Whether the key may create and change keys of every namespace now.
fn is_admin(key: &ApiKey, now: Time) -> bool {
    let body = &key.body;
    let everywhere = body.scopes.has(Scopes::ADMIN) && body.namespaces == Reach::All;
    everywhere && !body.attributes.read_only && body.expires_at.is_none_or(|at| at > now)
}

fn names(tx: &mut Tx<'_>) -> Result<BTreeMap<Text, KeyId>, Stop> {
    match tx.get(NAMES, PartMask::NONE)? {
        Some(Record::Register(register)) => match register.body {
            register::Body::KeyNames(names) => Ok(names),
            register::Body::AuditEnd(_) | register::Body::NodeDrains(_) => {
                Err(Rejection::internal("K2 the names of keys are a register").into())
            }
        },
        _ => Ok(BTreeMap::new()),
    }
}

fn put_names(tx: &mut Tx<'_>, names: BTreeMap<Text, KeyId>) {
    tx.put(Record::Register(Box::new(Register { partition: HOME, body: register::Body::KeyNames(names) })));
}

fn put(tx: &mut Tx<'_>, key: ApiKey) {
    tx.put(Record::ApiKey(Box::new(key)));
}

fn check_scopes(scopes: Scopes) -> Result<(), Rejection> {
    match scopes.is_of_keys() {
        true => Ok(()),
        false => Err(Rejection::invalid("scopes", "is empty; give at least one")),
    }
}

fn check_reach(reach: &Reach) -> Result<(), Rejection> {
    let Reach::Some(names) = reach else { return Ok(()) };
    if names.is_empty() {
        return Err(Rejection::invalid("namespaces", "is empty; give at least one, or `*` for all"));
    }
    if names.len() > KEY_NAMESPACES_MAX {
        return Err(Rejection::invalid("namespaces", "has more than 64 entries"));
    }
    names.iter().try_for_each(|name| check_name("namespaces", name))
}

fn check_expiry(expires_at: Option<Time>, now: Time) -> Result<(), Rejection> {
    match expires_at {
        Some(at) if at <= now => Err(Rejection::invalid("expires_at", "is not ahead of now")),
        _ => Ok(()),
    }
}
