//! Notices: what a worker process should know at once about its leases and about itself. They are hints from memory; no
//! rule depends on their arrival.
//!
//! A process that calls this node, or listens to it, has a mailbox here with the last notices, numbered. Every channel
//! reads from it: a stream (over SSE, or in the process) has a place of its own in the numbers, and the replies of claim,
//! heartbeat and renew share one place. So each notice comes with one reply and once down every stream; whoever reads
//! several channels knows one that came before by its number.

use crate::bell::{Bell, Listener};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use weft_core::limits::{NOTICES_KEPT, WORKER_TTL_MS_DEFAULT};
use weft_core::record::execution::EndCause;
use weft_core::text::Text;
use weft_core::{ExecutionId, Time};

/// Something a worker process should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The execution is cancelled: stop and discard.
    Cancelled { execution: ExecutionId, epoch: u64, reason: Text, by: Text },
    /// Finish, save a checkpoint or cancel within the time.
    CancelRequested { execution: ExecutionId, epoch: u64, reason: Text, kill_at: Option<Time> },
    /// The lease is gone: stop and discard.
    LeaseLost { execution: ExecutionId, epoch: u64, cause: EndCause },
    /// Take no more work; what is left at the deadline goes to others.
    Drain { reason: Text, deadline_at: Option<Time> },
    /// Take work again.
    Undrain,
    /// Another process has taken the name of this one: exit.
    Superseded,
    /// The node shuts down; leases are unaffected.
    NodeStopping,
}

impl Notice {
    /// The names of all kinds; a notice's kind is its place here.
    pub(crate) const KINDS: [&'static str; 7] =
        ["cancelled", "cancel_requested", "lease_lost", "node_stopping", "drain", "undrain", "superseded"];

    const fn kind(&self) -> usize {
        match self {
            Notice::Cancelled { .. } => 0,
            Notice::CancelRequested { .. } => 1,
            Notice::LeaseLost { .. } => 2,
            Notice::NodeStopping => 3,
            Notice::Drain { .. } => 4,
            Notice::Undrain => 5,
            Notice::Superseded => 6,
        }
    }
}

/// A notice and its number. Numbers of one process grow, and those of two nodes, or of a node before and after its
/// restart, do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    pub no: u64,
    pub notice: Notice,
}

/// What a reply brings along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub notices: Vec<Numbered>,
    /// Others were dropped before they could be told: a heartbeat with what the process holds tells what they said.
    pub missed: bool,
}

/// What a stream of notices brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Notice(Numbered),
    /// Some were dropped, or are another node's.
    Missed,
}

/// Mailboxes at a time. Who finds no room learns by the refusals of its calls.
const MAILBOXES_MAX: usize = 10_000;
/// Notices that are kept at a time in all mailboxes; beyond that each keeps its last one.
const KEPT_MAX: usize = 200_000;
/// How often mailboxes are looked for whose process has gone.
const SWEEP_MS: u64 = 10_000;
/// Numbers begin at the time of the mailbox, so many to the millisecond.
const NUMBERS_PER_MS: u64 = 1_000;

type Key = (Text, Text);

#[derive(Default)]
pub(crate) struct Mailboxes {
    state: Mutex<State>,
    kept: Arc<AtomicUsize>,
    sent: [AtomicU64; Notice::KINDS.len()],
}

#[derive(Default)]
struct State {
    boxes: BTreeMap<Key, Arc<Mailbox>>,
    swept_at: Time,
}

/// The notices of one worker process.
pub(crate) struct Mailbox {
    inside: Mutex<Inside>,
    /// Rung after each notice.
    rung: Bell,
    /// Notices that are kept in all mailboxes.
    all: Arc<AtomicUsize>,
}

