//! Calls of the API on an engine with the in-memory store, on virtual time.

#![allow(clippy::unwrap_used)]

mod counts;
mod flows;
mod keys;
mod stats;
mod trace;

use serde_json::{Value, json};
use std::sync::Arc;
use weft_api::operation::Wire;
use weft_api::{Call, Problem};
use weft_core::Time;
use weft_dispatch::{Around, Caller, Dispatch};
use weft_engine::{Config, Engine};
use weft_store::MemoryStore;

pub async fn open() -> Dispatch {
    let began = tokio::time::Instant::now();
    let clock = move || Time::from_ms(1_700_000_000_000 + began.elapsed().as_millis() as u64);
    let engine = Engine::open(MemoryStore::new(1, Arc::new(clock)), Config::default()).await;
    Dispatch::new(engine.expect("the memory store opens"))
}

/// Somebody who may do everything in one namespace.
pub fn of(namespace: &str) -> Caller {
    Caller::all(namespace, "ann")
}

/// Makes a call with this body, and answers what a client over HTTP would read.
pub async fn ask(
    dispatch: &Dispatch,
    caller: &Caller,
    operation: &str,
    body: Value,
    trace: Option<&str>,
) -> Result<Value, Problem> {
    ask_at(dispatch, caller, operation, &[], body, trace).await
}

/// The same about what stands in the path.
pub async fn ask_at(
    dispatch: &Dispatch,
    caller: &Caller,
    operation: &str,
    path: &[&str],
    body: Value,
    trace: Option<&str>,
) -> Result<Value, Problem> {
    let body = if body.is_null() { Default::default() } else { body.to_string().into() };
    let path = path.iter().map(|part| part.to_string()).collect();
    let call = Call::from_wire(operation, Wire { path, body, ..Wire::default() })?;
    let around = Around { trace: trace.map(str::to_string) };
    let answer = dispatch.call(caller, call, &around).await?;
    Ok(serde_json::from_slice(&answer.reply.carry().bytes).expect("a reply is JSON"))
}

/// Claims one execution of a lane.
pub async fn claim(dispatch: &Dispatch, caller: &Caller, lane: &str) -> Value {
    let body = json!({ "worker": "w", "instance": "w-1", "lanes": [{ "lane": lane }] });
    let claimed = ask(dispatch, caller, "claim", body, None).await.expect("a good claim");
    claimed["executions"][0].clone()
}
