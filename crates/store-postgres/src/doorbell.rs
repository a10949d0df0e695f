//! The doorbell of a node: tells other nodes after commits, and hears theirs, on a connection of its own.
//!
//! A notification inside a commit would take a lock of the whole server, so commits only leave a note here. The first
//! urgent note rings at once; after that the bell rings at most 20 times a second. Nothing depends on it: if the
//! connection is gone, notes are lost until it is back.

use crate::column::Param;
use crate::connect;
use crate::link::{Link, Step};
use crate::options::Options;
use crate::sql::Stmt;
use crate::stats::{Counters, add};
use crate::wake::{self, Gathered};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use weft_core::Time;
use weft_store::{PATIENCE_MS, Wake, Wakes};

/// Between two rings.
const PAUSE: Duration = Duration::from_millis(50);
/// What is not urgent goes along with the next ring, or when so much time has passed.
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MS);
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// What the task and the store share.
#[derive(Debug)]
struct Bell {
    gathered: Mutex<Gathered>,
    noted: Notify,
    watchers: Mutex<Vec<mpsc::UnboundedSender<Wake>>>,
    listening: watch::Sender<bool>,
    /// Until somebody else is there to hear it, gathering would only take memory.
    connected: AtomicBool,
}

/// Ends its task when it is dropped.
#[derive(Debug)]
pub struct Doorbell {
    bell: Arc<Bell>,
    task: JoinHandle<()>,
}

impl Doorbell {
    /// Starts the task. `node` tells this node's messages from those of others.
    pub fn spawn(options: Options, node: String, counters: Arc<Counters>) -> Self {
        let bell = Arc::new(Bell {
            gathered: Mutex::default(),
            noted: Notify::new(),
            watchers: Mutex::default(),
            listening: watch::Sender::new(false),
            connected: AtomicBool::new(false),
        });
        let ringer = Ringer { bell: bell.clone(), channel: channel(&options.schema), options, node, counters };
        Self { bell, task: tokio::spawn(ringer.run()) }
    }

    pub fn ring(&self, wake: Wake, now: Time) {
        if self.bell.connected.load(Ordering::Relaxed) {
            let urgent = wake.is_urgent(now);
            lock(&self.bell.gathered).add(wake, urgent);
            if urgent {
                self.bell.noted.notify_one();
            }
        }
    }

    pub fn watch(&self) -> Wakes {
        let (wakes, receiver) = mpsc::unbounded_channel();
        lock(&self.bell.watchers).push(wakes);
        receiver
    }

    /// Waits until this node hears others.
    pub async fn listening(&self) {
        let mut listening = self.bell.listening.subscribe();
        // The sender lives in the bell, so it cannot be gone.
        let _ = listening.wait_for(|listening| *listening).await;
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Ringer {
    bell: Arc<Bell>,
    options: Options,
    channel: String,
    node: String,
    counters: Arc<Counters>,
}

impl Ringer {
    async fn run(self) {
        let mut back_off = BACK_OFF_MIN;
        loop {
            match self.connect().await {
                Ok(link) => {
                    back_off = BACK_OFF_MIN;
                    self.connected(true);
                    let why = self.serve(link).await;
                    self.connected(false);
                    tracing::warn!(why, "the doorbell lost its connection; wake-ups from other nodes are late");
                }
                Err(why) => tracing::warn!(why, "the doorbell could not connect"),
            }
            sleep(back_off).await;
            back_off = (back_off * 2).min(BACK_OFF_MAX);
        }
    }

    fn connected(&self, connected: bool) {
        self.bell.connected.store(connected, Ordering::Relaxed);
        if !connected {
            *lock(&self.bell.gathered) = Gathered::default();
        }
        self.bell.listening.send_replace(connected);
    }

    async fn connect(&self) -> Result<Link, String> {
        let mut link = connect::session(&self.options).await.map_err(|error| error.to_string())?;
        add(&self.counters.connections);
        let listen = format!("listen {}", self.channel);
        let listening = timeout(self.options.call_timeout, link.batch(&listen)).await;
        listening.map_err(|_| "no answer to `listen`".to_owned())?.map_err(|error| error.to_string())?;
        Ok(link)
    }

    /// Rings and listens until the connection is gone.
    async fn serve(&self, mut link: Link) -> String {
        let now = Instant::now();
        // Long ago, so that the first note finds the bell free.
        let mut rung = now.checked_sub(PATIENCE).unwrap_or(now);
        loop {
            tokio::select! {
                biased;
                heard = link.notified() => {
                    if heard.is_empty() {
                        return "the server closed it".to_owned();
                    }
                    heard.iter().for_each(|notification| self.hear(notification.payload()));
                }
                () = self.due(rung) => {
                    if let Err(why) = self.send(&mut link).await {
                        return why;
                    }
                    rung = Instant::now();
                }
            }
        }
    }

    /// Waits for an urgent note, or for patience to end with any; and then until the bell may ring again.
    async fn due(&self, rung: Instant) {
        let mut patient_until = rung + PATIENCE;
        while !lock(&self.bell.gathered).is_urgent() {
            if timeout_at(patient_until, self.bell.noted.notified()).await.is_err() {
                if !lock(&self.bell.gathered).is_empty() {
                    break;
                }
                patient_until = Instant::now() + PATIENCE;
            }
        }
        sleep_until(rung + PAUSE).await;
    }

    async fn send(&self, link: &mut Link) -> Result<(), String> {
        let messages = std::mem::take(&mut *lock(&self.bell.gathered)).messages(&self.node);
        let steps: Vec<Step<'_>> = messages
            .iter()
            .map(|message| Step::new(Stmt::Notify, [Param::Text(&self.channel), Param::Text(message)]))
            .collect();
        let sending = async {
            link.prepare(&steps).await.map_err(|error| error.to_string())?;
            let answers = link.run(&steps).await.map_err(|unsent| unsent.0.to_string())?;
            answers.into_iter().try_for_each(|answer| answer.map(drop)).map_err(|error| error.to_string())
        };
        let sent =
            timeout(self.options.call_timeout, sending).await.map_err(|_| "no answer to a message".to_owned())?;
        add(&self.counters.rings);
        sent
    }

    fn hear(&self, message: &str) {
        let wakes = wake::read(message, &self.node);
        if !wakes.is_empty() {
            let send_all =
                |watcher: &mpsc::UnboundedSender<Wake>| wakes.iter().all(|wake| watcher.send(wake.clone()).is_ok());
            lock(&self.bell.watchers).retain(send_all);
        }
    }
}

/// A schema has at most 31 letters and the server cuts a channel off at 63.
fn channel(schema: &str) -> String {
    format!("weft_wakes_{schema}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
