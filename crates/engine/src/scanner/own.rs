//! Scanners of the embedding program: which are accepted, how a node runs them, and what their passes work with.
//!
//! One that cancels executions nobody has claimed for an hour:
//!
//! ```
//! use std::sync::Arc;
//! use weft_core::filter::Filter;
//! use weft_core::record::execution::PublicState;
//! use weft_core::{PartitionId, Time};
//! use weft_engine::runtime::BoxFuture;
//! use weft_engine::scanner::{Report, ScanContext, Scanner};
//! use weft_engine::{Cancellation, Config, Engine, Submission};
//!
//! struct Forgotten;
//!
//! impl Scanner for Forgotten {
//!     fn name(&self) -> &'static str {
//!         "forgotten"
//!     }
//!
//!     fn interval_ms(&self) -> u64 {
//!         1_000
//!     }
//!
//!     fn scan(&self, cx: ScanContext, partition: PartitionId) -> BoxFuture<Report> {
//!         Box::pin(async move {
//!             let mut report = Report::default();
//!             let created_until = Some(Time::from_ms(cx.now().ms().saturating_sub(3_600_000)));
//!             let filter = Filter { states: vec![PublicState::Waiting], created_until, ..Filter::default() };
//!             let mut cursor = None;
//!             loop {
//!                 let Ok(page) = cx.page(partition, &filter, cursor.as_ref()).await else {
//!                     report.errors += 1;
//!                     return report;
//!                 };
//!                 for execution in page.executions {
//!                     let key = execution.id.to_string();
//!                     if cx.is_stopping() || cx.failures().should_skip(&key) {
//!                         continue;
//!                     }
//!                     let client = cx.client(&execution.spec.namespace).expect("a namespace that exists");
//!                     match client.cancel(Cancellation::new(execution.id, "forgotten")).await {
//!                         Ok(_) => {
//!                             report.processed += 1;
//!                             cx.failures().succeeded(&key);
//!                         }
//!                         Err(_) => {
//!                             report.errors += 1;
//!                             cx.failures().failed(&key);
//!                         }
//!                     }
//!                 }
//!                 match page.next {
//!                     Some(next) => cursor = Some(next),
//!                     None => return report,
//!                 }
//!             }
//!         })
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # let began = tokio::time::Instant::now();
//! # let clock = Arc::new(move || Time::from_ms(1_000_000 + began.elapsed().as_millis() as u64));
//! # let store = weft_store::MemoryStore::new(4, clock);
//! let mut config = Config::default();
//! config.scanners.own.push(Arc::new(Forgotten));
//! let engine = Engine::open(store, config).await.unwrap();
//! # let client = engine.client("shop").unwrap();
//! # let id = client.submit(Submission::new("mail")).await.unwrap().id;
//! # for ms in [3_590_000, 15_000] {
//! #     assert_eq!(client.get(id).await.unwrap().execution.public_state().name(), "waiting");
//! #     tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
//! # }
//! # assert_eq!(client.get(id).await.unwrap().execution.public_state().name(), "cancelled");
//! # engine.shutdown().await;
//! # }
//! ```

use super::failures::Failures;
use super::{Report, ScanContext, Scanner};
use crate::client::Client;
use crate::config::{Filter, ScannerConfig};
use crate::engine::OpenError;
use crate::reads::{unavailable, unfinished};
use crate::runtime::BoxFuture;
use std::fmt;
use std::sync::Arc;
use weft_core::PartitionId;
use weft_core::command::{Principal, Scopes};
use weft_core::error::Rejection;
use weft_core::filter;
use weft_core::flow::shown_by;
use weft_core::record::{Execution, Record};
use weft_core::schema::{IndexId, Value, execution as schema};
use weft_core::text;
use weft_store::{Place, Range, Scan, Target};

/// Scanners that an embedding program may register.
pub const OWN_MAX: usize = 16;
/// Executions that one page may hold.
const PAGE_MAX: usize = 500;
const NAME_MAX: usize = 64;

/// Names that no scanner of a program may have: those of built-in scanners, and some kept for later versions.
const RESERVED: &str = "attempt_timeout execution_deadline lease_expiry delayed_promoter suspension_timeout \
    pending_waitpoint_expiry retention_trimmer budget_reset budget_reconciler quota_reconciler unblock \
    dependency_reconciler cancel_reconciler edge_cancel_dispatcher edge_cancel_reconciler flow_projector \
    index_reconciler schedule_firer worker_reaper feed_trimmer";

