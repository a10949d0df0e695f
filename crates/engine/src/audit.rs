//! The audit log: listing it, proving that nothing is missing, and telling it of calls that never became commands.

use crate::client::Client;
use crate::engine::Engine;
use crate::reads::{decode, read_one, unavailable};
use crate::refusals;
use bytes::Bytes;
use weft_core::command::{Principal, Scopes};
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::api_key::Reach;
use weft_core::record::audit::{Audit, End};
use weft_core::record::register::{Body, Subject};
use weft_core::record::{Key, Record};
use weft_core::schema::{IndexId, Kind, PartMask, Value};
use weft_core::text::{Text, check_range};
use weft_core::{PartitionId, Time};
use weft_store::{Place, Range, Scan, Target};

/// Which entries to list. Nothing set means all.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    pub principal: Option<Text>,
    pub verb: Option<Text>,
    pub target: Option<Text>,
    /// Both ends included.
    pub from: Option<Time>,
    pub until: Option<Time>,
    /// Acts in these namespaces only; what belongs to the whole deployment is in none.
    pub within: Option<Reach>,
    pub limit: Option<usize>,
    /// As the page before gave it.
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, Default)]
pub struct AuditPage {
    /// Newest first.
    pub entries: Vec<Audit>,
    /// Absent exactly at the end. A page may be short, or empty, and still have one: its cost is bounded.
    pub next_cursor: Option<String>,
}

/// What a walk over the log of a partition found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditCheck {
    pub entries: u64,
    /// Where the log ends; whoever wrote this down can tell whether its tail was cut.
    pub end: End,
    pub broken: Option<BrokenEntry>,
}

/// The first entry that is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenEntry {
    pub number: u64,
    pub why: &'static str,
}

/// Entries that one page may look at, and entries of one scan.
const LOOK_PER_PAGE: usize = 4000;
const SCAN: usize = 250;

impl Client {
    /// One page over all partitions, newest first.
    pub async fn audit(&self, filter: AuditFilter) -> Result<AuditPage, Rejection> {
        self.principal.scopes.need(Scopes::ADMIN, "admin")?;
        let limit = filter.limit.unwrap_or(limits::LIST_LIMIT_DEFAULT);
        check_range("limit", limit as u64, 1, limits::LIST_LIMIT_MAX as u64)?;
        let beyond = |until: Time| place(until.as_i64().saturating_add(1), 0, PartitionId(0));
        let mut after = match filter.cursor.as_deref() {
            Some(cursor) => Some(parse_cursor(cursor)?),
            None => filter.until.map(beyond),
        };
        let mut page = AuditPage::default();
        let mut looked = 0;
        loop {
            let scan = Scan {
                target: Target::Index(IndexId::AuditByTime),
                ranges: vec![Range { after: after.take(), ..Range::default() }],
                limit: SCAN,
                descending: true,
                parts: Some(PartMask::ALL),
            };
            let pages = self.shared.store.scan(None, scan).await.map_err(unavailable)?;
            let Some(found) = pages.into_iter().next() else { return Ok(page) };
            looked += found.entries.len();
            let count = found.entries.len();
            for (at, entry) in found.entries.into_iter().enumerate() {
                after = Some(entry.place.clone());
                let (Some(key), Some(record)) = (entry.key(), &entry.found) else { continue };
                let Record::Audit(audit) = decode(key, record, PartMask::ALL)? else { continue };
                if filter.from.is_some_and(|from| audit.body.act.at < from) {
                    return Ok(page);
                }
                let cursor = write_cursor(&audit);
                if matches(&filter, &audit) {
                    page.entries.push(*audit);
                }
                let more = found.more || at + 1 < count;
                if page.entries.len() == limit || (at + 1 == count && looked >= LOOK_PER_PAGE) {
                    page.next_cursor = more.then_some(cursor);
                    return Ok(page);
                }
            }
            if !found.more {
                return Ok(page);
            }
        }
    }

