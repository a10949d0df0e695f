//! SIGHUP: what can change while the server runs is read again.

use crate::log::Guard;
use crate::node::build;
use crate::serve::check;
use crate::settings::{self, Arguments};
use anyhow::{Context, Result};
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use weft_config::{Settings, keys};
use weft_server::tls::Identity;
use weft_server::{App, Listener};

/// From here on SIGHUP does not end the process.
pub fn hangups() -> Result<Signal> {
    signal(SignalKind::hangup()).context("could not listen for signals")
}

/// What a reload has an effect on.
pub struct Reloading {
    arguments: Arguments,
    settings: Settings,
    app: App,
    identity: Option<Arc<Identity>>,
    hangups: Signal,
    /// Opens the copy of the audit log again.
    audit_moved: Option<Arc<Notify>>,
}

impl Reloading {
    /// What `hangups` has heard since the start is taken first.
    pub fn new(
        arguments: &Arguments,
        settings: Settings,
        app: &App,
        listener: &Listener,
        audit_moved: Option<Arc<Notify>>,
        hangups: Signal,
    ) -> Self {
        let (arguments, app, identity) = (arguments.clone(), app.clone(), listener.identity());
        Self { arguments, settings, app, identity, hangups, audit_moved }
    }

    /// Reads everything again at every SIGHUP, for ever. A mistake changes nothing and is told.
    pub async fn run(self, guard: &Guard) {
        let Self { arguments, mut settings, app, identity, mut hangups, audit_moved } = self;
        while hangups.recv().await.is_some() {
            if let Some(moved) = &audit_moved {
                moved.notify_one();
            }
            match settings.reload(arguments.sources()) {
                Err(mistakes) => tell(&settings::told(&mistakes)),
                Ok(reloaded) => {
                    let mistakes = check(&reloaded.settings);
                    if !mistakes.is_empty() {
                        tell(&mistakes);
                        continue;
                    }
                    let encrypted = is_encrypted(&settings);
                    settings = reloaded.settings;
                    if is_encrypted(&settings) != encrypted {
                        // The listener was bound with or without TLS, and stays so.
                        let keys = "server.tls_cert, server.tls_key";
                        let now = if encrypted { "on" } else { "off" };
                        tracing::warn!(keys, "TLS stays {now}: to turn it on or off takes a restart");
                    }
                    take(&settings, &app, identity.as_deref(), guard);
                    tracing::info!(changed = reloaded.changed.join(", "), "read the configuration again");
                    if !reloaded.restart.is_empty() {
                        let keys = reloaded.restart.join(", ");
                        tracing::warn!(keys, "these have changed, and take a restart");
                    }
                }
            }
        }
        std::future::pending().await
    }
}

fn is_encrypted(settings: &Settings) -> bool {
    settings.get(keys::SERVER_TLS_CERT).is_some()
}

/// Brings the settings into effect that can change.
fn take(settings: &Settings, app: &App, identity: Option<&Identity>, guard: &Guard) {
    app.show_settings(build::shown(settings));
    match build::origins(settings, false) {
        Ok(origins) => app.reload(build::rates(settings), origins),
        Err(error) => tracing::error!(%error, "cannot take the origins"),
    }
    if let Err(error) = guard.reload(settings) {
        tracing::error!(%error, "cannot take the levels of the log");
    }
    if let (Some(identity), Some(files)) = (identity, build::files(settings))
        && let Err(error) = identity.replace(files)
    {
        tracing::error!(%error, "cannot read the certificate again; the old one stays");
    }
}

fn tell(mistakes: &[String]) {
    for mistake in mistakes {
        tracing::error!(mistake, "cannot read the configuration again; everything stays as it was");
    }
}
