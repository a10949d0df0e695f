//! Joins the pages of several partitions into one, in the order of (columns, key, partition).
//!
//! Every store uses it for a scan without a partition. It only reorders and cuts what it is given; it never asks for
//! more.

use crate::{Entry, Page, Place};
use std::cmp::Ordering;

/// Merges page by page: the first pages of all partitions, then the second ones, and so on.
///
/// `partitions` holds what each partition answered to the same scan: one page per range.
pub fn merge_all(partitions: Vec<Vec<Page>>, limit: usize, descending: bool) -> Vec<Page> {
    let ranges = partitions.first().map_or(0, Vec::len);
    let mut columns: Vec<Vec<Page>> = (0..ranges).map(|_| Vec::with_capacity(partitions.len())).collect();
    for pages in partitions {
        for (column, page) in columns.iter_mut().zip(pages) {
            column.push(page);
        }
    }
    columns.into_iter().map(|pages| merge(pages, limit, descending)).collect()
}

/// One page out of the pages of several partitions, each in order and cut anywhere.
///
/// A page never ends between entries of the same place, because `after` could not tell them apart: it is cut before
/// them, and only if all of it is one place does it hold more than `limit`.
pub fn merge(pages: Vec<Page>, limit: usize, descending: bool) -> Page {
    let cut_short = pages.iter().any(|page| page.more);
    if pages.iter().any(|page| page.more && page.entries.is_empty()) {
        // Nothing is known about where that partition goes on, so no entry can be shown to be the next one.
        return Page { entries: Vec::new(), more: true };
    }
    let horizon = horizon(&pages, descending);
    let mut entries: Vec<Entry> = pages.into_iter().flat_map(|page| page.entries).collect();
    entries.sort_by(|a, b| directed(descending, (&a.place, a.partition).cmp(&(&b.place, b.partition))));

    let total = entries.len();
    if let Some(horizon) = horizon {
        let known = entries.partition_point(|entry| directed(descending, entry.place.cmp(&horizon)).is_le());
        entries.truncate(known);
    }
    let cut = cut_between_places(&entries, limit, |entry| &entry.place);
    entries.truncate(cut);
    Page { more: cut_short || entries.len() < total, entries }
}

/// The place beyond which some partition may have entries that are not here.
fn horizon(pages: &[Page], descending: bool) -> Option<Place> {
    pages
        .iter()
        .filter(|page| page.more)
        .filter_map(|page| page.entries.last())
        .map(|entry| &entry.place)
        .min_by(|a, b| directed(descending, a.cmp(b)))
        .cloned()
}

/// How many of the sorted entries to keep.
pub(crate) fn cut_between_places<T>(entries: &[T], limit: usize, place: impl Fn(&T) -> &Place) -> usize {
    if limit == 0 || entries.len() <= limit {
        return entries.len().min(limit);
    }
    let last = place(&entries[limit - 1]);
    if last != place(&entries[limit]) {
        return limit;
    }
    let first_of_place = entries.iter().position(|entry| place(entry) == last).unwrap_or(0);
    let beyond_place = limit + entries[limit..].iter().take_while(|entry| place(entry) == last).count();
    if first_of_place > 0 { first_of_place } else { beyond_place }
}

pub(crate) fn directed(descending: bool, ordering: Ordering) -> Ordering {
    if descending { ordering.reverse() } else { ordering }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use weft_core::PartitionId;
    use weft_core::schema::Value;

    fn page(partition: u16, places: &[i64], more: bool) -> Page {
        let entry = |at: &i64| Entry {
            partition: PartitionId(partition),
            kind: 1,
            place: Place { columns: vec![Value::Int(*at)], key: Bytes::new() },
            found: None,
        };
        Page { entries: places.iter().map(entry).collect(), more }
    }

    /// The merged page as (column, partition).
    fn merged(pages: Vec<Page>, limit: usize, descending: bool) -> (Vec<(i64, u16)>, bool) {
        let page = merge(pages, limit, descending);
        let entries = page.entries.iter().map(|entry| match entry.place.columns[0] {
            Value::Int(at) => (at, entry.partition.0),
            _ => panic!("merge: only integers went in"),
        });
        (entries.collect(), page.more)
    }

    #[test]
    fn entries_come_in_order_of_place_then_partition() {
        let pages = || vec![page(1, &[1, 4], false), page(0, &[1, 2, 9], false)];
        assert_eq!(merged(pages(), 9, false), (vec![(1, 0), (1, 1), (2, 0), (4, 1), (9, 0)], false));
        let backwards = || vec![page(1, &[4, 1], false), page(0, &[9, 2, 1], false)];
        assert_eq!(merged(backwards(), 9, true), (vec![(9, 0), (4, 1), (2, 0), (1, 1), (1, 0)], false));
        assert_eq!(merged(pages(), 4, false), (vec![(1, 0), (1, 1), (2, 0), (4, 1)], true));
    }

    #[test]
    fn nothing_is_taken_from_beyond_the_end_of_a_cut_page() {
        let pages = vec![page(0, &[1, 2], true), page(1, &[3, 4], false)];
        assert_eq!(merged(pages, 10, false), (vec![(1, 0), (2, 0)], true));
        let pages = vec![page(0, &[9, 8], true), page(1, &[7], false)];
        assert_eq!(merged(pages, 10, true), (vec![(9, 0), (8, 0)], true));
        assert_eq!(merged(vec![page(0, &[], true), page(1, &[3], false)], 10, false), (vec![], true));
    }

    #[test]
    fn a_page_never_ends_between_entries_of_one_place() {
        let pages = || vec![page(0, &[1, 5], false), page(1, &[5], false), page(2, &[5, 6], false)];
        assert_eq!(merged(pages(), 2, false), (vec![(1, 0)], true));
        assert_eq!(merged(pages(), 4, false), (vec![(1, 0), (5, 0), (5, 1), (5, 2)], true));
        let same = || vec![page(0, &[5], false), page(1, &[5], false)];
        assert_eq!(merged(same(), 1, false), (vec![(5, 0), (5, 1)], false));
    }

    #[test]
    fn a_limit_of_nothing_still_tells_whether_there_is_something() {
        assert_eq!(merged(vec![page(0, &[1], false)], 0, false), (vec![], true));
        assert_eq!(merged(vec![page(0, &[], false)], 0, false), (vec![], false));
        assert!(merge_all(Vec::new(), 5, false).is_empty());
    }
}
