//! What the tasks of the demo share: where they note events, and which executions there are.

use super::plan::{Kind, Plan};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::mpsc;
use weft_core::ExecutionId;

/// Something worth telling.
pub struct Note {
    pub kind: Kind,
    pub text: String,
}

pub struct Board {
    pub plan: Plan,
    notes: mpsc::UnboundedSender<Note>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    submitted: Vec<(Kind, ExecutionId)>,
    /// The backoff before the next attempt.
    backoff_ms: BTreeMap<ExecutionId, u64>,
}

impl Board {
    pub fn new(plan: Plan, notes: mpsc::UnboundedSender<Note>) -> Self {
        Self { plan, notes, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn note(&self, kind: Kind, text: impl Into<String>) {
        // At the end nobody listens any more.
        let _ = self.notes.send(Note { kind, text: text.into() });
    }

    pub fn submitted(&self, kind: Kind, id: ExecutionId) {
        self.known().submitted.push((kind, id));
    }

    /// Everything that was submitted so far.
    pub fn executions(&self) -> Vec<(Kind, ExecutionId)> {
        self.known().submitted.clone()
    }

    pub fn backs_off(&self, id: ExecutionId, ms: u64) {
        self.known().backoff_ms.insert(id, ms);
    }

    pub fn backoff_ms(&self, id: ExecutionId) -> Option<u64> {
        self.known().backoff_ms.get(&id).copied()
    }
}
