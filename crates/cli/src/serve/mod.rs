//! `weft serve`: the server, as it is run in production. Everything is validated before anything is opened.

mod audit_file;
mod bootstrap;
mod folder;
pub mod master;
mod reload;

use self::audit_file::AuditFile;
use self::reload::Reloading;
use crate::node::{self, Node, Stop, build};
use crate::settings::{self, Arguments};
use crate::store::{self, Address};
use crate::terminal::{self, Colour};
use crate::{End, log};
use anyhow::{Context, Result};
use std::sync::Arc;
use weft_config::{Settings, keys};
use weft_engine::Engine;
use weft_server::{App, Auth, Listener};

/// Run the server; every key of the configuration is a flag
#[derive(clap::Args)]
#[command(before_help = "example: weft serve --store sqlite:weft-data/weft.db --listen 127.0.0.1:7700")]
pub struct Args {
    /// Validate the configuration and exit
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    arguments: Arguments,
}

pub fn run(args: Args, colour: Colour) -> Result<End> {
    let settings = args.arguments.load()?;
    let mistakes = check(&settings);
    if !mistakes.is_empty() {
        return Err(settings::refusal(&mistakes));
    }
    if args.check {
        terminal::say("the configuration is fine");
        return Ok(End::Done);
    }
    node::forbid_core_dumps();
    store::runtime_for_server()?.block_on(async {
        let guard = log::start(&settings, colour.err)?;
        serve(&args.arguments, settings, guard, colour).await
    })
}

/// What is wrong with settings that can each be read, without opening the store.
pub fn check(settings: &Settings) -> Vec<String> {
    let told = |error: anyhow::Error| format!("{error:#}");
    let mut mistakes = Vec::new();
    match Address::configured(settings) {
        Ok(address) => mistakes.extend(master::check(settings, &address).err().map(told)),
        Err(error) => mistakes.push(told(error)),
    }
    mistakes.extend(bootstrap::check(settings).err().map(told));
    mistakes.extend(build::identity(settings).err().map(told));
    mistakes.extend(log::check(settings).err().map(told));
    if settings.get(keys::SERVER_CORS_ORIGINS).iter().any(|origin| origin == "*") {
        let origin = settings.origin(keys::SERVER_CORS_ORIGINS);
        mistakes
            .push(format!("`server.cors_origins` has `*` ({origin}), which only `weft dev` takes: list the origins"));
    } else {
        mistakes.extend(build::origins(settings, false).err().map(told));
    }
    mistakes
}

async fn serve(arguments: &Arguments, settings: Settings, guard: log::Guard, colour: Colour) -> Result<End> {
    // Before anything else: a signal that comes during the start is a wish to stop, or to read again, too.
    let (stop, hangups) = (Stop::listen()?, reload::hangups()?);
    let listen = settings.get(keys::SERVER_LISTEN);
    node::refuse_taken(listen, "`--listen` or `server.listen` names another one; perhaps `weft serve` runs already")?;
    let metrics_listen = settings.get(keys::METRICS_LISTEN);
    if let Some(address) = metrics_listen {
        node::refuse_taken(address, "`metrics.listen` names another one")?;
    }
    let address = Address::configured(&settings)?;
    let folder = folder::of(&settings, &address);
    folder::make(&folder)?;
    address.refuse_due(&settings)?;
    let store = address.open().await?;
    let master = master::load(&settings, &address, &folder)?;
    let engine = Engine::open(store, build::engine(&settings)?).await?;
    let copied = settings.get(keys::AUDIT_FILE).map(|path| AuditFile::begin(path, &engine)).transpose()?;
    let moved = copied.as_ref().map(AuditFile::reopened_by);
    let copying = copied.map(|copied| tokio::spawn(copied.run()));
    let key = bootstrap::make(&engine, &master, &settings, &folder).await?;

    let auth = Auth::Keyed { macs: master.key.macs(), keys: Arc::new(engine.clone()) };
    let app = App::new(engine.clone(), build::options(&settings, auth)?);
    app.show_settings(build::shown(&settings));
    let listener = Listener::bind(&app, listen, build::identity(&settings)?).await.map_err(node::not_listening)?;
    let metrics = match metrics_listen {
        None => None,
        Some(address) => Some(Listener::bind_metrics(&app, address).await.map_err(node::not_listening)?),
    };
    let scheme = if settings.get(keys::SERVER_TLS_CERT).is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", listener.address());
    greet(&url, &address, &engine, metrics.as_ref(), colour);
    key.tell(&folder, colour);
    terminal::say("help      `weft serve --help`, `weft doctor`; Ctrl-C stops it");
    let reloading = Reloading::new(arguments, settings, &app, &listener, moved, hangups);
    let ended = tokio::select! {
        ended = Node { app, listener, metrics }.run(stop) => ended,
        () = reloading.run(&guard) => Ok(End::Done),
    };
    engine.stop_audited();
    if let Some(copying) = copying {
        // It ends with the last entry, and a panic there has been told.
        let _ = copying.await;
    }
    ended
}

fn greet(url: &str, address: &Address, engine: &Engine, metrics: Option<&Listener>, colour: Colour) {
    let described = engine.describe();
    let line = |name: &str, what: &str| terminal::say(&format!("{name:<10}{what}"));
    let partitions = match described.partitions {
        1 => "1 partition".to_owned(),
        count => format!("{count} partitions"),
    };
    terminal::say(&format!("{} serves {}", node::version(), colour.err.bold(url)));
    line("store", &format!("{address}, {partitions}, durability {}", described.durability.level.name()));
    line("API", &format!("{url}/docs"));
    if let Some(metrics) = metrics {
        line("metrics", &format!("http://{}/metrics", metrics.address()));
    }
}

/// A folder that cannot be used, in the words of everything else.
fn cannot(what: &str, path: &std::path::Path) -> String {
    format!("cannot {what} `{}`", path.display())
}

/// Writes a file that only this user can read, and lets it reach the disk.
fn write_private(path: &std::path::Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let written = || {
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        std::fs::File::open(folder.unwrap_or(std::path::Path::new(".")))?.sync_all()
    };
    written().with_context(|| cannot("write", path))
}
