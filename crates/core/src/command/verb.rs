//! The word for each verb, and how much room it wants.

use super::Command;
use crate::schema::Timer;

impl Command {
    /// It may touch thousands of records, so it wants a batch that is nearly empty.
    pub fn is_bulky(&self) -> bool {
        match self {
            Command::Expire(expire) => matches!(
                expire.timer,
                Timer::Purge
                    | Timer::CancelChildren
                    | Timer::Resolve
                    | Timer::Reopen
                    | Timer::GroupCancel
                    | Timer::FlowSeal
                    | Timer::FlowEnding
                    | Timer::FlowPurge
            ),
            Command::SubmitFlow(submit) => submit.plan.records(submit.from) > 100,
            Command::GrowFlow(grow) => grow.members.len() + grow.edges.len() > 100,
            Command::SubmitAll(_) | Command::AdvanceBulk(_) | Command::SealFlow(_) | Command::CancelFlow(_) => true,
            _ => false,
        }
    }

    /// The word for this verb, as in dedup keys, metrics and histories.
    pub const fn verb(&self) -> &'static str {
        match self {
            Command::Submit(_) => "submit",
            Command::SubmitAll(_) => "submit_all",
            Command::Claim(_) => "claim",
            Command::Renew(_) => "renew",
            Command::Progress(_) => "progress",
            Command::RecordSteps(_) => "record_steps",
            Command::Complete(_) => "complete",
            Command::Fail(_) => "fail",
            Command::Delay(_) => "delay",
            Command::WaitChildren(_) => "wait_children",
            Command::Cancel(_) => "cancel",
            Command::Reschedule(_) => "reschedule",
            Command::ChangePriority(_) => "change_priority",
            Command::SetTags(_) => "set_tags",
            Command::Revoke(_) => "revoke",
            Command::Hold(_) => "hold",
            Command::Release(_) => "release",
            Command::ForceComplete(_) => "force_complete",
            Command::ForceFail(_) => "force_fail",
            Command::Purge(_) => "purge",
            Command::Replay(_) => "replay",
            Command::Expire(_) => "expire",
            Command::RecordTrouble(_) => "record_trouble",
            Command::DropEntry(_) => "drop_entry",
            Command::Heartbeat(_) => "heartbeat",
            Command::RetryParked(_) => "retry_parked",
            Command::DiscardParked(_) => "discard_parked",
            Command::RegisterWorker(_) => "register_worker",
            Command::BeatWorker(_) => "beat_worker",
            Command::DeregisterWorker(_) => "deregister_worker",
            Command::DrainWorker(_) => "drain_worker",
            Command::UndrainWorker(_) => "undrain_worker",
            Command::MarkWorkerDead(_) => "mark_worker_dead",
            Command::SettleWorker(_) => "settle_worker",
            Command::EndLease(_) => "end_lease",
            Command::StartBulk(_) => "start_bulk",
            Command::StopBulk(_) => "stop_bulk",
            Command::ShareBulk(_) => "share_bulk",
            Command::AdvanceBulk(_) => "advance_bulk",
            Command::ReportBulk(_) => "report_bulk",
            Command::CreateKey(_) => "create_key",
            Command::ChangeKey(_) => "change_key",
            Command::RotateKey(_) => "rotate_key",
            Command::RevokeKey(_) => "revoke_key",
            Command::TouchKey(_) => "touch_key",
            Command::NoteRefusal(_) => "note_refusal",
            Command::KeepAnswer(_) => "keep_answer",
            Command::DrainNode(_) => "drain_node",
            Command::SubmitFlow(_) => "submit_flow",
            Command::GrowFlow(_) => "grow_flow",
            Command::SealFlow(_) => "seal_flow",
            Command::CancelFlow(_) => "cancel_flow",
            Command::FinishFlow(_) => "finish_flow",
            Command::ChangeFlow(_) => "change_flow",
            Command::PurgeFlow(_) => "purge_flow",
            Command::VerifyFlow(_) => "verify_flow",
            Command::AuditFlow(_) => "audit_flow",
            Command::ReconcileGroup(_) => "reconcile_group",
        }
    }
}
