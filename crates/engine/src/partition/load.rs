//! What commands miss: asking the store for it, and going on when it is there. Whoever waits for something that cannot be
//! read is told.

use super::{Effect, Item, Partition, ScanTag, Scanned, base};
use weft_core::error::Rejection;
use weft_core::record::Key;
use weft_core::schema::PartMask;
use weft_core::tx::{LIST_SCAN_MAX, Miss};
use weft_store::{Error, Page, Read, Scan};

impl Partition {
    /// Sets an item aside until what it misses has been loaded.
    pub(super) fn stall(&mut self, item: Item, misses: Vec<Miss>) {
        self.stalled_jobs.insert(item.job);
        self.stalled.push(item);
        self.want(misses);
    }

    pub(super) fn want(&mut self, misses: Vec<Miss>) {
        for miss in misses {
            match miss {
                Miss::Record(key, parts) => {
                    let wanted = self.wanted.entry(key).or_default();
                    *wanted = wanted.with(parts).with(key.kind().table().light);
                }
                Miss::List(list, after) => {
                    self.wanted_lists.insert((list, after));
                }
            }
        }
    }

    /// Asks for all misses of all commands in one call.
    pub(super) fn load_wanted(&mut self) {
        let mut keys = Vec::new();
        for (key, parts) in std::mem::take(&mut self.wanted) {
            // Written by the commit that is on its way: what the store shows now may be older. Asked for again after it.
            if self.flying.as_ref().is_some_and(|flying| flying.has(&key)) {
                continue;
            }
            let asked = self.loading.entry(key).or_default();
            if parts.without(*asked).is_empty() && !parts.is_empty() {
                continue;
            }
            *asked = asked.with(parts);
            keys.push((key, *asked));
        }
        if !keys.is_empty() {
            self.effects.push(Effect::Load { keys, stamp: self.foreign, turn: self.turn });
        }
        for (list, after) in std::mem::take(&mut self.wanted_lists) {
            if self.lists.begin((list, after), self.turn) {
                let scan = base::list_scan(list, after);
                self.push_scan(ScanTag::List(list, after), scan);
            }
        }
    }

    pub(super) fn push_scan(&mut self, tag: ScanTag, scan: Scan) {
        self.effects.push(Effect::Scan { tag, scan, stamp: self.foreign, turn: self.turn });
    }

    pub(super) fn loaded(&mut self, keys: Vec<(Key, PartMask)>, stamp: u64, turn: u64, read: Result<Read, Error>) {
        for (key, parts) in &keys {
            if self.loading.get(key) == Some(parts) {
                self.loading.remove(key);
            }
        }
        match read {
            Ok(read) => {
                self.head.now = self.head.now.max(read.head.now);
                let ours = self.flying.as_ref().is_some_and(|flying| flying.id() == read.head.last);
                if read.head.position > self.head.position && !ours {
                    // What was read may be newer than what commits are built on: it needs a check of its own, or a store
                    // that lost the newer part would be taken for one that stands where this node saw it.
                    self.foreign += 1;
                }
                for ((key, parts), found) in keys.iter().zip(read.found) {
                    self.absorb(*key, *parts, found, stamp, turn);
                }
            }
            Err(error) => {
                if let Some(times) = self.complaints.voice(self.node.runtime.clock()) {
                    tracing::warn!(partition = %self.id, %error, times, "could not load records");
                }
                self.refuse_stalled();
            }
        }
        self.unstall();
    }

    /// Takes what the store returned, unless this node has written something newer meanwhile.
    fn absorb(&mut self, key: Key, parts: PartMask, found: Option<weft_store::Found>, stamp: u64, turn: u64) {
        let ours = self.flying.as_ref().is_some_and(|flying| flying.has(&key));
        if !ours {
            self.cache.absorb(key, parts, found, stamp, turn);
        }
    }

    /// Puts items that wait for records back to the queue.
    pub(super) fn put_stalled_back(&mut self) {
        self.stalled_jobs.clear();
        for item in std::mem::take(&mut self.stalled).into_iter().rev() {
            self.put_back(item);
        }
    }

