//! One thread, virtual time. Tasks run in the order they were woken, timers fire in the order of (time, number), so
//! the same tasks always meet in the same order.
//!
//! Never reads a real clock and never runs two things at once. The locks are there because wakers must be `Send`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tasks that live and die together: one life of a node, or the world around the nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Group(pub u32);

/// Polls without any progress of time after which the tasks are said to chase each other.
const POLLS_AT_ONE_INSTANT_MAX: u64 = 400_000;

/// The world: its clock, its tasks and its timers. Clones are the same world.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    now_ms: AtomicU64,
    state: Mutex<State>,
    ready: Arc<Mutex<VecDeque<u64>>>,
}

#[derive(Default)]
struct State {
    tasks: BTreeMap<u64, Slot>,
    tasks_made: u64,
    timers: BinaryHeap<Reverse<Timer>>,
    timers_made: u64,
    /// Groups that stand still, each with the tasks that were woken meanwhile.
    paused: BTreeMap<Group, Vec<u64>>,
    panics: Vec<String>,
    polls: u64,
}

struct Slot {
    group: Group,
    /// Absent while it is being polled.
    future: Option<Task>,
    alarm: Arc<Alarm>,
}

/// Wakes one task: puts its number into the queue, once.
struct Alarm {
    task: u64,
    queued: AtomicBool,
    ready: Arc<Mutex<VecDeque<u64>>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            lock(&self.ready).push_back(self.task);
        }
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at_ms: u64,
    number: u64,
    bell: Bell,
}

/// What a timer rings; the order of timers never depends on it, because numbers are unique.
struct Bell(Arc<Ring>);

impl PartialEq for Bell {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Bell {}
impl PartialOrd for Bell {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Bell {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

#[derive(Default)]
struct Ring {
    rung: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// Tasks wake each other for ever while time stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chase {
    pub at_ms: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub fn new(start_ms: u64) -> Self {
        Self(Arc::new(Inner {
            now_ms: AtomicU64::new(start_ms),
            state: Mutex::new(State::default()),
            ready: Arc::new(Mutex::new(VecDeque::new())),
        }))
    }

    pub fn now_ms(&self) -> u64 {
        self.0.now_ms.load(Ordering::Relaxed)
    }

    pub fn polls(&self) -> u64 {
        lock(&self.0.state).polls
    }

    /// Ends `ms` after this call, whenever it is polled first. Even a sleep of 0 lets others run.
    pub fn sleep(&self, ms: u64) -> Sleep {
        Sleep { world: self.clone(), at_ms: self.now_ms().saturating_add(ms), ring: None }
    }

    pub fn spawn(&self, group: Group, future: Task) {
        let mut state = lock(&self.0.state);
        let task = state.tasks_made;
        state.tasks_made += 1;
        let alarm = Arc::new(Alarm { task, queued: AtomicBool::new(false), ready: self.0.ready.clone() });
        alarm.wake_by_ref();
        state.tasks.insert(task, Slot { group, future: Some(future), alarm });
    }

    /// Drops every task of the group where it stands: the crash of a node, at whatever it was waiting for.
    pub fn kill(&self, group: Group) {
        self.drop_tasks(|slot| slot.group == group);
        lock(&self.0.state).paused.remove(&group);
    }

    /// Drops every task there is. Tasks hold the world, so without this a world would never be freed.
    pub fn clear(&self) {
        self.drop_tasks(|_| true);
        lock(&self.0.state).timers.clear();
    }

    fn drop_tasks(&self, chosen: impl Fn(&Slot) -> bool) {
        let dropped: Vec<Slot> = {
            let mut state = lock(&self.0.state);
            let numbers: Vec<u64> =
                state.tasks.iter().filter(|(_, slot)| chosen(slot)).map(|(number, _)| *number).collect();
            numbers.iter().filter_map(|number| state.tasks.remove(number)).collect()
        };
        // Outside the lock: what a future holds may wake others when it goes.
        drop(dropped);
    }

    /// The group's tasks are not polled until `resume`; what wakes them meanwhile is kept.
    pub fn pause(&self, group: Group) {
        lock(&self.0.state).paused.entry(group).or_default();
    }

    pub fn resume(&self, group: Group) {
        if let Some(woken) = lock(&self.0.state).paused.remove(&group) {
            lock(&self.0.ready).extend(woken);
        }
    }

    /// The messages of panics since the last call. A task that panicked is gone, the others go on.
    pub fn take_panics(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.0.state).panics)
    }

    /// Runs everything that happens up to `until_ms`, that moment included.
    pub fn run_until(&self, until_ms: u64) -> Result<(), Chase> {
        let mut polls_at_instant = 0;
        loop {
            loop {
                // The guard must not live into the poll, which wakes other tasks.
                let next = lock(&self.0.ready).pop_front();
                let Some(task) = next else { break };
                polls_at_instant += 1;
                if polls_at_instant > POLLS_AT_ONE_INSTANT_MAX {
                    return Err(Chase { at_ms: self.now_ms() });
                }
                self.poll(task);
            }
            let timer = {
                let mut state = lock(&self.0.state);
                match state.timers.peek() {
                    Some(Reverse(timer)) if timer.at_ms <= until_ms => state.timers.pop().map(|Reverse(timer)| timer),
                    _ => None,
                }
            };
            let Some(timer) = timer else {
                self.0.now_ms.store(until_ms.max(self.now_ms()), Ordering::Relaxed);
                return Ok(());
            };
            if timer.at_ms > self.now_ms() {
                self.0.now_ms.store(timer.at_ms, Ordering::Relaxed);
                polls_at_instant = 0;
            }
            timer.bell.0.rung.store(true, Ordering::Relaxed);
            if let Some(waker) = lock(&timer.bell.0.waker).take() {
                waker.wake();
            }
        }
    }

