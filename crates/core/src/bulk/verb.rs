//! The ordinary command that a verb of a bulk job is, for one execution.

use crate::command::*;
use crate::id::ExecutionId;
use crate::record::bulk_job::Verb;

impl Verb {
    /// The command that somebody who names the execution would send.
    pub fn command(&self, id: ExecutionId) -> Command {
        match self.clone() {
            Verb::Cancel { reason, mode, cascade } => {
                Command::Cancel(Cancel { id, fence: None, reason, mode, cascade })
            }
            Verb::Replay { reason, deadline, delay_ms, priority, steps } => {
                Command::Replay(Replay { id, reason, deadline, delay_ms, priority, steps })
            }
            Verb::Hold { reason, revoke } => Command::Hold(Hold { id, reason, revoke }),
            Verb::Release => Command::Release(Release { id }),
            Verb::Revoke { reason, hold } => Command::Revoke(Revoke { id, expected_epoch: None, reason, hold }),
            Verb::ForceComplete { reason } => {
                Command::ForceComplete(ForceComplete { id, result: None, content_type: None, reason })
            }
            Verb::ForceFail { message, reason } => Command::ForceFail(ForceFail { id, message, reason }),
            Verb::Purge => Command::Purge(Purge { id }),
            Verb::Priority { priority } => Command::ChangePriority(ChangePriority { id, priority }),
            Verb::Tag { set, remove } => Command::SetTags(SetTags { id, fence: None, set, remove }),
            Verb::Reschedule { start } => Command::Reschedule(Reschedule { id, start }),
        }
    }
}
