//! Parked items: what scanners could not handle, and how an operator retries or discards it.

use crate::client::{Client, Urgency, answered};
use crate::engine::{Engine, Shared};
use crate::reads::{decode, read_one, unavailable};
use crate::verb::Answered;
use bytes::Bytes;
use weft_core::command::{Call, Command, DiscardParked, Principal, RetryParked, Scopes};
use weft_core::error::Rejection;
use weft_core::limits::{LIST_LIMIT_DEFAULT, LIST_LIMIT_MAX};
use weft_core::record::api_key::Reach;
use weft_core::record::{DeadLetter, Key, Record};
use weft_core::reply::{Reply, Retried};
use weft_core::schema::{IndexId, PartMask};
use weft_core::text::{Text, check_range};
use weft_core::{FlowId, ParkedId, PartitionId};
use weft_store::{Entry, Place, Range, Scan, Target};

/// Letters that one look reads at most.
const LOOK: usize = 5_000;
const PAGE: usize = 500;

/// A parked item and why it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    pub id: ParkedId,
    /// What it is about; nothing if the entry names no record that could exist.
    pub item: Option<Key>,
    pub letter: DeadLetter,
}

/// Which parked items to list.
#[derive(Clone, Debug, Default)]
pub struct ParkedFilter {
    pub scanner: Option<Text>,
    /// Only items of these namespaces. `None` and `Reach::All` select all, also items whose namespace is not known.
    pub within: Option<Reach>,
    pub limit: Option<usize>,
    pub cursor: Option<String>,
}

/// One page of parked items, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParkedPage {
    pub items: Vec<Parked>,
    /// Absent exactly at the end.
    pub next_cursor: Option<String>,
}

impl Parked {
    fn of(letter: DeadLetter) -> Self {
        let id = ParkedId::new(letter.partition, letter.uuid);
        Self { id, item: letter.item(), letter }
    }

    fn read(entry: &Entry) -> Option<Self> {
        match decode(entry.key()?, entry.found.as_ref()?, PartMask::ALL) {
            Ok(Record::DeadLetter(letter)) => Some(Parked::of(*letter)),
            _ => None,
        }
    }
}

impl ParkedFilter {
    fn takes(&self, parked: &Parked) -> bool {
        let body = &parked.letter.body;
        let within = match (&self.within, &body.namespace) {
            (None | Some(Reach::All), _) => true,
            (Some(within), Some(namespace)) => within.holds(namespace),
            (Some(_), None) => false,
        };
        within && self.scanner.as_ref().is_none_or(|scanner| *scanner == body.scanner)
    }
}

impl Client {
    /// One page of parked items, of whichever namespaces the filter says.
    pub async fn parked(&self, filter: &ParkedFilter) -> Result<ParkedPage, Rejection> {
        self.principal.scopes.need(Scopes::OPERATE, "operate")?;
        let limit = filter.limit.unwrap_or(LIST_LIMIT_DEFAULT);
        check_range("limit", limit as u64, 1, LIST_LIMIT_MAX as u64)?;
        let mut after = filter.cursor.as_deref().map(parse_cursor).transpose()?;
        let (mut page, mut looked) = (ParkedPage::default(), 0);
        loop {
            let (entries, more) = letters(&self.shared, None, after.take()).await?;
            let count = entries.len();
            looked += count;
            for (at, entry) in entries.into_iter().enumerate() {
                // Ids of several partitions may have one uuid; a cursor could not tell them apart.
                if page.items.len() >= limit && after.as_ref() != Some(&entry.place) {
                    page.next_cursor = after.as_ref().map(write_cursor);
                    return Ok(page);
                }
                page.items.extend(Parked::read(&entry).filter(|parked| filter.takes(parked)));
                after = Some(entry.place);
                if at + 1 == count && more && (looked >= LOOK || page.items.len() >= limit) {
                    page.next_cursor = after.as_ref().map(write_cursor);
                    return Ok(page);
                }
            }
            if !more || count == 0 {
                return Ok(page);
            }
        }
    }

    /// Lets a parked item be tried again, at once, and says what became of it.
    pub async fn retry_parked(&self, id: ParkedId, request_id: Option<Bytes>) -> Result<Answered<Retried>, Rejection> {
        known(&self.shared, id)?;
        answered(self.one(self.call(retry(id), request_id), Urgency::Normal).await, retried)
    }

