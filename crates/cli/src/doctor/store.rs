//! A store, as the doctor sees it.

use super::{BOOTSTRAP, PARKED_ADVICE, deep, filters};
use crate::registry;
use crate::store::{Address, AnyStore};
use crate::terminal::Colour;
use weft_core::record::{Key, Record, api_key};
use weft_core::schema::{IndexId, Kind, PartMask, Value};
use weft_store::{Entry, Finding, Place, Range, Scan, Severity, Store, Target};

/// Keys that are looked through.
const KEYS_MAX: usize = 1_000;
/// Parked items that are counted.
const PARKED_MAX: usize = 1_000;
/// Those of them that are named.
const NAMED_MAX: usize = 5;
/// Namespaces that are compared with the filters of nodes.
const NAMESPACES_MAX: usize = 1_000;

/// What the store says of itself, and what can be seen in it.
pub async fn look(address: &Address, deep: bool, colour: Colour) -> Vec<Finding> {
    let mut findings = address.inspect().await;
    let sound = findings.iter().all(|finding| finding.severity < Severity::Problem);
    if let Some(why) = closed(address, &findings, sound) {
        findings.extend(not_looked_at(why, deep));
    } else {
        match address.open_existing().await {
            Ok(store) => {
                let inside = inside(&store).await;
                // What the store has told of itself is not told twice.
                let told: Vec<String> = findings.iter().map(|finding| finding.subject.clone()).collect();
                findings.extend(inside.into_iter().filter(|finding| !told.contains(&finding.subject)));
                if deep {
                    findings.push(deep::look(&store, colour).await);
                }
            }
            Err(error) => findings.push(Finding::problem("open", format!("{error:#}"), "see above")),
        }
    }
    findings
}

/// Why a store is not opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closed {
    /// Something is wrong with it, which was told.
    Unsound,
    /// A file that somebody has open cannot be opened again.
    Held,
    /// Opening an older one would change it. Also one whose format cannot be read.
    Old,
}

fn closed(address: &Address, findings: &[Finding], sound: bool) -> Option<Closed> {
    if !sound {
        return Some(Closed::Unsound);
    }
    let Address::Sqlite { path, .. } = address else { return None };
    let is_free = findings.iter().any(|finding| finding.subject == "lock" && finding.found.starts_with("nobody"));
    if !is_free {
        return Some(Closed::Held);
    }
    let is_current = weft_store_sqlite::plan(path).is_ok_and(|plan| !plan.is_due());
    (!is_current).then_some(Closed::Old)
}

/// What a store that is not opened keeps to itself. What was asked for and not done is a warning.
fn not_looked_at(why: Closed, deep: bool) -> Vec<Finding> {
    let (because, advice) = match why {
        Closed::Unsound => ("something is wrong with the store", "mend what is told above, and look again"),
        Closed::Held => (
            "somebody has the file open",
            "`weft doctor --url URL` asks the server that has it; --deep needs it stopped",
        ),
        Closed::Old => ("the store is of an older format", "`weft migrate` brings it up to date"),
    };
    let found = format!("not looked at: {because}");
    let mut findings = Vec::new();
    if why != Closed::Unsound {
        findings
            .push(Finding { advice: advice.to_owned(), ..Finding::fine("clock, nodes, parked items", found.clone()) });
    }
    if deep {
        findings.push(Finding::warning("invariants", found, advice));
    }
    findings
}

async fn inside(store: &AnyStore) -> Vec<Finding> {
    let described = store.describe();
    let mut findings = vec![
        Finding::fine("durability", described.durability.to_string()),
        Finding::fine("partitions", described.partitions.to_string()),
        read_clock(store).await,
        nodes(store).await,
        parked(store).await,
        keys(store).await,
    ];
    findings.extend(filters(store).await);
    findings
}

/// Finds items that the filters of all live nodes exclude. A store that cannot be read is another finding.
async fn filters(store: &AnyStore) -> Option<Finding> {
    let nodes = registry::nodes(store).await.ok()?.into_iter();
    let live: Vec<_> = nodes.filter(|node| node.state == registry::State::Live).map(|node| node.filters).collect();
    let namespaces = match filters::needs_namespaces(&live) {
        true => namespaces(store).await.ok()?,
        false => Vec::new(),
    };
    filters::look(&live, &namespaces)
}

/// The namespaces that have executions: one short scan each.
async fn namespaces(store: &AnyStore) -> Result<Vec<String>, weft_store::Error> {
    let mut found: Vec<String> = Vec::new();
    while found.len() < NAMESPACES_MAX {
        let after = found.last().map(|name| Place {
            columns: vec![Value::text(&name.as_str().into()), Value::Int(i64::MAX)],
            key: vec![0xff; 16].into(),
        });
        let scan = Scan {
            target: Target::Index(IndexId::ByCreated),
            ranges: vec![Range { prefix: Vec::new(), after, until: None }],
            limit: 1,
            descending: false,
            parts: None,
        };
        let pages = store.scan(None, scan).await?;
        let first = pages.iter().flat_map(|page| &page.entries).next();
        let Some(Value::Text(name)) = first.and_then(|entry| entry.place.columns.first()) else { break };
        found.push(name.to_string());
    }
    Ok(found)
}

async fn read_clock(store: &AnyStore) -> Finding {
    let before = super::local_ms();
    match store.now().await {
        Err(error) => Finding::problem("clock", error.to_string(), "see whether the store is reachable"),
        Ok(now) => super::clock(now.as_i64(), before, "set the clocks by a time server; Weft goes by the store's"),
    }
}

