//! Notices for one worker process, as they go over the wire.

use weft_api::work as wire;
use weft_core::Time;
use weft_engine::{Engine, Heard, Notice, Numbered};

/// Notices as they come. They are hints: a worker that misses one learns by the refusal of its next call.
pub struct Notices {
    pub(crate) engine: Engine,
    pub(crate) notices: weft_engine::Notices,
}

/// What a stream of notices brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tiding {
    Notice(wire::Notice),
    /// Some were dropped: a heartbeat with what the worker holds tells what they said.
    Missed,
}

impl Notices {
    /// The next one; none if another process took the name of this one, or the engine is gone.
    pub async fn next(&mut self) -> Option<Tiding> {
        Some(match self.notices.next().await? {
            Heard::Notice(numbered) => Tiding::Notice(notice(numbered, self.engine.now())),
            Heard::Missed => Tiding::Missed,
        })
    }
}

pub(crate) fn notices(told: Vec<Numbered>, now: Time) -> Vec<wire::Notice> {
    told.into_iter().map(|numbered| notice(numbered, now)).collect()
}

fn notice(numbered: Numbered, now: Time) -> wire::Notice {
    let what = match numbered.notice {
        Notice::Cancelled { execution, epoch, reason, by } => wire::NoticeKind::Cancelled {
            execution: execution.to_string(),
            epoch,
            reason: reason.to_string(),
            by: by.to_string(),
        },
        Notice::CancelRequested { execution, epoch, reason, kill_at } => wire::NoticeKind::CancelRequested {
            execution: execution.to_string(),
            epoch,
            reason: reason.to_string(),
            kill_in_ms: kill_at.map(|at| at.since(now)),
        },
        Notice::LeaseLost { execution, epoch, cause } => {
            wire::NoticeKind::LeaseLost { execution: execution.to_string(), epoch, cause: cause.name().to_string() }
        }
        Notice::Drain { reason, deadline_at } => {
            wire::NoticeKind::Drain { reason: reason.to_string(), deadline_in_ms: deadline_at.map(|at| at.since(now)) }
        }
        Notice::Undrain => wire::NoticeKind::Undrain,
        Notice::Superseded => wire::NoticeKind::Superseded,
        Notice::NodeStopping => wire::NoticeKind::NodeStopping,
    };
    wire::Notice { no: numbered.no, what }
}
