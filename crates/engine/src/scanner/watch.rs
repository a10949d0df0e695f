//! Keeps the node's view of store time right, and passes on the hints of other nodes.

use crate::client::Urgency;
use crate::engine::Shared;
use crate::partition::Input;
use futures_util::future::{self, Either};
use std::sync::Arc;

/// A store that others write to is asked for its time every second; an embedded one shares this machine's clock.
const MEASURE_MS: u64 = 1_000;

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
            Either::Left((Either::Left((Some(wake), _)), _)) => {
                let partition = wake.partition;
                // A full mailbox loses the hint, which nothing depends on.
                let _ = shared.send(partition, Input::Wake(wake), Urgency::Normal);
            }
            Either::Left((Either::Left((None, _)), _)) => watching = false,
            Either::Left((Either::Right(_), _)) => {}
            Either::Right(_) => {
                measure(&shared).await;
                sleep = shared.runtime.sleep(measure_ms);
            }
        }
    }
}

async fn measure(shared: &Shared) {
    match shared.store.now().await {
        Ok(now) => shared.clock.measured(now),
        Err(error) => tracing::warn!(%error, "could not read the store's clock"),
    }
}