    /// Gives a parked item up: its timer does not fire until it is armed anew. Its record is otherwise not changed, with two
    /// exceptions, so that a flow can finish: a live member that does not decode counts as failed from then on, and cancels
    /// that a group owes its siblings are given up.
    pub async fn discard_parked(
        &self,
        id: ParkedId,
        reason: impl Into<Text>,
        request_id: Option<Bytes>,
    ) -> Result<Answered<()>, Rejection> {
        known(&self.shared, id)?;
        let discard = DiscardParked { letter: id.uuid(), partition: id.partition(), reason: reason.into() };
        let call = self.call(Command::DiscardParked(discard), request_id);
        answered(self.one(call, Urgency::Normal).await, |reply| match reply {
            Reply::Noted => Ok(()),
            other => Err(other),
        })
    }
}

impl Engine {
    /// The namespace of a parked item, if that is known. Refused if nothing of that id is parked.
    pub async fn namespace_of_parked(&self, id: ParkedId) -> Result<Option<Text>, Rejection> {
        known(self.shared(), id)?;
        match read_one(self.shared(), Key::DeadLetter(id.partition(), id.uuid()), PartMask::ALL).await? {
            Some(Record::DeadLetter(letter)) => Ok(letter.body.namespace),
            _ => Err(Rejection::DeadLetterNotFound),
        }
    }

    /// Retries parked items at once, each on behalf of its own principal. Results are in the order of `items`; a
    /// refusal does not affect the other items.
    pub async fn retry_parked_as(&self, items: Vec<(Principal, ParkedId)>) -> Vec<Result<Retried, Rejection>> {
        let calls = items.into_iter().map(|(principal, id)| {
            known(self.shared(), id)?;
            Ok(Call { principal, request_id: None, expected_revision: None, command: retry(id) })
        });
        let answers = self.shared().run(calls.collect(), Urgency::Normal).await;
        answers.into_iter().map(|answer| Ok(answered(answer, retried)?.value)).collect()
    }
}

fn retry(id: ParkedId) -> Command {
    Command::RetryParked(RetryParked { letter: id.uuid(), partition: id.partition() })
}

fn retried(reply: Reply) -> Result<Retried, Reply> {
    match reply {
        Reply::Retried(retried) => Ok(retried),
        other => Err(other),
    }
}

/// Refuses an id of a partition that does not exist.
fn known(shared: &Shared, id: ParkedId) -> Result<(), Rejection> {
    match usize::from(id.partition().0) < shared.partitions.len() {
        true => Ok(()),
        false => Err(Rejection::InvalidId { expected: "d" }),
    }
}

/// Some letters after a place, of one partition or of all, and whether there are more.
async fn letters(
    shared: &Shared,
    partition: Option<PartitionId>,
    after: Option<Place>,
) -> Result<(Vec<Entry>, bool), Rejection> {
    let scan = Scan {
        target: Target::Index(IndexId::DeadLetters),
        ranges: vec![Range { prefix: Vec::new(), after, until: None }],
        limit: PAGE,
        descending: false,
        parts: Some(PartMask::ALL),
    };
    let pages = shared.store.scan(partition, scan).await.map_err(unavailable)?;
    let page = pages.into_iter().next().unwrap_or_default();
    Ok((page.entries, page.more))
}

fn write_cursor(place: &Place) -> String {
    uuid::Uuid::from_slice(&place.key).unwrap_or_default().to_string()
}

fn parse_cursor(text: &str) -> Result<Place, Rejection> {
    let uuid = uuid::Uuid::try_parse(text).map_err(|_| Rejection::InvalidCursor)?;
    Ok(Place { columns: Vec::new(), key: Bytes::copy_from_slice(uuid.as_bytes()) })
}

/// The first parked items that belong to a flow, in the order of their names.
pub(crate) async fn of_flow(shared: &Shared, flow: FlowId, limit: usize) -> Result<Vec<Parked>, Rejection> {
    let (mut parked, mut looked, mut after) = (Vec::new(), 0, None);
    loop {
        let (entries, more) = letters(shared, Some(flow.partition()), after).await?;
        looked += entries.len();
        let found = entries.iter().filter_map(Parked::read);
        parked.extend(found.filter(|parked| parked.letter.body.flow == Some(flow)));
        after = entries.into_iter().last().map(|last| last.place);
        if !more || after.is_none() || looked >= LOOK || parked.len() >= limit {
            parked.truncate(limit);
            return Ok(parked);
        }
    }
}
