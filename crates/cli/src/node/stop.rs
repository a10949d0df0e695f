//! The wish to stop: SIGTERM or Ctrl-C. A second one ends the process at once.

use crate::terminal;
use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Exit code of a process that was interrupted.
const INTERRUPTED: i32 = 130;

#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// From here on signals do not end the process by themselves.
    pub fn listen() -> Result<Self> {
        let failed = "could not listen for signals";
        let mut terminate = signal(SignalKind::terminate()).context(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).context(failed)?;
        let (tell, told) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            terminal::say("stopping; a second signal ends it at once");
            tell.send_replace(true);
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            terminal::say("ended at once");
            std::process::exit(INTERRUPTED);
        });
        Ok(Self(told))
    }

    /// Resolves once there is a wish to stop.
    pub async fn begun(&self) {
        let mut told = self.0.clone();
        if told.wait_for(|begun| *begun).await.is_err() {
            // Whoever would tell is gone with the runtime.
            std::future::pending::<()>().await;
        }
    }
}
