//! The scenarios, one per file, and their names.

mod backlog;
mod fan_out;
mod floor;
mod flow_chain;
mod idle;
mod large_flow;
mod latency;
mod lifecycle;
mod quorum_cancel;
mod remote;

use crate::options::Options;
use crate::report::Report;
use crate::target::Target;
use crate::watch::Watch;
use anyhow::Result;
use std::sync::Arc;

/// How often each side is measured; the best counts, because noise only ever slows down.
const ROUNDS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    Floor,
    Lifecycle,
    Latency,
    Backlog,
    Idle,
    FlowChain,
    FanOut,
    QuorumCancel,
    LargeFlow,
}

impl Scenario {
    pub const ALL: [Scenario; 9] = [
        Scenario::Floor,
        Scenario::Lifecycle,
        Scenario::Latency,
        Scenario::Backlog,
        Scenario::Idle,
        Scenario::FlowChain,
        Scenario::FanOut,
        Scenario::QuorumCancel,
        Scenario::LargeFlow,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Scenario::Floor => "floor",
            Scenario::Lifecycle => "lifecycle",
            Scenario::Latency => "latency",
            Scenario::Backlog => "backlog",
            Scenario::Idle => "idle",
            Scenario::FlowChain => "flow-chain",
            Scenario::FanOut => "fan-out",
            Scenario::QuorumCancel => "quorum-cancel",
            Scenario::LargeFlow => "large-flow",
        }
    }

    /// The options that have an effect on it.
    pub const fn options(self) -> &'static [&'static str] {
        match self {
            Scenario::Floor => &["--n", "--payload"],
            Scenario::Lifecycle => &["--n", "--workers", "--payload", "--nodes", "--remote"],
            Scenario::Backlog => &["--n", "--workers", "--payload", "--nodes"],
            Scenario::Latency => &["--n", "--payload"],
            Scenario::Idle => &["--seconds", "--nodes"],
            Scenario::FlowChain | Scenario::FanOut | Scenario::LargeFlow => &["--n", "--workers", "--payload"],
            Scenario::QuorumCancel => &["--n", "--payload"],
        }
    }

    /// The smallest `n` that says anything.
    pub(crate) const fn n_min(self) -> u64 {
        match self {
            Scenario::Latency | Scenario::LargeFlow => 10,
            Scenario::Backlog => 20_000,
            Scenario::Floor | Scenario::Lifecycle | Scenario::Idle => 1,
            Scenario::FlowChain | Scenario::FanOut | Scenario::QuorumCancel => 1,
        }
    }
}

/// Measures one scenario. An error is a failed check, or a store that could not be opened.
pub async fn run(scenario: Scenario, target: &impl Target, options: &Options, watch: Arc<dyn Watch>) -> Result<Report> {
    options.check(scenario)?;
    match scenario {
        Scenario::Floor => floor::run(target, options, &*watch).await,
        Scenario::Lifecycle if options.remote => remote::run(target, options, watch).await,
        Scenario::Lifecycle => lifecycle::run(target, options, watch).await,
        Scenario::Latency => latency::run(target, options, &*watch).await,
        Scenario::Backlog => backlog::run(target, options, watch).await,
        Scenario::Idle => idle::run(target, options, &*watch).await,
        Scenario::FlowChain => flow_chain::run(target, options, watch).await,
        Scenario::FanOut => fan_out::run(target, options, watch).await,
        Scenario::QuorumCancel => quorum_cancel::run(target, options, watch).await,
        Scenario::LargeFlow => large_flow::run(target, options, watch).await,
    }
}
