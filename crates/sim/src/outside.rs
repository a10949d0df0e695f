//! Whoever calls the nodes: makes calls with a token each, repeats them when nothing was learnt, tells the judge.

use crate::checker::{Ack, Note};
use crate::cluster::Cluster;
use crate::dice::Dice;
use crate::scenario::Settings;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use weft_core::ExecutionId;
use weft_core::command::Fence;
use weft_core::error::{Class, Rejection};
use weft_core::text::Text;
use weft_engine::Client;

pub type Answer = Result<Ack, Rejection>;
pub type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What all callers share.
pub struct Outside {
    pub cluster: Arc<Cluster>,
    pub settings: Settings,
    tokens: AtomicU64,
    known: Mutex<Vec<ExecutionId>>,
    stopped: AtomicBool,
}

impl Outside {
    pub fn new(cluster: Arc<Cluster>, settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            cluster,
            settings,
            tokens: AtomicU64::new(0),
            known: Mutex::new(Vec::new()),
            stopped: AtomicBool::new(false),
        })
    }

    pub fn now_ms(&self) -> u64 {
        self.cluster.world.now_ms()
    }

    /// Nobody begins anything new.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub fn learn(&self, id: ExecutionId) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).push(id);
    }

    pub fn any_known(&self, dice: &mut Dice) -> Option<ExecutionId> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Late ones are where things happen.
        let recent = &known[known.len().saturating_sub(20)..];
        if dice.chance(600) { dice.pick(recent).copied() } else { dice.pick(&known).copied() }
    }

    pub fn token(&self) -> Text {
        format!("t{}", self.tokens.fetch_add(1, Ordering::Relaxed)).into()
    }
}

/// One caller, at one node at a time.
pub struct Caller {
    pub outside: Arc<Outside>,
    pub dice: Dice,
    pub node: usize,
}

impl Caller {
    pub fn new(outside: Arc<Outside>, concern: &str, number: u64) -> Self {
        let mut dice = Dice::new(outside.settings.seed, concern, number);
        let node = dice.below(outside.cluster.size() as u64) as usize;
        Self { outside, dice, node }
    }

    pub fn switch_node(&mut self) {
        self.node = self.dice.below(self.outside.cluster.size() as u64) as usize;
    }

    pub async fn sleep(&self, ms: u64) {
        self.outside.cluster.world.sleep(ms).await;
    }

    pub fn note(&self, verb: &'static str) -> Note {
        Note {
            verb,
            token: self.outside.token(),
            id: None,
            fence: None,
            forged: false,
            again: false,
            delivered: 0,
            uncertain: false,
            sent_ms: self.outside.now_ms(),
            key: None,
            request: None,
        }
    }

    pub fn note_about(&self, verb: &'static str, id: ExecutionId) -> Note {
        Note { id: Some(id), ..self.note(verb) }
    }

    pub fn note_fenced(&self, verb: &'static str, id: ExecutionId, fence: Fence) -> Note {
        Note { id: Some(id), fence: Some(fence), ..self.note(verb) }
    }

    /// Sends a call once. `None`: nothing was learnt about its fate.
    pub async fn send(&mut self, note: &mut Note, wait_ms: u64, make: impl Fn(Client) -> Work) -> Option<Answer> {
        let outside = self.outside.clone();
        outside.cluster.judge.lock().sending(note);
        let called = outside.cluster.call(self.node, &mut self.dice, wait_ms, make).await;
        note.delivered += called.delivered;
        let Some(answer) = called.answer else {
            note.uncertain |= called.delivered > 0;
            return None;
        };
        note.uncertain |= called.delivered > 1;
        outside.cluster.judge.lock().answered(note, &answer, outside.now_ms());
        if matches!(answer, Err(Rejection::Unavailable { outcome_unknown: true, .. })) {
            note.uncertain = true;
            return None;
        }
        Some(answer)
    }

    /// Sends a call until it is answered, at most `tries` times; every repeat is the same call.
    pub async fn persist(&mut self, mut note: Note, tries: u32, make: impl Fn(Client) -> Work) -> Option<Answer> {
        let mut refusal = None;
        for _ in 0..tries {
            match self.send(&mut note, 0, &make).await {
                Some(Err(rejection)) if rejection.class() == Class::Later => refusal = Some(Err(rejection)),
                Some(answer) => {
                    if answer.is_err() {
                        self.outside.cluster.judge.lock().given_up(&note);
                    }
                    return Some(answer);
                }
                None => refusal = None,
            }
            let pause_ms = self.dice.between(20, 600);
            self.sleep(pause_ms).await;
            if self.dice.chance(300) {
                self.switch_node();
            }
        }
        self.outside.cluster.judge.lock().given_up(&note);
        refusal
    }
}
