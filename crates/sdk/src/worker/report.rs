//! What a handler tells about its work while it goes on: progress, a checkpoint, tags.

use super::ctx::Ctx;
use super::failure::Failure;
use super::limits::{PROGRESS_MESSAGE_MAX, cut};
use crate::payload;
use serde::Serialize;
use std::collections::BTreeMap;
use weft_api::work::{NewProgress, ProgressItem, TagItem};
use weft_api::{Args, Payload, op};

/// What goes along with the next renewal. The newest of each counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Riders {
    pub progress: Option<NewProgress>,
    pub checkpoint: Option<Payload>,
}

impl Riders {
    pub fn is_empty(&self) -> bool {
        self.progress.is_none() && self.checkpoint.is_none()
    }

    /// About what they take in a call.
    pub fn bytes(&self) -> usize {
        let message = self.progress.as_ref().and_then(|progress| progress.message.as_ref());
        let checkpoint = self.checkpoint.as_ref();
        message.map_or(0, String::len) + checkpoint.map_or(0, |checkpoint| checkpoint.bytes.len())
    }

    /// Takes away what was sent and is done with; what is newer stays. Until then nothing is taken away, so that a call
    /// that fails loses nothing, whoever ends first.
    pub fn done(&mut self, sent: &Riders) {
        if self.progress == sent.progress {
            self.progress = None;
        }
        if self.checkpoint == sent.checkpoint {
            self.checkpoint = None;
        }
    }

    /// Takes away what was refused; only that, if the refusal names it.
    pub fn refused(&mut self, sent: Riders, field: Option<&str>) {
        self.done(&match field {
            Some("checkpoint") => Riders { progress: None, ..sent },
            Some("percent" | "message" | "progress") => Riders { checkpoint: None, ..sent },
            _ => sent,
        });
    }
}

/// How far something is, with a message that fits.
pub(super) fn told(percent: Option<u8>, message: Option<String>) -> NewProgress {
    let percent = percent.map(|percent| percent.min(100));
    NewProgress { percent, message: message.map(|message| cut(message, PROGRESS_MESSAGE_MAX)) }
}

/// Something that goes with the next renewal, or at once.
#[must_use = "it goes with the next renewal; `.now().await` sends it at once, `.later()` says that this is meant"]
pub struct Noted<'a> {
    ctx: &'a Ctx,
    wrong: Option<Failure>,
}

impl<'a> Noted<'a> {
    pub(super) fn of(ctx: &'a Ctx) -> Self {
        Self { ctx, wrong: None }
    }

    /// Sends it at once; it is durable afterwards.
    pub async fn now(self) -> Result<(), Failure> {
        match self.wrong {
            Some(failure) => Err(failure),
            None => self.ctx.flush().await,
        }
    }

    /// It goes with the next renewal, which may be never if the task ends before.
    pub fn later(self) {}
}

impl Ctx {
    /// How far it is, for people.
    pub fn progress(&self, percent: u8, message: impl Into<String>) -> Noted<'_> {
        self.riders().progress = Some(told(Some(percent), Some(message.into())));
        Noted { ctx: self, wrong: None }
    }

    /// Saves a value that this or a later attempt gets by `Checkpoint<T>`. The last one counts.
    pub fn checkpoint<T: Serialize + ?Sized>(&self, value: &T) -> Noted<'_> {
        let wrong = match payload::json(value) {
            Ok(payload) => {
                self.riders().checkpoint = Some(payload);
                None
            }
            Err(error) => Some(Failure::from(error)),
        };
        Noted { ctx: self, wrong }
    }

    /// Sends what waits for a renewal.
    pub(crate) async fn flush(&self) -> Result<(), Failure> {
        self.going()?;
        let sent = self.riders().clone();
        if sent.is_empty() {
            return Ok(());
        }
        let Riders { progress, checkpoint } = sent.clone();
        let (percent, message) = progress.map_or((None, None), |progress| (progress.percent, progress.message));
        let claimed = self.claimed();
        let body = ProgressItem {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            percent,
            message,
            checkpoint,
            ..ProgressItem::default()
        };
        self.fenced::<op::Progress>(Args { body, ..Args::default() }).await?;
        self.riders().done(&sent);
        Ok(())
    }

    /// Changes tags of the execution, when `now` is awaited.
    pub fn tags(&self) -> Tagging<'_> {
        Tagging { ctx: self, set: BTreeMap::new(), remove: Vec::new() }
    }
}

/// Changes to tags, all or nothing.
#[must_use = "tags change when `.now().await` is called"]
pub struct Tagging<'a> {
    ctx: &'a Ctx,
    set: BTreeMap<String, String>,
    remove: Vec<String>,
}

impl Tagging<'_> {
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.set.insert(key.into(), value.into());
        self
    }

    pub fn remove(mut self, key: impl Into<String>) -> Self {
        self.remove.push(key.into());
        self
    }

    /// Changes them at once; they are durable afterwards.
    pub async fn now(self) -> Result<(), Failure> {
        let claimed = self.ctx.claimed();
        let body = TagItem {
            execution: claimed.execution.clone(),
            lease: Some(claimed.lease.id.clone()),
            epoch: Some(claimed.lease.epoch),
            set: self.set,
            remove: self.remove,
            request_id: None,
        };
        self.ctx.fenced::<op::TagHeld>(Args { body, ..Args::default() }).await.map(drop)
    }
}
