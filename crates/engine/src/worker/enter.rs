//! Entering worker processes that claim without having registered, so that the registry is complete. It happens beside
//! the claim and never inside its commit: a claim waits for nothing here, and is not refused because of it.

use super::list::only_claims;
use super::roster::{CHANGED_EVERY_MS, Stirred};
use super::{Body, verbs};
use crate::engine::Shared;
use crate::hub::Seen;
use crate::place;
use crate::request::ClaimSpec;
use futures_util::future;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_core::command::{Command, Principal, RegisterWorker};
use weft_core::error::Rejection;
use weft_core::text::Text;

/// A claim was let in. Of a process that registered nothing follows. Another one is entered in the background, unless it
/// is entered and offers what it did: then this is one look into memory. Answers what ends the wait of its claim.
pub(crate) fn claimed(shared: &Arc<Shared>, spec: &ClaimSpec) -> Option<Stirred> {
    let now = shared.now();
    shared.hub.seen(spec, now);
    if spec.session.is_some() {
        return None;
    }
    let (due_in_ms, stirred) = shared.roster.begin_entry(spec, now, shared.runtime.clock());
    if let Some(wait_ms) = due_in_ms {
        let (shared, namespace, instance) = (shared.clone(), spec.namespace.clone(), spec.instance.clone());
        shared.clone().start(async move {
            keep_entered(&shared, &namespace, &instance, wait_ms).await;
            shared.roster.end_entry(&namespace, &instance);
        });
    }
    Some(stirred)
}

/// Notes that the process of a waiting claim is alive.
pub(crate) fn waits(shared: &Arc<Shared>, spec: &ClaimSpec) {
    shared.hub.seen(spec, shared.now());
    verbs::alive(shared, &spec.principal, &spec.instance, spec.session.unwrap_or(0));
}

/// Enters the process with what it offered last, until that is what it offers.
async fn keep_entered(shared: &Shared, namespace: &Text, instance: &Text, mut wait_ms: u64) {
    loop {
        if !pause(shared, wait_ms).await {
            return;
        }
        let Some(seen) = shared.hub.worker(namespace, instance, shared.now()) else { return };
        if let Err(rejection) = enter(shared, namespace, instance, &seen).await {
            // Its next claim tries again.
            tracing::debug!(%instance, %rejection, "could not enter a worker that claims");
            return;
        }
        let latest = shared.hub.worker(namespace, instance, shared.now());
        if latest.is_none_or(|latest| latest.offers_like(&seen)) {
            return;
        }
        wait_ms = CHANGED_EVERY_MS;
    }
}

/// False if the engine closes meanwhile.
async fn pause(shared: &Shared, ms: u64) -> bool {
    if ms > 0 {
        let closed = shared.closed.notified();
        futures_util::pin_mut!(closed);
        future::select(closed, shared.runtime.sleep(ms)).await;
    }
    !shared.is_closing()
}

/// Enters a process as its claims describe it, or says that it was seen if it has registered by now.
pub(super) async fn enter(shared: &Shared, namespace: &Text, instance: &Text, seen: &Seen) -> Result<Body, Rejection> {
    let body = only_claims(namespace, instance, seen);
    let register = Command::RegisterWorker(Box::new(RegisterWorker {
        name: place::of_worker(shared, namespace, instance),
        worker: body.worker,
        boot_id: body.boot_id,
        lanes: body.lanes,
        kinds: body.kinds,
        capabilities: body.capabilities,
        capacity: None,
        version: None,
        host: None,
        labels: BTreeMap::new(),
        ttl_ms: body.ttl_ms,
        abandon: false,
    }));
    verbs::run(shared, &Principal::engine(), register).await
}
