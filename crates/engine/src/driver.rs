//! Runs a partition loop: brings inputs and answers to it, makes the store calls it asks for. Holds no rules.

use crate::client::Urgency;
use crate::engine::Shared;
use crate::partition::{Arrival, Effect, Input, Partition, Scanned};
use crate::pulse::Held;
use crate::runtime::BoxFuture;
use futures_util::StreamExt;
use futures_util::future::{self, Either};
use futures_util::stream::FuturesUnordered;
use std::sync::Arc;
use tokio::sync::mpsc;
use tracing::Instrument;
use weft_core::PartitionId;

/// Both mailboxes of a partition. What keeps leases alive or ends work has its own, so that submissions cannot hold it up.
pub struct Mail {
    pub urgent: mpsc::Receiver<Input>,
    pub normal: mpsc::Receiver<Input>,
}

/// What woke the driver.
enum Woken {
    Input(Option<Input>),
    Arrival(Arrival),
    Tick,
}

/// Runs until the mailboxes are closed and everything has been answered.
pub async fn run(shared: Arc<Shared>, id: PartitionId, mut partition: Partition, mut mail: Mail, pulse: Held) {
    let mut calls: FuturesUnordered<BoxFuture<Arrival>> = FuturesUnordered::new();
    let mut open = true;
    let mut arrived = None;
    while open || !partition.is_idle() || !calls.is_empty() || arrived.is_some() {
        let woken = match arrived.take() {
            Some(arrival) => Woken::Arrival(arrival),
            None => {
                pulse.waits();
                let woken = next(&shared, &partition, &mut mail, &mut calls, open).await;
                pulse.works(shared.runtime.clock());
                woken
            }
        };
        match woken {
            Woken::Input(Some(input)) => partition.handle(input),
            Woken::Input(None) => open = false,
            Woken::Arrival(arrival) => partition.arrive(arrival),
            Woken::Tick => {}
        }
        // Asked each time: on a busy partition something else comes before every tick.
        if partition.next_tick().is_some_and(|at| at <= shared.runtime.clock()) {
            partition.tick();
        }
        take_waiting(&mut partition, &mut mail);
        if open && partition.is_stopping() {
            // What has come in is still answered; later callers are told that the node is gone.
            open = false;
            mail.urgent.close();
            mail.normal.close();
            take_waiting(&mut partition, &mut mail);
        }
        // Answers that are there already join this step.
        while let Some(arrival) = at_once(&mut calls) {
            partition.arrive(arrival);
        }
        while arrived.is_none() {
            let effects = partition.step();
            let done = effects.is_empty() && !partition.has_more();
            calls.extend(effects.into_iter().map(|effect| perform(&shared, id, effect)));
            // Looked at before anybody is answered: that brings a commit to the store.
            arrived = at_once(&mut calls);
            let told = partition.reply();
            if done {
                break;
            }
            if told {
                // Whoever was answered goes on before the loop does: on a busy runtime it may be behind it on this thread.
                tokio::task::yield_now().await;
                // Meanwhile the commit may have come back.
                arrived = arrived.or_else(|| at_once(&mut calls));
            }
        }
    }
}

/// An answer of the store that is there already.
fn at_once(calls: &mut FuturesUnordered<BoxFuture<Arrival>>) -> Option<Arrival> {
    future::FutureExt::now_or_never(calls.next()).flatten()
}

/// Takes what else has come in, as far as the open batch has room.
fn take_waiting(partition: &mut Partition, mail: &mut Mail) {
    while partition.has_room(Urgency::Urgent)
        && let Ok(input) = mail.urgent.try_recv().or_else(|error| match partition.has_room(Urgency::Normal) {
            true => mail.normal.try_recv(),
            false => Err(error),
        })
    {
        partition.handle(input);
    }
}

async fn next(
    shared: &Shared,
    partition: &Partition,
    mail: &mut Mail,
    calls: &mut FuturesUnordered<BoxFuture<Arrival>>,
    open: bool,
) -> Woken {
    let inputs = async {
        if !open || !partition.has_room(Urgency::Urgent) {
            return future::pending().await;
        }
        let urgent = mail.urgent.recv();
        let normal = async {
            match partition.has_room(Urgency::Normal) {
                true => mail.normal.recv().await,
                false => future::pending().await,
            }
        };
        futures_util::pin_mut!(urgent, normal);
        match future::select(urgent, normal).await {
            Either::Left((input, _)) | Either::Right((input, _)) => Woken::Input(input),
        }
    };
    let arrivals = async {
        match calls.next().await {
            Some(arrival) => Woken::Arrival(arrival),
            None => future::pending().await,
        }
    };
    let tick = async {
        match partition.next_tick() {
            Some(at) => shared.runtime.sleep(at.since(shared.runtime.clock()).max(1)).await,
            None => future::pending().await,
        }
        Woken::Tick
    };
    futures_util::pin_mut!(inputs, arrivals, tick);
    match future::select(arrivals, future::select(inputs, tick)).await {
        Either::Left((woken, _)) => woken,
        Either::Right((Either::Left((woken, _)) | Either::Right((woken, _)), _)) => woken,
    }
}

fn perform(shared: &Arc<Shared>, id: PartitionId, effect: Effect) -> BoxFuture<Arrival> {
    let store = &shared.store;
    match effect {
        Effect::Commit(batch) => {
            let span =
                tracing::debug_span!("commit", partition = %id, commit = %batch.id, records = batch.writes.len());
            let commit = span.in_scope(|| store.commit(id, batch));
            Box::pin(async move { Arrival::Committed(commit.await) }.instrument(span))
        }
        Effect::Load { keys, stamp, turn } => {
            let read = store.read(id, keys.clone());
            Box::pin(async move { Arrival::Loaded { keys, stamp, turn, read: read.await } })
        }
        Effect::Scan { tag, scan, stamp, turn } => {
            let parts = scan.parts;
            let scan = store.scan(Some(id), scan);
            Box::pin(async move { Arrival::Scanned(Scanned { tag, parts, stamp, turn, pages: scan.await }) })
        }
        Effect::Resolve { id: commit, after_ms } => {
            let (shared, sleep) = (shared.clone(), shared.runtime.sleep(after_ms));
            Box::pin(async move {
                sleep.await;
                Arrival::Resolved(shared.store.resolve(id, commit).await)
            })
        }
    }
}
