//! Keeps the node's view of store time right, and passes on the hints of other nodes.

use crate::client::Urgency;
use crate::engine::Shared;
use crate::partition::{Input, LaneKey};
use crate::worker::roster;
use futures_util::future::{self, Either};
use std::sync::Arc;
use weft_core::record::{node, worker};
use weft_store::Wake;

/// A store that others write to is asked for its time about every second: a little less often, so that an idle node
/// stays below three calls a second in all. An embedded one shares this machine's clock.
const MEASURE_MS: u64 = 1_200;
/// How long a hint about another node's partition waits.
const STAND_BACK_MS: u64 = 15;

pub async fn run(shared: Arc<Shared>) {
    let measure_ms = if shared.description.exclusive { shared.config.scanners.look_ms } else { MEASURE_MS };
    let mut wakes = shared.store.watch();
    let mut watching = true;
    let mut sleep = shared.runtime.sleep(measure_ms);
    while !shared.is_closing() {
        let closed = shared.closed.notified();
        // Asked again once nothing can be missed any more.
        if shared.is_closing() {
            return;
        }
        let listening = watching;
        let wake = async {
            match listening {
                true => wakes.recv().await,
                false => future::pending().await,
            }
        };
        futures_util::pin_mut!(closed, wake);
        match future::select(future::select(wake, closed), &mut sleep).await {
            Either::Left((Either::Left((Some(wake), _)), _)) => pass_on(&shared, wake),
            Either::Left((Either::Left((None, _)), _)) => watching = false,
            Either::Left((Either::Right(_), _)) => {}
            Either::Right(_) => {
                measure(&shared).await;
                sleep = shared.runtime.sleep(measure_ms);
            }
        }
    }
}

/// Brings a hint to its partition, as far as it concerns this node.
pub(crate) fn pass_on(shared: &Arc<Shared>, mut wake: Wake) {
    let partition = wake.partition;
    if usize::from(partition.0) >= shared.partitions.len() {
        return;
    }
    if wake.lanes.iter().any(|(namespace, lane)| (&**namespace, &**lane) == node::LANE) {
        shared.nodes_changed.notify_one();
    }
    if wake.lanes.iter().any(|(namespace, lane)| (&**namespace, &**lane) == worker::LANE) {
        roster::rung(shared, partition);
    }
    let alone = shared.partitions.len() == 1;
    wake.lanes.retain(|(namespace, lane)| {
        // Claims of a single partition wait in it, and are counted nowhere else.
        alone || shared.lanes.is_waited_for(&LaneKey { namespace: namespace.clone(), lane: lane.clone() })
    });
    let mine = shared.membership.places_in(partition);
    // A full mailbox loses the hint, which nothing depends on.
    let pass = move |shared: &Shared, wake| drop(shared.send(partition, Input::Wake(wake), Urgency::Normal));
    if mine || wake.lanes.is_empty() {
        return pass(shared, wake);
    }
    // The workers of the node that looks after the partition go first; two nodes at once would only conflict.
    let later = shared.clone();
    let sleep = shared.runtime.sleep(STAND_BACK_MS);
    shared.start(async move {
        sleep.await;
        pass(&later, wake);
    });
}

async fn measure(shared: &Shared) {
    if let Err(error) = shared.measure().await {
        tracing::warn!(%error, "could not read the store's clock");
    }
}
