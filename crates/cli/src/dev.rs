//! `weft dev`: a whole server for one person on one machine. Nobody needs a key, so nobody beyond this machine may call.

use crate::fault::Fault;
use crate::node::{self, Node, Stop, build};
use crate::store;
use crate::terminal::{self, Colour};
use crate::{End, log, settings};
use anyhow::Result;
use serde::Serialize;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use weft_config::{Origin, keys};
use weft_core::Time;
use weft_engine::Engine;
use weft_server::{App, Auth, Listener};
use weft_store::MemoryStore;

/// Run a server for yourself: on this machine only, without keys
#[derive(clap::Args)]
#[command(before_help = "example: weft dev")]
pub struct Args {
    /// Port on this machine; 0 takes one that is free
    #[arg(long, value_name = "PORT", default_value_t = 7700)]
    port: u16,

    /// Folder of the data, which is kept
    #[arg(long, value_name = "DIR", default_value = "weft-data")]
    data_dir: PathBuf,

    /// Keep everything in memory, and nothing after the end
    #[arg(long, conflicts_with = "data_dir")]
    memory: bool,

    /// One JSON object on stdout when it is ready: `{"url": …}`
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Ready<'a> {
    url: &'a str,
    docs: &'a str,
    store: &'a str,
    version: &'a str,
}

/// What may be set in the environment. Where it listens, who may call and what the store is are the point of this
/// command: a variable that is meant for `weft serve` must not open its store to everybody here.
const FROM_ENVIRONMENT: [&str; 7] =
    ["engine.", "execution.", "limits.", "log.", "otel.", "scanners.", "server.cors_origins"];

/// Log levels of `weft dev`: without these exceptions, lines about requests and starting scanners would push the commands to
/// try off the screen.
const QUIET: &str = "info,weft::access=warn,weft_engine::scanner=warn";

pub fn run(args: Args, colour: Colour) -> Result<End> {
    let settings = settings::from_environment(&FROM_ENVIRONMENT)?;
    store::runtime_for_server()?.block_on(async {
        let _guard = match settings.origin(keys::LOG_LEVEL) {
            Origin::BuiltIn => log::start_at(&settings, QUIET, colour.err)?,
            _ => log::start(&settings, colour.err)?,
        };
        let stop = Stop::listen()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
        refuse_before_making(&args, address)?;
        let (config, place) = (build::engine(&settings)?, place(&args));
        let engine = match args.memory {
            true => Engine::open(MemoryStore::new(1, Arc::new(clock)), config).await?,
            false => Engine::open(store::open_dir(&args.data_dir)?, config).await?,
        };
        let app = App::new(engine, build::options(&settings, Auth::Dev)?);
        let listener = Listener::bind(&app, address, None).await.map_err(node::not_listening)?;
        let url = format!("http://{}", listener.address());
        if args.json {
            let docs = &format!("{url}/docs");
            let ready = Ready { url: &url, docs, store: &place, version: env!("CARGO_PKG_VERSION") };
            terminal::put(&serde_json::to_string(&ready)?)?;
        }
        greet(&url, &place, args.port, colour);
        if let Some(line) = unused(settings::variables_beyond(&FROM_ENVIRONMENT)) {
            terminal::say(&line);
        }
        Node { app, listener, metrics: None }.run(stop).await
    })
}

/// What would go wrong only after the folder has been made. The port may be taken a moment later still.
fn refuse_before_making(args: &Args, address: SocketAddr) -> Result<()> {
    node::refuse_taken(address, "`--port 0` takes one that is free; perhaps `weft dev` runs already")?;
    if !args.memory && args.data_dir.exists() && !args.data_dir.is_dir() {
        let text = format!("cannot use `{}`: it is a file, and `--data-dir` names a folder", args.data_dir.display());
        return Err(Fault::usage(text));
    }
    Ok(())
}

/// A line that names the variables which `weft dev` does not use, for users who have set them for `weft serve`.
fn unused(variables: Vec<String>) -> Option<String> {
    let names = variables.join(", ");
    let line = format!("not used: {names}; `weft dev` has a store and an address of its own, `weft serve` takes yours");
    (!variables.is_empty()).then_some(line)
}

fn clock() -> Time {
    Time::from_ms(crate::render::time::now_ms())
}

fn place(args: &Args) -> String {
    match args.memory {
        true => "memory".to_owned(),
        false => args.data_dir.join(store::FILE).display().to_string(),
    }
}

/// Where it is, and what to do first. The commands can be copied as they stand.
fn greet(url: &str, place: &str, port: u16, colour: Colour) {
    let at = if port == 7700 { String::new() } else { format!(" --url {url}") };
    let bold = |text: &str| colour.err.bold(text);
    terminal::say(&format!("{} serves {}", node::version(), bold(url)));
    terminal::say(&format!("  API     {url}/docs"));
    terminal::say(&format!("  data    {place}"));
    terminal::say("  keys    none needed; only this machine can call");
    terminal::say("  log     WEFT_LOG=info shows every request");
    terminal::say("in another terminal, a worker and something for it to do:");
    terminal::say(&format!("  {}", bold(&format!("weft worker{at} --kind hello --exec 'tr a-z A-Z'"))));
    terminal::say(&format!("  {}", bold(&format!("weft submit{at} hello --input '\"world\"' --wait"))));
    terminal::say("Ctrl-C stops it");
}
