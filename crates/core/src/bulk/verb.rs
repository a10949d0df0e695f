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
                let (downstream, ignore_dependencies) = (Downstream::Reopen, false);
                let replay =
                    Replay { id, reason, deadline, delay_ms, priority, steps, downstream, ignore_dependencies };
                Command::Replay(replay)
            }
            Verb::ReplayAlone { reason, deadline, delay_ms, priority, steps } => {
                let (downstream, ignore_dependencies) = (Downstream::Keep, false);
                let replay =
                    Replay { id, reason, deadline, delay_ms, priority, steps, downstream, ignore_dependencies };
                Command::Replay(replay)
            }
            Verb::Hold { reason, revoke } => Command::Hold(Hold { id, reason, revoke }),
            Verb::Release { reason } => Command::Release(Release { id, reason }),
            Verb::Revoke { reason, hold } => Command::Revoke(Revoke { id, expected_epoch: None, reason, hold }),
            Verb::ForceComplete { reason } => {
                Command::ForceComplete(ForceComplete { id, result: None, content_type: None, reason })
            }
            Verb::ForceFail { message, reason } => Command::ForceFail(ForceFail { id, message, reason }),
            Verb::Purge { reason } => Command::Purge(Purge { id, reason }),
            Verb::Priority { priority, reason } => Command::ChangePriority(ChangePriority { id, priority, reason }),
            Verb::Tag { set, remove, reason } => Command::SetTags(SetTags { id, fence: None, set, remove, reason }),
            Verb::Reschedule { start, reason } => Command::Reschedule(Reschedule { id, start, reason }),
        }
    }
}
