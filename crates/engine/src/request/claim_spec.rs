//! A claim as the partitions see it.

use super::{LaneMode, LaneWish};
use crate::partition::LaneKey;
use std::sync::Arc;
use weft_core::command;
use weft_core::text::{Capabilities, Text};
use weft_core::{ExecutionId, LeaseId};

/// Checked, canonical, shared.
#[derive(Debug)]
pub(crate) struct ClaimSpec {
    pub namespace: Text,
    pub worker: Text,
    pub instance: Text,
    pub lanes: Vec<LaneWish>,
    pub mode: LaneMode,
    pub kinds: Option<Arc<[Text]>>,
    pub capabilities: Capabilities,
    pub lease_ms: u64,
    pub max_bytes: usize,
    pub claim_ref: Option<[u8; 32]>,
    pub session: Option<u64>,
    pub principal: command::Principal,
}

impl ClaimSpec {
    /// The command that leases this execution to the caller.
    pub fn command(&self, id: ExecutionId, lease: LeaseId) -> command::Command {
        command::Command::Claim(command::Claim {
            id,
            lease,
            worker: self.worker.clone(),
            instance: self.instance.clone(),
            lease_ms: self.lease_ms,
            kinds: self.kinds.clone(),
            capabilities: self.capabilities.clone(),
            claim_ref: self.claim_ref,
            session: self.session,
        })
    }

    pub fn lane_key(&self, wish: &LaneWish) -> LaneKey {
        LaneKey { namespace: self.namespace.clone(), lane: wish.lane.clone() }
    }

    pub fn lane_keys(&self) -> impl Iterator<Item = LaneKey> {
        self.lanes.iter().map(|wish| self.lane_key(wish))
    }
}