async fn nodes(store: &AnyStore) -> Finding {
    match registry::nodes(store).await {
        Err(error) => Finding::problem("nodes", format!("{error:#}"), "see whether the store is reachable"),
        Ok(nodes) => {
            let live = nodes.iter().filter(|node| node.state == registry::State::Live).count();
            let versions: std::collections::BTreeSet<&str> = nodes
                .iter()
                .filter(|node| node.state == registry::State::Live)
                .map(|node| node.version.as_str())
                .collect();
            match versions.len() {
                0 | 1 => Finding::fine("nodes", format!("{live} live, {} known", nodes.len())),
                _ => {
                    let found = format!("{live} live, of the versions {}", Vec::from_iter(versions).join(", "));
                    Finding::warning("nodes", found, "finish the upgrade: one version at a time")
                }
            }
        }
    }
}

/// Keys are all in one partition. What cannot be read of them is no key that anybody uses.
async fn keys(store: &AnyStore) -> Finding {
    let scan = Scan {
        target: Target::Records(Kind::ApiKey),
        ranges: vec![Range::default()],
        limit: KEYS_MAX,
        descending: false,
        parts: Some(PartMask::ALL),
    };
    let pages = match store.scan(Some(api_key::HOME), scan).await {
        Ok(pages) => pages,
        Err(error) => return Finding::problem("keys", error.to_string(), "see whether the store is reachable"),
    };
    let keys = pages.iter().flat_map(|page| &page.entries).filter_map(|entry| {
        let (key, found) = (entry.key()?, entry.found.as_ref()?);
        match Record::decode(key, &found.parts, PartMask::ALL) {
            Ok(Record::ApiKey(key)) => Some((key.id.to_string(), key.body.name.clone(), key.body.creator.clone())),
            _ => None,
        }
    });
    let keys: Vec<_> = keys.collect();
    let first = keys.iter().find(|(_, name, creator)| **name == *BOOTSTRAP && **creator == *BOOTSTRAP);
    super::first_key(keys.len(), first.map(|(id, _, _)| id.as_str()))
}

async fn parked(store: &AnyStore) -> Finding {
    let scan = Scan {
        target: Target::Records(Kind::DeadLetter),
        ranges: vec![Range::default()],
        limit: PARKED_MAX,
        descending: false,
        parts: Some(PartMask::ALL),
    };
    match store.scan(None, scan).await {
        Err(error) => Finding::problem("parked items", error.to_string(), "see whether the store is reachable"),
        Ok(pages) => match pages.first().map_or(0, |page| page.entries.len()) {
            0 => Finding::fine("parked items", "none"),
            count => {
                let more = if pages.iter().any(|page| page.more) { " or more" } else { "" };
                let named: Vec<String> =
                    pages.iter().flat_map(|page| &page.entries).take(NAMED_MAX).map(of_letter).collect();
                let dots = if count > NAMED_MAX { "; …" } else { "" };
                let found = format!("{count}{more} that scanners have parked: {}{dots}", named.join("; "));
                Finding::warning("parked items", found, PARKED_ADVICE)
            }
        },
    }
}

/// What was given up, by whom and why.
fn of_letter(entry: &Entry) -> String {
    let letter = entry.key().zip(entry.found.as_ref());
    let letter = letter.map(|(key, found)| Record::decode(key, &found.parts, PartMask::ALL));
    let Some(Ok(Record::DeadLetter(letter))) = letter else { return "one that cannot be read".to_owned() };
    let body = &letter.body;
    let item = body.item_kind().and_then(|kind| Key::from_bytes(letter.partition, kind, &body.key));
    let item = match item {
        Some(Key::Execution(id)) => id.to_string(),
        Some(other) => format!("{other:?}"),
        None => "an entry that names nothing".to_owned(),
    };
    format!("{item} by {} ({})", body.scanner, body.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::record::DeadLetter;
    use weft_core::record::dead_letter::{Body, Why};
    use weft_core::schema::Timer;
    use weft_core::{ExecutionId, PartitionId, Time};
    use weft_store::Found;

    #[test]
    fn ops_31_a_parked_item_is_named_with_its_scanner_and_its_error() {
        let id: ExecutionId = "x_0_0192f3c1-6b1e-7c55-9a40-5d2f6d3c9e01".parse().unwrap();
        let key = Key::Execution(id);
        let body = Body {
            why: Why::Failing,
            scanner: "lease_expiry".into(),
            timer: Timer::Lease,
            due: Time::ZERO,
            kind: key.kind() as u8,
            key: key.to_bytes().as_slice().to_vec().into(),
            error: "it would have two leases".into(),
            fails: 18,
            parked_at: Time::ZERO,
            next_try_at: None,
            expires_at: None,
            namespace: None,
            flow: None,
            dropped: Vec::new(),
        };
        let letter = DeadLetter { partition: PartitionId(0), uuid: Default::default(), body };
        let parts = letter.encode(PartMask::ALL).into_iter().filter_map(|(part, bytes)| Some((part, bytes?))).collect();
        let place = Place { columns: Vec::new(), key: letter.key().to_bytes().as_slice().to_vec().into() };
        let mut entry = Entry {
            partition: PartitionId(0),
            kind: Kind::DeadLetter as u8,
            place,
            found: Some(Found { parts, revision: Default::default() }),
        };
        assert_eq!(of_letter(&entry), format!("{id} by lease_expiry (it would have two leases)"));
        entry.found = None;
        assert_eq!(of_letter(&entry), "one that cannot be read");
    }
}