    pub(super) fn unstall(&mut self) {
        self.put_stalled_back();
        self.claims.retry_all();
        self.resume_claims();
    }

    /// The store cannot be read: callers are told, nothing has changed.
    fn refuse_stalled(&mut self) {
        for item in std::mem::take(&mut self.stalled) {
            let refusal = Rejection::Unavailable { retry_after_ms: 500, outcome_unknown: false };
            self.answer(&item, Err(refusal));
        }
        self.refuse_loading_claims();
    }

    pub(super) fn scanned(&mut self, scanned: Scanned) {
        let Scanned { tag, parts, stamp, turn, pages } = scanned;
        let page = match pages.map(|mut pages| pages.pop()) {
            Ok(Some(page)) => page,
            Ok(None) => Page::default(),
            Err(error) => {
                if let Some(times) = self.complaints.voice(self.node.runtime.clock()) {
                    tracing::warn!(partition = %self.id, %error, times, "could not scan");
                }
                self.refuse_stalled();
                self.scan_failed(tag, turn);
                return;
            }
        };
        for entry in &page.entries {
            self.meet(entry, parts, stamp, turn);
        }
        match tag {
            // A list that was cut short would leave some out.
            ScanTag::List(list, after) if page.more && page.entries.len() <= LIST_SCAN_MAX => {
                self.lists.end(&(list, after), turn);
                self.wanted_lists.insert((list, after));
            }
            ScanTag::List(list, after) => {
                let ids = page.entries.iter().filter_map(|entry| match entry.key() {
                    Some(Key::Execution(id) | Key::Tombstone(id)) => Some(id),
                    _ => None,
                });
                self.lists.found((list, after), turn, ids);
                self.unstall();
            }
            ScanTag::Discover(lane) => {
                let more = self.ready.discovered(&lane, page, turn, self.turn);
                self.claims.lane_changed(&lane);
                if let Some(scan) = more {
                    self.push_scan(ScanTag::Discover(lane), scan);
                }
            }
            ScanTag::Refill(queue) => {
                self.ready.refilled(&queue, page, turn, &self.cache);
                self.claims.lane_changed(&queue.lane);
            }
            ScanTag::ByClaim(reference) if page.more => self.look_up_claim(reference),
            ScanTag::ByClaim(reference) => self.found_by_claim(reference, page),
            ScanTag::Kept => self.found_kept(&page),
            ScanTag::Named => self.found_named(&page),
            ScanTag::Own(id) => self.found_own(id, &page.entries),
        }
    }

    /// Takes what a scan shows about a record, unless this node is changing it. A cached record that disagrees with its
    /// index entry is not believed: another node may have changed it.
    fn meet(&mut self, entry: &weft_store::Entry, parts: Option<PartMask>, stamp: u64, turn: u64) {
        let Some(key) = entry.key() else { return };
        if self.open.overlay.get(&key).is_some() {
            return;
        }
        match (&entry.found, parts) {
            (Some(found), Some(parts)) => {
                // A scan does not tell the head it was made at. What others have written may be newer than what commits
                // are built on, and needs a check.
                let known = self.node.description.exclusive || self.loss.knows(found.revision);
                let stamp = if known { stamp } else { 0 };
                self.absorb(key, parts, Some(found.clone()), stamp, turn);
            }
            _ if !self.node.description.exclusive && self.cache.is_older(&key, turn) => self.cache.remove(&key),
            _ => {}
        }
    }

    fn scan_failed(&mut self, tag: ScanTag, turn: u64) {
        match tag {
            ScanTag::Discover(lane) => self.ready.stir(&lane),
            ScanTag::Refill(queue) => self.ready.refill_failed(&queue),
            ScanTag::List(list, after) => self.lists.end(&(list, after), turn),
            ScanTag::ByClaim(reference) => self.claim_lookup_failed(reference),
            ScanTag::Kept | ScanTag::Named => self.kept_not_found(),
            ScanTag::Own(_) => {}
        }
        self.unstall();
    }
}
