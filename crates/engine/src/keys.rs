//! API keys. All of them are in one partition; reads of a key go to the store, so that a revoke on one node holds on the
//! next read of any other.

use crate::client::{Client, Urgency, answered, unexpected};
use crate::engine::Engine;
use crate::reads::{decode, read_revised, unavailable};
use crate::verb::Answered;
use bytes::Bytes;
use weft_core::command::{Call, ChangeKey, Command, CreateKey, Principal, RevokeKey, RotateKey, Scopes, TouchKey};
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::api_key::HOME;
use weft_core::record::{ApiKey, Key, Record};
use weft_core::reply::Reply;
use weft_core::schema::{IndexId, PartMask, Value};
use weft_core::text::check_range;
use weft_core::{CommitId, KeyId};
use weft_store::{Place, Range, Scan, Target};

/// What became of a key that was to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyCreation {
    Created(ApiKey),
    /// The call was a repeat: the key is the first one, and the secret that came with this call is no good.
    Repeated(ApiKey),
    /// It was to be made only if there were none.
    KeysExist,
}

/// Some keys, by name.
#[derive(Clone, Debug, Default)]
pub struct KeyPage {
    pub keys: Vec<ApiKey>,
    /// Absent exactly at the end.
    pub next_cursor: Option<String>,
}

impl Client {
    pub async fn create_key(&self, key: CreateKey, request_id: Option<Bytes>) -> Result<KeyCreation, Rejection> {
        let call = self.call(Command::CreateKey(Box::new(key)), request_id);
        let applied = self.one(call, Urgency::Normal).await?;
        match applied.reply {
            Reply::Key(key) if applied.repeated => Ok(KeyCreation::Repeated(*key)),
            Reply::Key(key) => Ok(KeyCreation::Created(*key)),
            Reply::KeysExist => Ok(KeyCreation::KeysExist),
            other => Err(unexpected(other)),
        }
    }

    /// Answers the key as it is then. With `expected` only if it is as it was at that revision.
    pub async fn change_key(
        &self,
        change: ChangeKey,
        request_id: Option<Bytes>,
        expected: Option<CommitId>,
    ) -> Result<Answered<ApiKey>, Rejection> {
        self.on_key(Command::ChangeKey(Box::new(change)), request_id, expected).await
    }

    /// Gives it another secret. If the call was a repeat, the secret that came with it is no good.
    pub async fn rotate_key(
        &self,
        rotation: RotateKey,
        request_id: Option<Bytes>,
        expected: Option<CommitId>,
    ) -> Result<Answered<ApiKey>, Rejection> {
        self.on_key(Command::RotateKey(rotation), request_id, expected).await
    }

    pub async fn revoke_key(
        &self,
        id: KeyId,
        request_id: Option<Bytes>,
        expected: Option<CommitId>,
    ) -> Result<Answered<()>, Rejection> {
        let call = self.call(Command::RevokeKey(RevokeKey { id }), request_id);
        let call = Call { expected_revision: expected, ..call };
        answered(self.one(call, Urgency::Normal).await, |reply| match reply {
            Reply::KeyRevoked => Ok(()),
            other => Err(other),
        })
    }

    async fn on_key(
        &self,
        command: Command,
        request_id: Option<Bytes>,
        expected: Option<CommitId>,
    ) -> Result<Answered<ApiKey>, Rejection> {
        let call = Call { expected_revision: expected, ..self.call(command, request_id) };
        let reply = self.one(call, Urgency::Normal).await;
        answered(reply, |reply| match reply {
            Reply::Key(key) => Ok(*key),
            other => Err(other),
        })
    }

    /// The key, and its revision.
    pub async fn key(&self, id: KeyId) -> Result<(ApiKey, CommitId), Rejection> {
        self.principal.scopes.need(Scopes::ADMIN, "admin")?;
        find(self, id).await?.ok_or(Rejection::KeyNotFound)
    }

    /// Keys by name, after the cursor that the page before gave.
    pub async fn keys(&self, limit: Option<usize>, cursor: Option<&str>) -> Result<KeyPage, Rejection> {
        self.principal.scopes.need(Scopes::ADMIN, "admin")?;
        let limit = limit.unwrap_or(limits::LIST_LIMIT_DEFAULT);
        check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
        let scan = Scan {
            target: Target::Index(IndexId::KeysByName),
            ranges: vec![Range { after: cursor.map(parse_cursor).transpose()?, ..Range::default() }],
            limit,
            descending: false,
            parts: Some(PartMask::ALL),
        };
        let pages = self.shared.store.scan(Some(HOME), scan).await.map_err(unavailable)?;
        let mut page = KeyPage::default();
        for found in pages {
            for entry in &found.entries {
                let (Some(record), Some(key)) = (&entry.found, entry.key()) else { continue };
                if let Record::ApiKey(key) = decode(key, record, PartMask::ALL)? {
                    page.keys.push(*key);
                }
            }
            page.next_cursor = page.keys.last().filter(|_| found.more).map(write_cursor);
        }
        Ok(page)
    }
}

/// The id has a fixed length, so the name needs no mark.
fn write_cursor(key: &ApiKey) -> String {
    format!("{}{}", key.id, key.body.name)
}

fn parse_cursor(text: &str) -> Result<Place, Rejection> {
    let (id, name) = text.split_at_checked(KeyId::LEN).ok_or(Rejection::InvalidCursor)?;
    let id: KeyId = id.parse().map_err(|_| Rejection::InvalidCursor)?;
    Ok(Place { columns: vec![Value::Text(name.into())], key: Bytes::copy_from_slice(id.as_bytes()) })
}

async fn find(client: &Client, id: KeyId) -> Result<Option<(ApiKey, CommitId)>, Rejection> {
    match read_revised(&client.shared, Key::ApiKey(HOME, id), PartMask::ALL).await? {
        Some((Record::ApiKey(key), revision)) => Ok(Some((*key, revision))),
        _ => Ok(None),
    }
}

impl Engine {
    /// The key as the store has it now, for whoever checks secrets; `None` if there is none.
    pub async fn find_key(&self, id: KeyId) -> Result<Option<ApiKey>, Rejection> {
        Ok(find(&self.client_as(Principal::engine()), id).await?.map(|(key, _)| key))
    }

    /// Notes that the key is in use; written once an hour.
    pub async fn touch_key(&self, id: KeyId) -> Result<(), Rejection> {
        let client = self.client_as(Principal::engine());
        let call: Call = client.call(Command::TouchKey(TouchKey { id }), None);
        client.one(call, Urgency::Normal).await.map(|_| ())
    }
}
