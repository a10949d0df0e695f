//! Parked items: what scanners gave up on, and what an operator does with it.

use crate::client::{Client, Urgency, answered};
use crate::engine::Shared;
use crate::reads::{decode, unavailable};
use crate::verb::Answered;
use bytes::Bytes;
use uuid::Uuid;
use weft_core::command::{Command, DiscardParked, RetryParked};
use weft_core::error::Rejection;
use weft_core::record::{DeadLetter, Key, Record};
use weft_core::reply::Reply;
use weft_core::schema::{IndexId, PartMask};
use weft_core::text::Text;
use weft_core::{FlowId, PartitionId};
use weft_store::{Range, Scan, Target};

/// Letters that one look reads at most.
const LOOK: usize = 5_000;
const PAGE: usize = 500;

/// Names one parked item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParkedId {
    pub partition: PartitionId,
    pub letter: Uuid,
}

/// A parked item and why it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    pub id: ParkedId,
    /// What it is about; nothing if the entry names no record that could exist.
    pub item: Option<Key>,
    pub letter: DeadLetter,
}

impl Parked {
    fn of(letter: DeadLetter) -> Self {
        let (partition, body) = (letter.partition, &letter.body);
        let item = body.item_kind().and_then(|kind| Key::from_bytes(partition, kind, &body.key));
        Self { id: ParkedId { partition, letter: letter.uuid }, item, letter }
    }
}

impl Client {
    /// Lets a parked item be tried again, at once.
    pub async fn retry_parked(&self, id: ParkedId, request_id: Option<Bytes>) -> Result<Answered<()>, Rejection> {
        let ParkedId { partition, letter } = id;
        self.decide(Command::RetryParked(RetryParked { letter, partition }), request_id).await
    }

    /// Gives a parked item up. Its record is not changed; a live member of a flow that cannot be read has failed then.
    pub async fn discard_parked(
        &self,
        id: ParkedId,
        reason: impl Into<Text>,
        request_id: Option<Bytes>,
    ) -> Result<Answered<()>, Rejection> {
        let ParkedId { partition, letter } = id;
        let discard = DiscardParked { letter, partition, reason: reason.into() };
        self.decide(Command::DiscardParked(discard), request_id).await
    }

    async fn decide(&self, command: Command, request_id: Option<Bytes>) -> Result<Answered<()>, Rejection> {
        answered(self.one(self.call(command, request_id), Urgency::Normal).await, |reply| match reply {
            Reply::Noted => Ok(()),
            other => Err(other),
        })
    }
}

/// The first parked items that belong to a flow, in the order of their names.
pub(crate) async fn of_flow(shared: &Shared, flow: FlowId, limit: usize) -> Result<Vec<Parked>, Rejection> {
    let (mut parked, mut looked, mut after) = (Vec::new(), 0, None);
    loop {
        let scan = Scan {
            target: Target::Index(IndexId::DeadLetters),
            ranges: vec![Range { prefix: Vec::new(), after, until: None }],
            limit: PAGE,
            descending: false,
            parts: Some(PartMask::ALL),
        };
        let pages = shared.store.scan(Some(flow.partition()), scan).await.map_err(unavailable)?;
        let page = pages.into_iter().next().unwrap_or_default();
        looked += page.entries.len();
        for entry in &page.entries {
            let (Some(key), Some(found)) = (entry.key(), &entry.found) else { continue };
            if let Ok(Record::DeadLetter(letter)) = decode(key, found, PartMask::ALL)
                && letter.body.flow == Some(flow)
            {
                parked.push(Parked::of(*letter));
            }
        }
        after = page.entries.into_iter().last().map(|last| last.place);
        if !page.more || looked >= LOOK || parked.len() >= limit {
            parked.truncate(limit);
            return Ok(parked);
        }
    }
}
