//! The `weft` binary: parses and validates everything, then builds it. The only crate besides the server that names a
//! concrete store. Holds no rules.

mod bench;
mod config;
mod crash_node;
mod demo;
mod dev;
mod doctor;
mod export;
mod fault;
mod import;
mod log;
mod migrate;
mod node;
mod nodes;
#[cfg(feature = "otel")]
mod otel;
mod registry;
mod serve;
mod settings;
mod sim;
mod store;
mod terminal;
mod transfer;
mod version;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable executions on SQLite, PostgreSQL or Valkey.
#[derive(Parser)]
#[command(name = "weft", version, before_help = "example: weft demo", arg_required_else_help = true)]
#[command(max_term_width = 100, propagate_version = false)]
struct Weft {
    #[command(subcommand)]
    command: Command,

    /// Never write colours; `NO_COLOR` says the same
    #[arg(long, global = true)]
    no_color: bool,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Dev(dev::Args),
    Config(Box<config::Args>),
    Bench(bench::Args),
    Sim(sim::Args),
    Migrate(migrate::Args),
    Doctor(doctor::Args),
    Export(export::Args),
    Import(import::Args),
    Nodes(nodes::Args),
    Version(version::Args),
    #[command(hide = true)]
    CrashNode(crash_node::Args),
}

/// How a command ended, short of an error.
pub enum End {
    Done,
    /// It ran, and its answer is no: a violation was found.
    Refused,
    Interrupted,
}

fn main() -> ExitCode {
    let weft = Weft::parse();
    // The simulator breaks things by the thousand: what the engine says about each is no news. What runs on has a log.
    if !matches!(weft.command, Command::Sim(_) | Command::Dev(_)) {
        terminal::log_to_stderr();
    }
    let colour = terminal::Colour::choose(weft.no_color);
    let ended = match weft.command {
        Command::Demo(args) => demo::run(args, colour),
        Command::Dev(args) => dev::run(args, colour),
        Command::Config(args) => config::run(*args, colour),
        Command::Bench(args) => bench::run(args, colour),
        Command::Sim(args) => sim::run(args, colour),
        Command::Migrate(args) => migrate::run(args),
        Command::Doctor(args) => doctor::run(args, colour),
        Command::Export(args) => export::run(args, colour),
        Command::Import(args) => import::run(args, colour),
        Command::Nodes(args) => nodes::run(args, colour),
        Command::Version(args) => version::run(args),
        Command::CrashNode(args) => crash_node::run(args),
    };
    match ended {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Refused) => ExitCode::from(1),
        Ok(End::Interrupted) => ExitCode::from(130),
        // Whoever reads the output has gone; there is nobody left to tell.
        Err(error) if terminal::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::say(&format!("{} {error:#}", colour.err.red("error:")));
            ExitCode::from(fault::Fault::exit_code(&error))
        }
    }
}
