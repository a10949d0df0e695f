//! The metrics of the engine, as one table: the exposition, its page in the documentation and the checks of dashboards
//! all follow from it.

use super::histogram::{self, Histogram};
use weft_core::text::Text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    /// A one, whose labels say something.
    Info,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        }
    }
}

/// One metric. Counters end in `_total`.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    pub area: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

/// What one set of labels stands at.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    Count(u64),
    Level(f64),
    /// Upper bounds with how many lie between them and the bound before, the last one beyond all.
    Spread {
        buckets: Vec<(f64, u64)>,
        sum: f64,
    },
}

/// The values of the labels, in the order of the family, and what they stand at.
pub type Sample = (Vec<Text>, Reading);

/// A metric as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Readings {
    pub family: &'static Family,
    pub samples: Vec<Sample>,
}

impl Readings {
    pub fn new(family: &'static Family) -> Self {
        Self { family, samples: Vec::new() }
    }

    pub fn one(family: &'static Family, reading: Reading) -> Self {
        Self { family, samples: vec![(Vec::new(), reading)] }
    }

    pub fn add(&mut self, labels: &[&str], reading: Reading) {
        self.samples.push((labels.iter().map(|label| Text::from(*label)).collect(), reading));
    }
}

impl From<&Histogram> for Reading {
    fn from(histogram: &Histogram) -> Self {
        let bounds =
            (0..histogram::BUCKETS).map(|bucket| histogram::bound_us(bucket) as f64 / 1e6).chain([f64::INFINITY]);
        let buckets = bounds.zip(histogram.buckets().iter().copied()).collect();
        Reading::Spread { buckets, sum: histogram.sum_us() as f64 / 1e6 }
    }
}

impl From<&histogram::Sizes> for Reading {
    fn from(sizes: &histogram::Sizes) -> Self {
        let (buckets, sum) = sizes.read();
        let bounds = (0..histogram::SIZES).map(|bucket| (1u64 << bucket) as f64).chain([f64::INFINITY]);
        Reading::Spread { buckets: bounds.zip(buckets).collect(), sum: sum as f64 }
    }
}

