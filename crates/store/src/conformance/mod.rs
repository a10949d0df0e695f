//! The suite that proves a store, in three lines per adapter.
//!
//! ```
//! # use weft_store::{MemoryStore, conformance};
//! # async fn proof() {
//! # let open = |partitions| MemoryStore::new(partitions, std::sync::Arc::new(|| weft_core::Time::ZERO));
//! conformance::all(|partitions| async move { open(partitions) }).await;
//! # }
//! ```
//!
//! Each case gets a store of its own, speaks to it through the verbs only and panics with a sentence that says what the
//! store did wrong. Nothing here knows what a record means: bodies are made by hand.

mod commits;
mod due;
mod indexes;
mod pages;
mod probe;
mod races;
mod records;
mod resolves;
mod sizes;

use crate::{Entry, Place, Range, Scan, Store, Target};
use probe::Probe;
use std::future::Future;
use weft_core::PartitionId;
use weft_core::schema::{IndexId, Kind, PartMask};

macro_rules! run_each {
    ($make:ident, $($module:ident: $($case:ident),+;)+) => {
        $($($module::$case(&Probe::new($make(PARTITIONS).await)).await;)+)+
    };
}

/// How many partitions the store of each case has.
pub const PARTITIONS: u16 = 3;

/// Runs every case. `make` opens a fresh, empty store with that many partitions.
pub async fn all<S, F, Opening>(make: F)
where
    S: Store,
    F: Fn(u16) -> Opening,
    Opening: Future<Output = S>,
{
    run_each!(make,
        records: what_is_absent_reads_as_none, only_the_parts_asked_for_are_read, parts_change_one_by_one,
            every_part_of_every_kind_is_kept, an_empty_part_is_not_an_absent_one, a_deleted_record_leaves_nothing_behind, kinds_do_not_mix,
            partitions_do_not_mix, every_byte_survives;
        indexes: every_index_follows_its_facets, an_entry_exists_if_its_facet_is_not_null,
            integers_are_in_order_of_value, text_is_in_order_of_bytes, bytes_are_in_order_of_bytes;
        pages: pages_neither_skip_nor_repeat, pages_end_where_they_should, a_prefix_is_whole_columns,
            ranges_of_one_call_are_independent, parts_come_with_a_scan_if_asked_for, records_are_listed_by_key,
            all_partitions_are_merged;
        due: timers_are_added_moved_and_removed, timers_are_found_by_kind_and_time, drops_need_no_record,
            a_timer_dropped_and_armed_in_one_commit_stays;
        commits: each_commit_moves_the_head_by_one, a_changed_record_is_a_conflict, only_the_differing_keys_are_named,
            a_record_that_should_be_absent_is_a_conflict, a_record_that_was_only_read_is_checked,
            the_fast_path_needs_the_position, a_strict_commit_needs_the_position, time_does_not_go_back,
            what_the_store_does_not_have_is_lost, a_raise_takes_the_position_it_names,
            a_refused_commit_leaves_no_trace, every_commit_is_in_the_feed;
        resolves: an_applied_commit_is_found, an_unknown_commit_is_barred, a_commit_id_is_applied_once,
            partitions_resolve_on_their_own;
        sizes: a_large_part_survives, a_thousand_records_fit, the_largest_commit_fits,
            a_larger_commit_is_refused;
        races: no_increment_is_lost, the_clock_does_not_go_back, the_description_makes_sense;
    );
}

/// Everything that the verbs show of a partition: records with all parts, index entries, timers, the feed.
pub async fn dump<S: Store>(store: &S, partition: PartitionId) -> Vec<(Target, Entry)> {
    let records = Kind::ALL.into_iter().map(Target::Records);
    let indexes = IndexId::ALL.into_iter().map(Target::Index);
    let mut all = Vec::new();
    for target in records.chain(indexes).chain([Target::Due, Target::Feed]) {
        let entries = walk(store, Some(partition), target, Range::default(), 100, false).await;
        all.extend(entries.into_iter().map(|entry| (target, entry)));
    }
    all
}

/// All entries of a range, page by page.
pub(crate) async fn walk<S: Store>(
    store: &S,
    partition: Option<PartitionId>,
    target: Target,
    mut range: Range,
    limit: usize,
    descending: bool,
) -> Vec<Entry> {
    let parts = (target != Target::Due).then_some(PartMask::ALL);
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let scan = Scan { target, ranges: vec![range.clone()], limit, descending, parts };
        let mut pages = store.scan(partition, scan).await.expect("a scan of a sound store succeeds");
        assert_eq!(pages.len(), 1, "a scan answers with one page per range");
        let page = pages.remove(0);
        assert!(!page.more || !page.entries.is_empty(), "a page that has more holds an entry to go on from");
        // Without this a store that does not move on would be asked for ever.
        let beyond = |place: &Place, after: &Place| if descending { place < after } else { place > after };
        let moves_on = page.entries.iter().all(|entry| range.after.iter().all(|after| beyond(&entry.place, after)));
        assert!(moves_on, "a page of {target:?} begins strictly beyond {:?}", range.after);
        all.extend(page.entries);
        match (page.more, all.last()) {
            (true, Some(last)) => range.after = Some(last.place.clone()),
            _ => return all,
        }
    }
}
