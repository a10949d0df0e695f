//! Payloads as they are, for handlers that pass on what somebody else made: a program, another runtime.

use super::ctx::Ctx;
use super::failure::Failure;
use super::report::{Noted, told};
use std::collections::BTreeMap;
use weft_api::Payload;

impl Ctx {
    /// The last checkpoint of the execution when it was claimed.
    pub fn checkpointed(&self) -> Option<&Payload> {
        self.claimed().checkpoint.as_ref().map(|checkpoint| &checkpoint.value)
    }

    /// The tags of the execution when it was claimed.
    pub fn tagged(&self) -> &BTreeMap<String, String> {
        &self.claimed().tags
    }

    /// Saves a checkpoint whose bytes stay as they are.
    pub fn save(&self, checkpoint: Payload) -> Noted<'_> {
        self.riders().checkpoint = Some(checkpoint);
        Noted::of(self)
    }

    /// How far it is, as far as that is known.
    pub fn report(&self, percent: Option<u8>, message: Option<String>) -> Noted<'_> {
        self.riders().progress = Some(told(percent, message));
        Noted::of(self)
    }

    /// Records a step that was run elsewhere, under exactly this name. If one was recorded before, that stands and is
    /// answered.
    pub async fn record_step(&self, name: &str, value: Payload) -> Result<Option<Payload>, Failure> {
        self.record(name, value).await
    }
}