    fn poll(&self, task: u64) {
        let taken = {
            let mut state = lock(&self.0.state);
            state.polls += 1;
            let State { tasks, paused, .. } = &mut *state;
            let Some(slot) = tasks.get_mut(&task) else { return };
            if let Some(woken) = paused.get_mut(&slot.group) {
                woken.push(task);
                return;
            }
            slot.alarm.queued.store(false, Ordering::Relaxed);
            slot.future.take().map(|future| (future, slot.alarm.clone()))
        };
        let Some((mut future, alarm)) = taken else { return };
        let waker = Waker::from(alarm);
        let mut context = Context::from_waker(&waker);
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        let mut state = lock(&self.0.state);
        let finished = match polled {
            Ok(Poll::Pending) => false,
            Ok(Poll::Ready(())) => true,
            Err(panic) => {
                state.panics.push(panic_text(&*panic));
                true
            }
        };
        if finished {
            state.tasks.remove(&task);
        } else if let Some(slot) = state.tasks.get_mut(&task) {
            slot.future = Some(future);
            return;
        }
        drop(state);
        drop(future);
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without words".to_owned(),
    }
}

/// See `World::sleep`.
pub struct Sleep {
    world: World,
    at_ms: u64,
    ring: Option<Arc<Ring>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let ring = match &self.ring {
            Some(ring) => ring,
            None => {
                let ring = Arc::new(Ring::default());
                let mut state = lock(&self.world.0.state);
                let number = state.timers_made;
                state.timers_made += 1;
                state.timers.push(Reverse(Timer { at_ms: self.at_ms, number, bell: Bell(ring.clone()) }));
                drop(state);
                self.ring.insert(ring)
            }
        };
        if ring.rung.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        *lock(&ring.waker) = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Waits for `future`, at most until `limit` ends; `None` if that came first, and the future is dropped.
pub async fn within<T>(limit: Sleep, future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    let mut limit = Box::pin(limit);
    std::future::poll_fn(move |context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        limit.as_mut().poll(context).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    type Log = Arc<Mutex<Vec<String>>>;

    fn note(log: &Log, world: &World, what: &str) {
        lock(log).push(format!("{} {what}", world.now_ms()));
    }

    fn ticker(world: &World, log: &Log, name: &'static str, every_ms: u64, times: u32) -> Task {
        let (world, log) = (world.clone(), log.clone());
        Box::pin(async move {
            for _ in 0..times {
                world.sleep(every_ms).await;
                note(&log, &world, name);
            }
        })
    }

    #[test]
    fn ri_18_timers_fire_in_order_of_time_then_number() {
        let (world, log) = (World::new(0), Log::default());
        world.spawn(Group(0), ticker(&world, &log, "a", 10, 3));
        world.spawn(Group(0), ticker(&world, &log, "b", 15, 2));
        assert_eq!(world.run_until(100), Ok(()));
        // Both are due at 30: `b` armed its timer at 15, `a` armed its own at 20.
        assert_eq!(*lock(&log), ["10 a", "15 b", "20 a", "30 b", "30 a"]);
        assert_eq!(world.now_ms(), 100);
    }

    #[test]
    fn a_killed_group_stops_where_it_stands() {
        let (world, log) = (World::new(0), Log::default());
        world.spawn(Group(1), ticker(&world, &log, "node", 10, 100));
        world.spawn(Group(2), ticker(&world, &log, "other", 10, 3));
        assert_eq!(world.run_until(15), Ok(()));
        world.kill(Group(1));
        assert_eq!(world.run_until(100), Ok(()));
        assert_eq!(*lock(&log), ["10 node", "10 other", "20 other", "30 other"]);
    }

    #[test]
    fn a_paused_group_catches_up_when_it_returns() {
        let (world, log) = (World::new(0), Log::default());
        world.spawn(Group(1), ticker(&world, &log, "zombie", 10, 2));
        world.pause(Group(1));
        assert_eq!(world.run_until(50), Ok(()));
        assert!(lock(&log).is_empty());
        world.resume(Group(1));
        assert_eq!(world.run_until(100), Ok(()));
        assert_eq!(*lock(&log), ["60 zombie", "70 zombie"]);
    }

    #[test]
    fn a_panic_ends_its_task_only() {
        let (world, log) = (World::new(0), Log::default());
        world.spawn(Group(1), Box::pin(async { panic!("on purpose") }));
        world.spawn(Group(1), ticker(&world, &log, "other", 1, 1));
        assert_eq!(world.run_until(5), Ok(()));
        assert_eq!(world.take_panics(), ["on purpose"]);
        assert_eq!(*lock(&log), ["1 other"]);
    }

    #[test]
    fn a_chase_is_told_apart_from_work() {
        let world = World::new(7);
        world.spawn(
            Group(0),
            Box::pin(std::future::poll_fn(|context: &mut Context<'_>| {
                context.waker().wake_by_ref();
                Poll::Pending
            })),
        );
        assert_eq!(world.run_until(10), Err(Chase { at_ms: 7 }));
        world.clear();
    }

    #[test]
    fn within_gives_up_in_time() {
        let (world, log) = (World::new(0), Log::default());
        let (inner, notes) = (world.clone(), log.clone());
        world.spawn(
            Group(0),
            Box::pin(async move {
                let slow = within(inner.sleep(5), inner.sleep(50)).await;
                note(&notes, &inner, if slow.is_none() { "gave up" } else { "got it" });
                let quick = within(inner.sleep(50), inner.sleep(5)).await;
                note(&notes, &inner, if quick.is_none() { "gave up" } else { "got it" });
            }),
        );
        assert_eq!(world.run_until(100), Ok(()));
        assert_eq!(*lock(&log), ["5 gave up", "10 got it"]);
    }
}