impl fmt::Debug for dyn Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Refuses scanners that a node could not run beside its own.
pub(crate) fn check(own: &[Arc<dyn Scanner>]) -> Result<(), OpenError> {
    if own.len() > OWN_MAX {
        return Err(OpenError::Limit { field: "scanners.own", got: own.len() as u64, max: OWN_MAX as u64 });
    }
    for (at, scanner) in own.iter().enumerate() {
        let name = scanner.name();
        let why = if !is_name(name) {
            "its name must match [a-z][a-z0-9_]{0,63}"
        } else if RESERVED.split(' ').any(|reserved| reserved == name) {
            "the name is reserved for built-in scanners"
        } else if own[..at].iter().any(|other| other.name() == name) {
            "another one has this name"
        } else if !scanner.timers().is_empty() {
            "only built-in scanners have timers"
        } else {
            continue;
        };
        return Err(OpenError::Scanner { name, why });
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= NAME_MAX && name.starts_with(|first: char| first.is_ascii_lowercase()) && name.bytes().all(fits)
}

/// A scanner of the embedding program with the interval and the filter that the configuration sets.
pub(super) struct Own {
    scanner: Arc<dyn Scanner>,
    interval_ms: u64,
    filter: Filter,
}

impl Own {
    pub fn of(scanner: &Arc<dyn Scanner>, config: &ScannerConfig) -> Self {
        let configured = config.filters.get(scanner.name()).unwrap_or(&Filter::NONE);
        Self {
            interval_ms: config.interval_ms(scanner.name(), scanner.interval_ms()),
            filter: configured.or(scanner.filter()).or(&config.filter),
            scanner: scanner.clone(),
        }
    }
}

impl Scanner for Own {
    fn name(&self) -> &'static str {
        self.scanner.name()
    }

    fn interval_ms(&self) -> u64 {
        self.interval_ms
    }

    fn filter(&self) -> &Filter {
        &self.filter
    }

    fn scan(&self, cx: ScanContext, partition: PartitionId) -> BoxFuture<Report> {
        self.scanner.scan(cx, partition)
    }

    fn backlog(&self, cx: ScanContext, partition: PartitionId) -> BoxFuture<Option<u64>> {
        self.scanner.backlog(cx, partition)
    }
}

/// A place in a walk over the executions of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanCursor(Place);

/// Some executions of a partition.
#[derive(Clone, Debug, Default)]
pub struct ScanPage {
    pub executions: Vec<Execution>,
    /// Absent exactly at the end. A page may be short, or empty, and still have one.
    pub next: Option<ScanCursor>,
}

impl ScanContext {
    /// Executions of a partition after `cursor`, by namespace and then oldest first: of the next 500 those that the
    /// scanner's filter covers and that `filter` matches. Records that do not decode are left out.
    ///
    /// # Errors
    /// If there is no such partition, or the store cannot be read.
    pub async fn page(
        &self,
        partition: PartitionId,
        filter: &filter::Filter,
        cursor: Option<&ScanCursor>,
    ) -> Result<ScanPage, Rejection> {
        let shared = &self.shared;
        if usize::from(partition.0) >= shared.partitions.len() {
            return Err(Rejection::invalid("partition", "there is no such partition"));
        }
        let covered = shared.filters.of(self.scanner);
        let prefix = covered.namespace.iter().map(Value::text).collect();
        let scan = Scan {
            target: Target::Index(IndexId::ByCreated),
            ranges: vec![Range { prefix, after: cursor.map(|cursor| cursor.0.clone()), until: None }],
            limit: PAGE_MAX,
            descending: false,
            parts: Some(schema::LIGHT),
        };
        let scanned = shared.store.scan(Some(partition), scan).await;
        let pages = scanned.inspect_err(|error| self.unanswered(partition, error)).map_err(unavailable)?;
        let page = pages.into_iter().next().unwrap_or_default();
        let next = page.entries.last().filter(|_| page.more).map(|last| ScanCursor(last.place.clone()));
        let decoded = page.entries.iter().filter_map(|entry| {
            match Record::decode(entry.key()?, &entry.found.as_ref()?.parts, schema::LIGHT) {
                Ok(Record::Execution(execution)) => Some(*execution),
                _ => None,
            }
        });
        let is_wanted = |one: &Execution| covered.covers(&one.spec.namespace, one.tags()) && filter.matches(one);
        let mut executions: Vec<Execution> = decoded.filter(is_wanted).collect();
        let hidden = unfinished(shared, &executions).await?;
        executions.retain(|execution| shown_by(execution).is_none_or(|flow| !hidden.contains(&flow)));
        Ok(ScanPage { executions, next })
    }

    /// A client that acts as `scanner:<name>` in a namespace, with the scopes `submit` and `operate`.
    ///
    /// # Errors
    /// If the namespace breaks the rules of names.
    pub fn client(&self, namespace: &str) -> Result<Client, Rejection> {
        text::check_name("namespace", namespace)?;
        let scopes = Scopes::SUBMIT.with(Scopes::OPERATE);
        let principal = Principal::new(namespace, format!("scanner:{}", self.scanner), scopes);
        Ok(Client::new(self.shared.clone(), principal))
    }

    /// The scanner's account of items that failed, kept in memory for as long as the node runs.
    pub fn failures(&self) -> Failures<'_> {
        Failures(self)
    }
}

#[cfg(test)]
mod tests;
