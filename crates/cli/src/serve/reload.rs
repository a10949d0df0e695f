//! SIGHUP: what can change while the server runs is read again.

use crate::log::Guard;
use crate::serve::{build, check};
use crate::settings::{self, Arguments};
use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};
use weft_config::Settings;
use weft_server::{App, Listener};

/// Reads everything again at every SIGHUP. A mistake changes nothing and is told.
pub fn on_hangup(arguments: Arguments, settings: Settings, app: &App, listener: &Listener, guard: Guard) -> Result<()> {
    let mut hangups = signal(SignalKind::hangup()).context("could not listen for signals")?;
    let (app, identity, mut settings) = (app.clone(), listener.identity(), settings);
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            match settings.reload(arguments.sources()) {
                Err(mistakes) => tell(&settings::told(&mistakes)),
                Ok(reloaded) => {
                    let mistakes = check(&reloaded.settings);
                    if !mistakes.is_empty() {
                        tell(&mistakes);
                        continue;
                    }
                    settings = reloaded.settings;
                    app.reload(build::rates(&settings), settings.get(weft_config::keys::SERVER_CORS_ORIGINS));
                    let _ = guard.reload(&settings);
                    let _ = &identity;
                    tracing::info!(changed = reloaded.changed.join(", "), "read the configuration again");
                    if !reloaded.restart.is_empty() {
                        let keys = reloaded.restart.join(", ");
                        tracing::warn!(keys, "these have changed, and take a restart");
                    }
                }
            }
        }
    });
    Ok(())
}

fn tell(mistakes: &[String]) {
    for mistake in mistakes {
        tracing::error!(mistake, "cannot read the configuration again; everything stays as it was");
    }
}