struct Inside {
    last: u64,
    /// Without holes, up to `last`.
    kept: VecDeque<Numbered>,
    /// Up to here they came with a reply.
    given: u64,
    /// When the current session began, if there was one before, and the number at which it did.
    superseded: Option<(Time, u64)>,
    seen_at: Time,
    ttl_ms: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere leaves only hints behind, which are good at any moment.
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Mailboxes {
    /// True if there is nobody to tell.
    pub fn is_empty(&self) -> bool {
        locked(&self.state).boxes.is_empty()
    }

    /// The process called, or listens: its mailbox. With `ttl_ms` it says how long it may be silent.
    pub fn seen(&self, namespace: &Text, instance: &Text, now: Time, ttl_ms: Option<u64>) -> Arc<Mailbox> {
        let key = (namespace.clone(), instance.clone());
        let mut state = locked(&self.state);
        if let Some(found) = state.boxes.get(&key) {
            let mut inside = locked(&found.inside);
            inside.seen_at = now;
            inside.ttl_ms = ttl_ms.unwrap_or(inside.ttl_ms);
            drop(inside);
            return found.clone();
        }
        if now.since(state.swept_at) >= SWEEP_MS {
            state.swept_at = now;
            // One that somebody still reads is in use, however long its process has not called.
            state.boxes.retain(|_, mailbox| Arc::strong_count(mailbox) > 1 || !mailbox.is_left(now));
        }
        let fresh = Arc::new(Mailbox::new(now, ttl_ms.unwrap_or(WORKER_TTL_MS_DEFAULT), self.kept.clone()));
        if state.boxes.len() < MAILBOXES_MAX {
            state.boxes.insert(key, fresh.clone());
        }
        fresh
    }

    /// Tells a process, if it is known here.
    pub fn notify(&self, namespace: &Text, instance: &Text, notice: Notice) {
        let found = locked(&self.state).boxes.get(&(namespace.clone(), instance.clone())).cloned();
        if let Some(mailbox) = found {
            self.sent[notice.kind()].fetch_add(1, Ordering::Relaxed);
            mailbox.put(notice);
        }
    }

    pub fn notify_all(&self, notice: &Notice) {
        let all: Vec<Arc<Mailbox>> = locked(&self.state).boxes.values().cloned().collect();
        self.sent[notice.kind()].fetch_add(all.len() as u64, Ordering::Relaxed);
        for mailbox in all {
            mailbox.put(notice.clone());
        }
    }

    /// Another session of the process began at `since`: whoever listens from before is told, and hears nothing more. What
    /// was for the earlier one is dropped, so that the newer one is not told of it.
    pub fn supersede(&self, namespace: &Text, instance: &Text, since: Time) {
        let found = locked(&self.state).boxes.get(&(namespace.clone(), instance.clone())).cloned();
        if let Some(mailbox) = found {
            self.sent[Notice::Superseded.kind()].fetch_add(1, Ordering::Relaxed);
            mailbox.supersede(since);
        }
    }

    /// How many notices of each kind were for processes that are known here.
    pub fn sent(&self) -> [(&'static str, u64); Notice::KINDS.len()] {
        std::array::from_fn(|kind| (Notice::KINDS[kind], self.sent[kind].load(Ordering::Relaxed)))
    }
}

impl Mailbox {
    fn new(now: Time, ttl_ms: u64, all: Arc<AtomicUsize>) -> Self {
        let last = now.ms().saturating_mul(NUMBERS_PER_MS);
        let inside = Inside { last, kept: VecDeque::new(), given: last, superseded: None, seen_at: now, ttl_ms };
        Self { inside: Mutex::new(inside), rung: Bell::new(), all }
    }

    fn is_left(&self, now: Time) -> bool {
        let inside = locked(&self.inside);
        now.since(inside.seen_at) >= inside.ttl_ms
    }

    fn put(&self, notice: Notice) {
        let mut inside = locked(&self.inside);
        inside.last += 1;
        let no = inside.last;
        let is_full = inside.kept.len() >= NOTICES_KEPT || self.all.load(Ordering::Relaxed) >= KEPT_MAX;
        if !is_full || inside.kept.pop_front().is_none() {
            self.all.fetch_add(1, Ordering::Relaxed);
        }
        inside.kept.push_back(Numbered { no, notice });
        drop(inside);
        self.rung.ring();
    }

    fn supersede(&self, since: Time) {
        let mut inside = locked(&self.inside);
        inside.last += 1;
        inside.given = inside.last;
        inside.superseded = Some((since, inside.last));
        self.all.fetch_sub(inside.kept.len(), Ordering::Relaxed);
        inside.kept.clear();
        drop(inside);
        self.rung.ring();
    }

    /// What came with no reply yet. It has, now.
    pub fn take(&self) -> Told {
        let mut inside = locked(&self.inside);
        if inside.given == inside.last {
            return Told::default();
        }
        let missed = inside.is_gap_after(inside.given);
        let fresh = inside.kept.iter().filter(|kept| kept.no > inside.given).cloned().collect();
        inside.given = inside.last;
        Told { notices: fresh, missed }
    }

    /// True if there is something that came with no reply yet.
    pub fn has_news(&self) -> bool {
        let inside = locked(&self.inside);
        inside.last > inside.given
    }

    /// Resolves when there is something that came with no reply yet.
    pub async fn noticed(&self) {
        let mut rung = self.rung.listen();
        loop {
            if self.has_news() {
                return;
            }
            if !rung.rung().await {
                return std::future::pending().await;
            }
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.all.fetch_sub(locked(&self.inside).kept.len(), Ordering::Relaxed);
    }
}

impl Inside {
    /// Whether the notice after this number is there no more, or never was.
    fn is_gap_after(&self, no: u64) -> bool {
        let oldest = self.kept.front().map_or(self.last + 1, |kept| kept.no);
        oldest > no + 1
    }
}

/// The notices of one worker process as they come. Any number of them may be open.
pub struct Notices {
    mailbox: Arc<Mailbox>,
    rung: Listener,
    /// It has heard all up to this number.
    after: u64,
    since: Time,
    missed: bool,
    ended: bool,
}

impl Notices {
    /// From now on, or after the number that was heard last.
    pub(crate) fn open(mailbox: Arc<Mailbox>, after: Option<u64>, now: Time) -> Self {
        let last = locked(&mailbox.inside).last;
        // A number that was not given yet is another node's, or of before a restart.
        let missed = after.is_some_and(|after| after > last);
        let rung = mailbox.rung.listen();
        Self { mailbox, rung, after: after.unwrap_or(last).min(last), since: now, missed, ended: false }
    }

    /// What comes next; none after another session has begun. Nothing is lost if it is dropped while it waits.
    pub async fn next(&mut self) -> Option<Heard> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(heard) = self.ready() {
                return Some(heard);
            }
            if !self.rung.rung().await {
                return None;
            }
        }
    }

    /// The same, for who does not mind a gap.
    pub async fn recv(&mut self) -> Option<Notice> {
        loop {
            if let Heard::Notice(numbered) = self.next().await? {
                return Some(numbered.notice);
            }
        }
    }

    fn ready(&mut self) -> Option<Heard> {
        self.rung.forget();
        let inside = locked(&self.mailbox.inside);
        if let Some((at, no)) = inside.superseded {
            if self.since < at {
                self.ended = true;
                return Some(Heard::Notice(Numbered { no, notice: Notice::Superseded }));
            }
            // What came before was for another process.
            self.after = self.after.max(no);
        }
        if self.missed || inside.is_gap_after(self.after) {
            self.missed = false;
            self.after = self.after.max(inside.kept.front().map_or(inside.last, |kept| kept.no - 1));
            return Some(Heard::Missed);
        }
        let next = inside.kept.iter().find(|kept| kept.no > self.after)?.clone();
        self.after = next.no;
        Some(Heard::Notice(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn mailbox(boxes: &Mailboxes, now: u64) -> Arc<Mailbox> {
        boxes.seen(&"shop".into(), &"w1".into(), Time::from_ms(now), None)
    }

    fn tell(boxes: &Mailboxes, reason: &str) {
        let notice = Notice::Drain { reason: reason.into(), deadline_at: None };
        boxes.notify(&"shop".into(), &"w1".into(), notice);
    }

    /// What the stream has now, in words.
    fn heard(stream: &mut Notices) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(Some(heard)) = stream.next().now_or_never() {
            all.push(match heard {
                Heard::Missed => "missed".to_string(),
                Heard::Notice(Numbered { notice: Notice::Drain { reason, .. }, .. }) => reason.to_string(),
                Heard::Notice(other) => format!("{:?}", other.notice),
            });
        }
        all
    }

    #[test]
    fn sd_59_numbers_grow_and_each_notice_comes_with_one_reply_and_down_every_stream() {
        let boxes = Mailboxes::default();
        let at = mailbox(&boxes, 5);
        let mut stream = Notices::open(at.clone(), None, Time::from_ms(5));
        tell(&boxes, "one");
        tell(&boxes, "two");
        let told = at.take();
        assert_eq!(told.notices.iter().map(|it| it.no).collect::<Vec<_>>(), [5_001, 5_002]);
        assert_eq!((told.missed, at.take()), (false, Told::default()));
        assert_eq!(heard(&mut stream), ["one", "two"]);
        let mut resumed = Notices::open(at.clone(), Some(5_001), Time::from_ms(9));
        assert_eq!(heard(&mut resumed), ["two"]);
        tell(&boxes, "three");
        assert_eq!(heard(&mut resumed), ["three"]);
        assert!(at.noticed().now_or_never().is_some() && at.take().notices.len() == 1);
        assert!(at.noticed().now_or_never().is_none());
    }

    #[test]
    fn sd_59_a_gap_is_told() {
        let boxes = Mailboxes::default();
        let at = mailbox(&boxes, 5);
        let mut stream = Notices::open(at.clone(), None, Time::from_ms(5));
        for no in 0..NOTICES_KEPT + 2 {
            tell(&boxes, &no.to_string());
        }
        let told = at.take();
        assert_eq!((told.missed, told.notices.len()), (true, NOTICES_KEPT));
        let all = heard(&mut stream);
        assert_eq!((all.len(), &*all[0], &*all[1]), (NOTICES_KEPT + 1, "missed", "2"));
        for other in [4, 9_999_999] {
            let mut stream = Notices::open(at.clone(), Some(other), Time::from_ms(9));
            assert_eq!(heard(&mut stream)[0], "missed", "{other} is the number of another node");
        }
    }

    #[test]
    fn sd_59_the_mailbox_of_a_process_that_is_not_seen_goes() {
        let boxes = Mailboxes::default();
        drop(mailbox(&boxes, 0));
        tell(&boxes, "one");
        let other = |now| drop(boxes.seen(&"shop".into(), &format!("other-{now}").into(), Time::from_ms(now), None));
        other(WORKER_TTL_MS_DEFAULT - 1);
        assert_eq!(locked(&boxes.state).boxes.len(), 2);
        assert_eq!(boxes.kept.load(Ordering::Relaxed), 1);
        other(WORKER_TTL_MS_DEFAULT + SWEEP_MS);
        assert_eq!(locked(&boxes.state).boxes.len(), 2, "the first is gone");
        assert_eq!(boxes.kept.load(Ordering::Relaxed), 0);
        tell(&boxes, "two");
        assert_eq!(mailbox(&boxes, WORKER_TTL_MS_DEFAULT + SWEEP_MS).take(), Told::default());
    }

    #[test]
    fn sd_57_another_session_hears_nothing_that_was_for_the_one_before() {
        let boxes = Mailboxes::default();
        let at = mailbox(&boxes, 5);
        let mut old = Notices::open(at.clone(), None, Time::from_ms(5));
        tell(&boxes, "old");
        boxes.supersede(&"shop".into(), &"w1".into(), Time::from_ms(8));
        assert_eq!(heard(&mut old), ["Superseded"]);
        assert_eq!(old.next().now_or_never(), Some(None));
        let mut new = Notices::open(at.clone(), Some(5_000), Time::from_ms(8));
        tell(&boxes, "new");
        assert_eq!(heard(&mut new), ["new"]);
        assert_eq!(at.take().notices.len(), 1);
    }
}
