//! The `weft` binary: parses and validates everything, then builds it. The only crate besides the server that names a
//! concrete store. Holds no rules.

mod audit;
mod bench;
mod calls;
mod completion;
mod config;
mod crash_node;
mod demo;
mod dev;
mod doctor;
mod execution;
mod export;
mod fault;
mod flow;
mod import;
mod key;
mod log;
mod migrate;
mod node;
mod nodes;
mod openapi;
#[cfg(feature = "otel")]
mod otel;
mod registry;
mod remote;
mod render;
mod scanners;
mod serve;
mod settings;
mod sim;
mod store;
mod terminal;
mod top;
mod transfer;
mod version;
mod visible;
mod worker;
mod workers;

use crate::remote::Here;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Durable executions on SQLite, PostgreSQL or Valkey.
#[derive(Parser)]
#[command(name = "weft", version, before_help = "example: weft demo", arg_required_else_help = true)]
#[command(max_term_width = 100, propagate_version = false, after_help = EXIT_CODES)]
struct Weft {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    options: remote::Options,

    /// Never write colours; `NO_COLOR` says the same
    #[arg(long, global = true)]
    no_color: bool,
}

const EXIT_CODES: &str = "Exit codes: 0 done · 1 refused · 2 misused · 3 unreachable or timed out · 4 not allowed\n            \
                          5 the execution or flow ended without success · 130 interrupted";

#[derive(Subcommand)]
enum Command {
    Demo(Here<demo::Args>),
    Dev(Here<dev::Args>),
    Serve(Box<Here<serve::Args>>),
    Config(Box<Here<config::Args>>),
    Worker(Box<worker::Args>),
    #[command(flatten)]
    Remote(Box<calls::Command>),
    Bench(Here<bench::Args>),
    Sim(Here<sim::Args>),
    Migrate(Here<migrate::Args>),
    Doctor(doctor::Args),
    Export(Here<export::Args>),
    Import(Here<import::Args>),
    Nodes(Box<nodes::Args>),
    Completion(Here<completion::Args>),
    Openapi(Here<openapi::Args>),
    Version(Here<version::Args>),
    #[command(hide = true)]
    CrashNode(crash_node::Args),
}

/// How a command ended, short of an error.
pub enum End {
    Done,
    /// It ran, and its answer is no: a violation was found.
    Refused,
    /// An execution or flow that was waited for ended without success.
    Unsuccessful,
    Interrupted,
}

fn main() -> ExitCode {
    // What a worker starts for each of its tasks; it has the variables of a task, which are none of the other commands'.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|command| command == worker::SUPERVISE) {
        return weft_exec::supervise(arguments);
    }
    let weft = Weft::parse();
    // The simulator breaks things by the thousand: what the engine says about each is no news. What runs on has a log.
    if !matches!(weft.command, Command::Sim(_) | Command::Dev(_) | Command::Serve(_) | Command::Worker(_)) {
        terminal::log_to_stderr();
    }
    let colour = terminal::Colour::choose(weft.no_color);
    match run(weft.command, weft.options, colour) {
        Ok(End::Done) => ExitCode::SUCCESS,
        Ok(End::Refused) => ExitCode::from(1),
        Ok(End::Unsuccessful) => ExitCode::from(5),
        Ok(End::Interrupted) => ExitCode::from(130),
        // Whoever reads the output has gone; there is nobody left to tell.
        Err(error) if terminal::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::say_error(&error, colour);
            ExitCode::from(fault::Fault::exit_code(&error))
        }
    }
}

/// Runs a command. `before` is what was said before its name.
fn run(command: Command, before: remote::Options, colour: terminal::Colour) -> anyhow::Result<End> {
    match command {
        Command::Remote(command) => calls::run(*command, before, colour),
        Command::Worker(args) => worker::run(*args, before, colour),
        Command::Doctor(args) => doctor::run(args, before, colour),
        Command::Nodes(args) => nodes::run(*args, before, colour),
        _ if before.is_about_server() => Err(fault::Fault::usage(
            "`--url`, `--key`, `--namespace`, `--timeout` and the like are for commands that talk to a server, and this \
             one does not",
        )),
        command => {
            if before.is_quiet() || is_quiet(&command) {
                terminal::be_quiet();
            }
            if !matches!(&command, Command::Config(it) if it.args.is_check()) {
                settings::warn_of_unknown_variables();
            }
            run_here(command, before.is_json(), colour)
        }
    }
}

/// Whether `--quiet` stands after the name of a command that talks to no server.
fn is_quiet(command: &Command) -> bool {
    match command {
        Command::Demo(it) => it.quiet,
        Command::Dev(it) => it.quiet,
        Command::Serve(it) => it.quiet,
        Command::Config(it) => it.quiet,
        Command::Bench(it) => it.quiet,
        Command::Sim(it) => it.quiet,
        Command::Migrate(it) => it.quiet,
        Command::Export(it) => it.quiet,
        Command::Import(it) => it.quiet,
        Command::Completion(it) => it.quiet,
        Command::Openapi(it) => it.quiet,
        Command::Version(it) => it.quiet,
        Command::CrashNode(_) | Command::Remote(_) | Command::Worker(_) | Command::Doctor(_) | Command::Nodes(_) => {
            false
        }
    }
}

/// Runs a command that talks to no server. `json` was said before its name.
fn run_here(mut command: Command, json: bool, colour: terminal::Colour) -> anyhow::Result<End> {
    match &mut command {
        Command::Dev(it) => it.args.json |= json,
        Command::Bench(it) => it.args.json |= json,
        Command::Sim(it) => it.args.json |= json,
        Command::Migrate(it) => it.args.json |= json,
        Command::Export(it) => it.args.json |= json,
        Command::Import(it) => it.args.json |= json,
        Command::Version(it) => it.args.json |= json,
        // `config` is given it below; what `openapi` writes is JSON already.
        Command::Config(_) | Command::Openapi(_) => {}
        _ if json => {
            return Err(fault::Fault::usage("`--json` is given, and this command has nothing to say in JSON"));
        }
        _ => {}
    }
    match command {
        Command::Demo(it) => demo::run(it.args, colour),
        Command::Dev(it) => dev::run(it.args, colour),
        Command::Serve(it) => serve::run(it.args, colour),
        Command::Config(it) => config::run(it.args, json, colour),
        Command::Bench(it) => bench::run(it.args, colour),
        Command::Sim(it) => sim::run(it.args, colour),
        Command::Migrate(it) => migrate::run(it.args),
        Command::Export(it) => export::run(it.args, colour),
        Command::Import(it) => import::run(it.args, colour),
        Command::Completion(it) => completion::run(it.args, Weft::command()),
        Command::Openapi(it) => openapi::run(it.args),
        Command::Version(it) => version::run(it.args),
        Command::CrashNode(args) => crash_node::run(args),
        Command::Remote(_) | Command::Worker(_) | Command::Doctor(_) | Command::Nodes(_) => {
            Err(anyhow::anyhow!("this command talks to a server"))
        }
    }
}
