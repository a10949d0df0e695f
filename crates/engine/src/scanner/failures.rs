//! Failures of items that scanners of the embedding program handle, kept in memory.

use super::ScanContext;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

const FAILS_MAX: u32 = 3;
const PAUSE_CYCLES: u64 = 10;
/// Cycles from one clean-up of an account to the next.
const SWEEP_CYCLES: u64 = 50;
/// Items that an account may have without being cleaned up.
const KEPT_MAX: usize = 500;

/// The account of one scanner: its items that failed in a row. At the third failure an item is skipped for ten cycles of the
/// scanner; then it has three fresh tries.
pub struct Failures<'a>(pub(super) &'a ScanContext);

impl Failures<'_> {
    /// Whether the item has failed three times in a row, less than ten cycles ago.
    pub fn should_skip(&self, key: &str) -> bool {
        self.on(|account, cycle| account.keys.get(key).is_some_and(|fails| fails.is_paused(cycle)))
    }

    /// Counts a failure of the item. The third in a row is logged.
    pub fn failed(&self, key: &str) {
        if self.on(|account, cycle| account.failed(key, cycle)) {
            let (scanner, item, failures, pause_cycles) = (self.0.scanner, key, FAILS_MAX, PAUSE_CYCLES);
            tracing::error!(scanner, item, failures, pause_cycles, "an item keeps failing and is skipped for a while");
        }
    }

    /// Forgets the failures of the item.
    pub fn succeeded(&self, key: &str) {
        self.on(|account, _| account.keys.remove(key).is_some());
    }

    fn on<T>(&self, act: impl FnOnce(&mut Account, u64) -> T) -> T {
        let (shared, scanner) = (&self.0.shared, self.0.scanner);
        let cycle = shared.telemetry.scanner(scanner).map_or(0, |meter| meter.cycles.get());
        // Whole counts are written, so a panic elsewhere leaves good ones.
        let mut accounts = shared.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let account = accounts.entry(scanner).or_default();
        account.sweep(cycle);
        act(account, cycle)
    }
}

/// The accounts of a node, by scanner.
pub(crate) type Accounts = Mutex<BTreeMap<&'static str, Account>>;

#[derive(Default)]
pub(crate) struct Account {
    keys: BTreeMap<String, Fails>,
    /// The cycle of the last clean-up.
    swept: u64,
}

#[derive(Default)]
struct Fails {
    count: u32,
    /// The last cycle of the pause that the third failure begins.
    until: u64,
}

impl Fails {
    fn is_paused(&self, cycle: u64) -> bool {
        self.count >= FAILS_MAX && cycle <= self.until
    }
}

impl Account {
    /// True if the item is skipped from now on.
    fn failed(&mut self, key: &str, cycle: u64) -> bool {
        let fails = self.keys.entry(key.to_owned()).or_default();
        if fails.is_paused(cycle) {
            return false;
        }
        let count = if fails.count >= FAILS_MAX { 1 } else { fails.count + 1 };
        *fails = Fails { count, until: cycle + PAUSE_CYCLES };
        count == FAILS_MAX
    }

    /// On every 50th cycle an account that has grown large keeps only the items that are skipped.
    fn sweep(&mut self, cycle: u64) {
        if cycle / SWEEP_CYCLES != self.swept / SWEEP_CYCLES && self.keys.len() > KEPT_MAX {
            self.keys.retain(|_, fails| fails.is_paused(cycle));
        }
        self.swept = cycle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sr_32_the_third_failure_in_a_row_is_skipped_for_ten_cycles_and_then_tried_afresh() {
        let mut account = Account::default();
        let skips = |account: &Account, cycle| account.keys.get("a").is_some_and(|fails| fails.is_paused(cycle));
        assert!(!account.failed("a", 7) && !account.failed("a", 8) && !skips(&account, 8));
        account.keys.remove("a");
        assert!(!account.failed("a", 9) && !account.failed("a", 10), "a success forgets");
        assert!(account.failed("a", 11) && !account.failed("a", 12), "logged once");
        assert!((11..=21).all(|cycle| skips(&account, cycle)) && !skips(&account, 22));
        assert!(!account.failed("a", 22) && !account.failed("a", 22) && account.failed("a", 22), "three fresh tries");
    }

    #[test]
    fn sc_71_sc_72_a_large_account_is_cleaned_up_on_every_50th_cycle_and_keeps_what_is_skipped() {
        let mut account = Account::default();
        let fail = |account: &mut Account, keys: usize, cycle: u64| {
            for key in 0..keys {
                account.failed(&format!("k{key}"), cycle);
            }
        };
        let kept = |account: &mut Account, cycle| {
            account.sweep(cycle);
            account.keys.len()
        };
        fail(&mut account, 500, 49);
        assert_eq!(kept(&mut account, 50), 500, "not above 500");
        fail(&mut account, 501, 51);
        assert_eq!(kept(&mut account, 99), 501, "not a 50th cycle");
        assert_eq!(kept(&mut account, 100), 0, "nothing is in back-off");
        fail(&mut account, 600, 148);
        (0..2).for_each(|_| fail(&mut account, 20, 148));
        assert_eq!(kept(&mut account, 150), 20, "back-off is kept");
    }
}
