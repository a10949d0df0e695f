//! A node while it runs: its listeners, what stops it, be it a signal or an operator, and stopping in order. The same for
//! `serve` and `dev`.

pub mod build;
mod stop;

pub use stop::Stop;

use crate::End;
use crate::fault::{Code, Fault};
use anyhow::Result;
use std::io::ErrorKind;
use std::net::SocketAddr;
use weft_server::{App, ListenError, Listener, Stopped};

pub struct Node {
    pub app: App,
    pub listener: Listener,
    pub metrics: Option<Listener>,
}

impl Node {
    /// Serves until it is told to stop, then lets everything end in order: calls are answered, the engine commits what
    /// it has, the store is closed.
    pub async fn run(self, stop: Stop) -> Result<End> {
        let Node { app, listener, metrics } = self;
        // Until the very end: a stop is worth watching.
        let metrics = metrics.map(|metrics| tokio::spawn(metrics.run(std::future::pending())));
        let engine = app.engine().clone();
        let told = async move {
            tokio::select! {
                () = stop.begun() => {}
                wish = engine.drain_wanted() => {
                    tracing::info!(by = &*wish.by, reason = &*wish.reason, "stopping; an operator drains this node");
                }
            }
        };
        let stopped = listener.run(told).await;
        app.engine().shutdown().await;
        if let Some(metrics) = metrics {
            metrics.abort();
        }
        match stopped {
            Stopped::Clean => {
                tracing::info!("stopped; every call was answered");
                Ok(End::Done)
            }
            Stopped::Cut => {
                let text = "stopped before every call was answered; `server.drain` sets how long they may take";
                Err(Fault::error(Code::Unreachable, text))
            }
        }
    }
}

/// Refuses an address at which nothing can listen now, before folders and keys are made. It may be taken a moment later still.
pub fn refuse_taken(address: SocketAddr, hint: &str) -> Result<()> {
    let Err(why) = std::net::TcpListener::bind(address) else { return Ok(()) };
    let fault = Fault::new(Code::Usage, format!("cannot listen on {address}: {why}"));
    Err(if why.kind() == ErrorKind::AddrInUse { fault.hint(hint) } else { fault }.into())
}

/// A socket that cannot be had.
pub fn not_listening(error: ListenError) -> anyhow::Error {
    Fault::error(Code::Usage, error.to_string())
}

pub fn version() -> String {
    format!("weft {}", env!("CARGO_PKG_VERSION"))
}

/// Secrets are in memory. A limit of one byte, not of none: the system hands a dump to a program in spite of a limit of
/// none, and to nobody if it is one.
pub fn forbid_core_dumps() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let none = Rlimit { current: Some(1), maximum: Some(1) };
    // A system that forbids to lower a limit has none of our business to stop for.
    let _ = setrlimit(Resource::Core, none);
}
