//! The engine on the in-memory store, on virtual time: tokio's clock is paused and jumps to the next timer. What is about
//! flows and the scanners behind them runs on every store (`kit/kinds.rs`), on a clock that the test moves.

#![allow(clippy::unwrap_used)]

mod audit;
mod bulk;
mod calls;
mod claims;
mod cluster;
mod explanations;
mod flows;
mod keys;
mod kit;
mod lifecycle;
mod losses;
mod nodes;
mod notices;
mod outages;
mod readiness;
mod reads;
mod refusals;
mod scanners;
mod steps;
mod stores;
mod telemetry;
mod timers;
mod workers;
