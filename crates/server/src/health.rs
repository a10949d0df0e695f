//! Whether the process turns, and whether the node takes work. A task looks regularly, so that being asked costs nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weft_engine::Engine;

/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// A look that is older says that tasks do not run.
const ALIVE: Duration = Duration::from_secs(10);
/// The store must have answered within this time.
const REACHED: Duration = Duration::from_secs(5);

pub struct Health(Mutex<Looked>);

struct Looked {
    at: Instant,
    /// When nothing was found to be wrong.
    well_at: Option<Instant>,
    why: Option<&'static str>,
}

impl Default for Health {
    fn default() -> Self {
        Self(Mutex::new(Looked { at: Instant::now(), well_at: None, why: Some("starting") }))
    }
}

impl Health {
    /// Looks after the engine until nobody asks any more.
    pub fn watch(this: &Arc<Self>, engine: Engine) {
        let health = Arc::downgrade(this);
        tokio::spawn(async move {
            loop {
                let turn = async {
                    let why = engine.not_ready().await;
                    let Some(health) = health.upgrade() else { return false };
                    health.note(why);
                    true
                };
                // Even while the store hangs the process is seen to turn.
                match tokio::time::timeout(REACHED, turn).await {
                    Ok(false) => return,
                    Ok(true) => tokio::time::sleep(LOOK).await,
                    Err(_) => {
                        if let Some(health) = health.upgrade() {
                            health.note(Some("store_slow"));
                        }
                    }
                }
            }
        });
    }

    fn note(&self, why: Option<&'static str>) {
        let now = Instant::now();
        let mut looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        looked.at = now;
        looked.why = why;
        if why.is_none() {
            looked.well_at = Some(now);
        }
    }

    /// True if tasks of this process run.
    pub fn is_alive(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).at.elapsed() < ALIVE
    }

    /// Why the node takes no work, in a word; `None` if it does. Within `REACHED` of a good check only a drain
    /// or a full store counts.
    pub fn not_ready(&self) -> Option<&'static str> {
        let looked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match looked.well_at {
            Some(at) if at.elapsed() < REACHED && !matches!(looked.why, Some("draining" | "store_full")) => None,
            Some(_) => Some(looked.why.unwrap_or("store_unreachable")),
            None => Some(looked.why.unwrap_or("starting")),
        }
    }
}
