//! Notices for one worker process, as they go over the wire.

use tokio::sync::mpsc;
use weft_api::work as wire;
use weft_engine::{Engine, Notice};

/// Notices as they come. They are hints: a worker that misses one learns by the refusal of its next call.
pub struct Notices {
    pub(crate) engine: Engine,
    pub(crate) notices: mpsc::UnboundedReceiver<Notice>,
}

impl Notices {
    /// The next one; none if another call took this place, or the engine is gone.
    pub async fn next(&mut self) -> Option<wire::Notice> {
        let notice = self.notices.recv().await?;
        Some(match notice {
            Notice::Cancelled { execution, epoch } => {
                wire::Notice::Cancelled { execution: execution.to_string(), epoch }
            }
            Notice::CancelRequested { execution, epoch, reason, kill_at } => wire::Notice::CancelRequested {
                execution: execution.to_string(),
                epoch,
                reason: reason.to_string(),
                kill_in_ms: kill_at.map(|at| at.since(self.engine.now())),
            },
            Notice::LeaseLost { execution, epoch, cause } => {
                wire::Notice::LeaseLost { execution: execution.to_string(), epoch, cause: cause.name().to_string() }
            }
            Notice::Drain { reason, deadline_at } => wire::Notice::Drain {
                reason: reason.to_string(),
                deadline_in_ms: deadline_at.map(|at| at.since(self.engine.now())),
            },
            Notice::Undrain => wire::Notice::Undrain,
            Notice::Superseded => wire::Notice::Superseded,
            Notice::NodeStopping => wire::Notice::NodeStopping,
        })
    }
}
