//! What can be set about an engine. Every default is fit for production.

use crate::engine::OpenError;
use crate::scanner::{self, Scanner};
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_core::limits::Limits;
use weft_core::record::execution::Policy;
pub use weft_core::record::node::{Filter, Filters};
use weft_core::text::{Text, check_name};

#[derive(Clone, Debug)]
pub struct Config {
    /// Names this node in logs and in the spreading of scanner cycles.
    pub node: Text,
    pub limits: Limits,
    /// For submissions that give no policy.
    pub policy: Policy,
    /// Calls that may wait for a partition before callers are told `busy`.
    pub queue_max: usize,
    /// Calls that share a commit of a partition at most.
    pub batch_max: usize,
    /// How long a lease lasts if the claim that comes over the wire does not say.
    pub lease_ms: u64,
    /// Memory for cached records, for all partitions of the node together.
    pub cache_bytes: usize,
    /// Ready executions kept in memory per queue.
    pub window: usize,
    /// How long a lost wake-up can delay a waiting claim.
    pub recheck_ms: u64,
    /// How far the machine's clock may be from the store's before the node says that it is not ready.
    pub clock_skew_max_ms: u64,
    /// How long callers wait for an outcome that is unknown before they are told so.
    pub unknown_wait_ms: u64,
    pub scanners: ScannerConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node: "node".into(),
            limits: Limits::default(),
            policy: Policy::default(),
            queue_max: 4096,
            batch_max: 1024,
            lease_ms: weft_core::limits::LEASE_MS_DEFAULT,
            cache_bytes: 64 << 20,
            window: 2048,
            recheck_ms: 5_000,
            clock_skew_max_ms: 2_000,
            unknown_wait_ms: 5_000,
            scanners: ScannerConfig::default(),
        }
    }
}

/// No scanner waits less than this between two tries of an item, whatever is configured.
pub const INTERVAL_MIN_MS: u64 = 100;

#[derive(Clone, Debug)]
pub struct ScannerConfig {
    /// Passes of one scanner that run at the same time. A pass that has run for a second goes on and no longer counts.
    pub at_once: usize,
    /// Which items the scanners of this node handle; none set means all.
    pub filter: Filter,
    /// Filters of single scanners, by name. A field that is set replaces that of `filter`.
    pub filters: BTreeMap<&'static str, Filter>,
    /// Time between two looks at the due index of a store that no other process writes to.
    pub look_ms: u64,
    /// Intervals by name of the scanner, for those that are not to have their own. Less than 100 ms counts as 100 ms.
    pub intervals: BTreeMap<&'static str, u64>,
    /// Scanners of the embedding program, at most 16. They run like the built-in ones and are listed after them.
    pub own: Vec<Arc<dyn Scanner>>,
}

impl ScannerConfig {
    /// Refuses what would have no effect: the name of no scanner of the node, and a namespace that cannot exist.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let scanners = scanner::all(self);
        let filters = self.filters.keys().map(|name| ("scanners.filters", *name));
        for (field, name) in filters.chain(self.intervals.keys().map(|name| ("scanners.intervals", *name))) {
            if !scanners.iter().any(|scanner| scanner.name() == name) {
                let scored = scanners.iter().map(|it| (strsim::jaro_winkler(name, it.name()), it.name()));
                let near = scored.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, near)| near).unwrap_or_default();
                return Err(OpenError::UnknownScanner { field, name, near });
            }
        }
        let own = scanners.iter().map(|scanner| (scanner.name(), scanner.filter()));
        for (scanner, filter) in [("all", &self.filter)].into_iter().chain(own) {
            if let Some(Err(why)) = filter.namespace.as_ref().map(|namespace| check_name("namespace", namespace)) {
                return Err(OpenError::Filter { scanner, why });
            }
        }
        Ok(())
    }

    /// The configured interval of a scanner, else `usual`, and never less than `INTERVAL_MIN_MS`.
    pub(crate) fn interval_ms(&self, scanner: &str, usual: u64) -> u64 {
        self.intervals.get(scanner).copied().unwrap_or(usual).max(INTERVAL_MIN_MS)
    }

    /// The filter of a scanner: its own, with the fields of the general filter where its own has none.
    pub(crate) fn filter_of(&self, scanner: &str) -> Filter {
        self.filters.get(scanner).map_or_else(|| self.filter.clone(), |own| own.or(&self.filter))
    }
}

impl Default for ScannerConfig {
    fn default() -> Self {
        Self {
            at_once: 4,
            filter: Filter::default(),
            filters: BTreeMap::new(),
            look_ms: 30_000,
            intervals: BTreeMap::new(),
            own: Vec::new(),
        }
    }
}