    /// Walks the log of one partition and names the first entry that was changed, removed or moved.
    pub async fn verify_audit(&self, partition: PartitionId) -> Result<AuditCheck, Rejection> {
        self.principal.scopes.need(Scopes::ADMIN, "admin")?;
        if usize::from(partition.0) >= self.shared.partitions.len() {
            return Err(Rejection::invalid("partition", "is not one of this deployment"));
        }
        // Read first: what is added while the log is walked lies beyond it.
        let told = match read_one(&self.shared, Key::Register(partition, Subject::AuditEnd), PartMask::ALL).await? {
            Some(Record::Register(register)) => match register.body {
                Body::AuditEnd(end) => end,
                Body::KeyNames(_) | Body::NodeDrains(_) => End::default(),
            },
            _ => End::default(),
        };
        let mut walk =
            Walk { now: self.shared.now(), kept_ms: self.shared.config.limits.audit_kept_ms, told, ..Walk::default() };
        let mut after = None;
        loop {
            let scan = Scan {
                target: Target::Records(Kind::Audit),
                ranges: vec![Range { after: after.take(), ..Range::default() }],
                limit: SCAN,
                descending: false,
                parts: Some(PartMask::ALL),
            };
            let pages = self.shared.store.scan(Some(partition), scan).await.map_err(unavailable)?;
            let Some(found) = pages.into_iter().next() else { return Ok(walk.finish()) };
            for entry in found.entries {
                let record = match (entry.key(), &entry.found) {
                    (Some(key), Some(found)) => Record::decode(key, &found.parts, PartMask::ALL).ok(),
                    _ => None,
                };
                let audit = match record {
                    Some(Record::Audit(audit)) => Some(*audit),
                    _ => None,
                };
                walk.take(audit);
                after = Some(entry.place);
            }
            if !found.more || walk.check.broken.is_some() {
                return Ok(walk.finish());
            }
        }
    }
}

/// A walk over one log.
#[derive(Default)]
struct Walk {
    now: Time,
    /// How long entries have to be kept.
    kept_ms: u64,
    /// Where the partition says that its log ends.
    told: End,
    check: AuditCheck,
}

impl Walk {
    /// `None` for one whose bytes do not decode.
    fn take(&mut self, entry: Option<Audit>) {
        let expected = self.check.end.number + 1;
        if self.check.broken.is_some() {
            return;
        }
        let Some(entry) = entry else { return self.break_at(expected, "does not decode") };
        let number = entry.number;
        if number != expected && !entry.may_be_first(self.now, self.kept_ms) {
            return self.break_at(expected, "was removed");
        }
        if !entry.is_sound() {
            return self.break_at(number, "was changed");
        }
        if number == expected && number > 1 && self.check.entries > 0 && !entry.follows(&self.check.end) {
            return self.break_at(number, "does not follow the one before");
        }
        if number == self.told.number && entry.body.chain != self.told.chain {
            return self.break_at(number, "is not the one that was written last");
        }
        self.check.entries += 1;
        self.check.end = entry.end();
    }

    fn break_at(&mut self, number: u64, why: &'static str) {
        self.check.broken.get_or_insert(BrokenEntry { number, why });
    }

    fn finish(mut self) -> AuditCheck {
        let (told, last) = (self.told, self.check.end.number);
        let kept_long_enough = told.at + self.kept_ms <= self.now;
        if last < told.number && !(self.check.entries == 0 && kept_long_enough) {
            self.break_at(last + 1, "was removed");
        }
        if self.check.entries == 0 {
            self.check.end = told;
        }
        self.check
    }
}

fn matches(filter: &AuditFilter, entry: &Audit) -> bool {
    let act = &entry.body.act;
    let wants = |wanted: &Option<Text>, got: &Text| wanted.as_ref().is_none_or(|wanted| wanted == got);
    wants(&filter.principal, &act.principal)
        && wants(&filter.verb, &act.verb)
        && wants(&filter.target, &act.target)
        && filter.until.is_none_or(|until| act.at <= until)
        && filter.within.as_ref().is_none_or(|within| within.holds(&act.namespace))
}

fn place(at: i64, number: u64, partition: PartitionId) -> Place {
    let key = Key::Audit(partition, number).to_bytes();
    Place { columns: vec![Value::Int(at)], key: Bytes::copy_from_slice(key.as_slice()) }
}

fn write_cursor(entry: &Audit) -> String {
    format!("{}.{}.{}", entry.body.act.at.ms(), entry.number, entry.partition)
}

fn parse_cursor(text: &str) -> Result<Place, Rejection> {
    let parse = || {
        let mut parts = text.split('.');
        let at: i64 = parts.next()?.parse().ok()?;
        let number = parts.next()?.parse().ok()?;
        let partition = PartitionId(parts.next()?.parse().ok()?);
        parts.next().is_none().then(|| place(at, number, partition))
    };
    parse().ok_or(Rejection::InvalidCursor)
}

impl Engine {
    /// Tells the log of a call that was refused before it became a command: a key that is not good, a scope that is
    /// lacking. It is written soon, not before this returns; those that are alike share an entry.
    pub fn audit_refusal(&self, principal: &Principal, verb: &str, target: &str, code: &str) {
        refusals::note(self.shared(), principal, verb, target, code);
    }
}