macro_rules! families {
    ($($area:literal: { $($id:ident $kind:ident $name:literal [$($label:literal),*] $help:literal)* })*) => {
        $($(pub static $id: Family = Family {
            area: $area,
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*)*

        /// Every metric of the engine, by area.
        pub static FAMILIES: &[&Family] = &[$($(&$id),*),*];
    };
}

families! {
    "Executions": {
        SUBMITTED Counter "weft_submitted_total" ["lane"] "Executions that were submitted"
        CLAIMED Counter "weft_claimed_total" ["lane", "attempt_kind"] "Executions that were leased to a worker"
        FINISHED Counter "weft_finished_total" ["lane", "outcome"] "Executions that ended"
        RETRIES Counter "weft_retries_total" ["lane"] "Failed attempts after which another was scheduled"
        LEASES_LOST Counter "weft_leases_lost_total" ["cause"] "Leases that ended without a word of their worker"
        EXECUTIONS Gauge "weft_executions" ["lane", "public_state"] "Executions that have not ended, counted at most every 10 s and up to a bound per lane and state"
        QUEUE_OLDEST Gauge "weft_queue_oldest_seconds" ["lane"] "How long the head of the lane has been claimable"
        QUEUE_WAIT Histogram "weft_queue_wait_seconds" ["lane"] "Time from claimable to claimed"
        RUN Histogram "weft_run_seconds" ["lane"] "Leased time of attempts that ended"
        END_TO_END Histogram "weft_end_to_end_seconds" ["lane"] "Time from submitted to ended"
    }
    "Flows": {
        FLOWS_FINISHED Counter "weft_flows_finished_total" ["outcome"] "Flows that are done"
        FLOW_FINISH Histogram "weft_flow_finish_seconds" [] "Time from the first start of a member to the end of its flow"
        EDGES_RESOLVED Counter "weft_edges_resolved_total" ["result"] "Edges that the end of an upstream resolved"
        GROUPS_DECIDED Counter "weft_groups_decided_total" ["policy", "verdict"] "Groups of edges that were decided"
        MEMBERS_SKIPPED Counter "weft_members_skipped_total" [] "Members that a group of their edges made impossible"
        SIBLING_CANCELS Counter "weft_sibling_cancels_total" ["verdict"] "Upstreams that a decided group cancelled"
        SIBLING_RESULTS Counter "weft_sibling_cancel_results_total" ["result"] "Upstreams that decided groups looked at, by what became of them"
        SIBLING_RECONCILE Counter "weft_sibling_cancel_reconcile_total" ["action"] "Groups that owed cancels for long, by what the safety net did"
        FLOW_REPAIRS Counter "weft_flow_summary_repairs_total" [] "Flows whose totals differed from a recount and were set right"
        DEPENDENCY_REPAIRS Counter "weft_dependency_repairs_total" [] "Upstreams that had ended without telling all their downstreams, which the audit did"
        SIBLING_BACKLOG Gauge "weft_sibling_cancel_backlog" [] "Members with a group that still has siblings to cancel, counted at most every 10 s and up to 10000"
    }
    "Claims and leases": {
        CLAIM Histogram "weft_claim_seconds" ["result"] "Time that claim calls took, waiting included"
        CLAIMS_WAITING Gauge "weft_claims_waiting" [] "Claim calls that wait for work"
        CLAIM_REFUSALS Counter "weft_claim_refusals_total" ["why"] "Claim calls that were refused, by the code of the refusal"
        RENEWALS Counter "weft_renewals_total" ["result"] "Leases that were to be renewed"
        HANDOFFS Counter "weft_handoffs_total" [] "Executions that were leased by the commit that submitted them"
        NOTICES Counter "weft_notices_total" ["kind"] "Notices to workers about leases they hold"
        CAPABILITY_SETS Gauge "weft_capability_sets" ["lane"] "Sets of capabilities that waiting executions of the lane ask for, counted at most every 10 s"
        WORKERS Gauge "weft_workers" ["state"] "Worker processes that are registered, and those that their first claim has entered; counted at most every 10 s and up to 2000 per namespace"
    }
    "Engine": {
        COMMITS Counter "weft_commits_total" ["result"] "Commits by what became of them"
        COMMIT Histogram "weft_commit_seconds" [] "Time from sealing a commit to its outcome"
        BATCH Histogram "weft_batch_commands" [] "Commands that shared a commit"
        LOOP_QUEUE Gauge "weft_loop_queue" [] "Calls that wait in the mailboxes of all partitions"
        LOOP_BUSY Counter "weft_loop_busy_total" [] "Calls that were told `busy` because a mailbox was full"
        MISSES Counter "weft_misses_total" [] "Times a command waited for records that were not in memory"
        CACHE_HITS Counter "weft_cache_hits_total" [] "Times a command found all records it needed in memory"
        CACHE_BYTES Gauge "weft_cache_bytes" [] "Memory of cached records, about"
        RERUNS Counter "weft_reruns_total" [] "Commands that ran again because their commit did not happen"
        VIOLATIONS Counter "weft_invariant_violations_total" [] "Commands that were refused because they would have broken an invariant"
        CLOCK_OFFSET Gauge "weft_clock_offset_seconds" [] "How far the clock of the store is ahead of the clock of this node"
    }
    "Store": {
        STORE_CALLS Counter "weft_store_calls_total" ["call", "result"] "Calls to the store that were answered"
        STORE_CALL Histogram "weft_store_call_seconds" ["call"] "Time that calls to the store took"
        STORE_BYTES Counter "weft_store_bytes_total" ["direction"] "Bytes of records read and written, about"
        STORE_CONNECTIONS Gauge "weft_store_connections" ["state"] "Connections to the server of the store"
        STORE_WAL Gauge "weft_store_wal_bytes" [] "Size of the write-ahead log of an embedded store"
        STORE_RESOLVES Counter "weft_store_resolves_total" ["result"] "Commits of unknown outcome that were asked about"
        STORE_DATA_LOST Counter "weft_store_data_lost_total" [] "Losses of acknowledged writes that were noticed"
    }
    "Scanners": {
        SCANNER_CYCLES Counter "weft_scanner_cycles_total" ["scanner"] "Cycles that have ended, idle ones too: a look, and every pass that was due then"
        SCANNER_CYCLE Histogram "weft_scanner_cycle_seconds" ["scanner"] "Time that cycles took which have ended"
        SCANNER_WAKES Counter "weft_scanner_wakes_total" ["scanner"] "Passes that began because something was due"
        SCANNER_ITEMS Counter "weft_scanner_items_total" ["scanner", "result"] "Items by what became of them"
        SCANNER_LATENESS Histogram "weft_scanner_lateness_seconds" ["scanner"] "Time from due to handled"
        SCANNER_LAG Gauge "weft_scanner_lag_seconds" ["scanner"] "Age of the oldest due entry that is known and not handled"
        SCANNER_PARKED Gauge "weft_scanner_parked" ["scanner"] "Items that are parked: those a rule refuses are tried once an hour, damaged ones by an operator alone; counted up to 10000 of all scanners together"
        SCANNER_RESTARTS Counter "weft_scanner_restarts_total" ["scanner"] "Passes that panicked and begin again"
        RETENTION_BACKLOG Gauge "weft_retention_backlog" [] "Records whose retention is over and that are still there, counted at most every 10 s and up to 10000"
        CANCEL_BACKLOG Gauge "weft_cancel_backlog" [] "Members that flows which end still have to cancel, and executions whose cancel grace is over, counted likewise"
        CONTINUATIONS Gauge "weft_continuations" [] "Work that goes on in later commits: purges, cancels, edges, seals and bulk jobs, counted likewise"
        SCANNER_BACKLOG Gauge "weft_scanner_backlog" ["scanner"] "Items that wait, as the embedding program's scanners count them, over all partitions of this node"
        SCANNER_PARTITIONS Gauge "weft_scanner_claimed_partitions" [] "Partitions whose timers this node looks after"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ops_10_names_are_unique_and_say_their_kind() {
        let names: BTreeSet<_> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for family in FAMILIES {
            assert!(family.name.starts_with("weft_"), "{}", family.name);
            assert_eq!(family.kind == Kind::Counter, family.name.ends_with("_total"), "{}", family.name);
            assert!(!family.help.ends_with('.'), "{}", family.name);
        }
    }

    #[test]
    fn ops_10_no_label_can_name_one_thing() {
        let bounded = ["lane", "attempt_kind", "outcome", "cause", "public_state", "result", "kind", "state", "call"];
        let bounded: BTreeSet<_> =
            bounded.into_iter().chain(["direction", "scanner", "why", "policy", "verdict", "action"]).collect();
        for family in FAMILIES {
            assert!(family.labels.iter().all(|label| bounded.contains(label)), "{}", family.name);
        }
    }
}
