//! `weft config`: what is set, whether it is right, and a file to begin with.

mod check;
mod show;

use crate::End;
use crate::fault::Fault;
use crate::settings::Arguments;
use crate::terminal::{self, Colour};
use anyhow::Result;

/// Show and check the configuration, or print a `weft.toml` to begin with
#[derive(clap::Args)]
#[command(before_help = "example: weft config show", arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Show(Read),
    Check(Check),
    /// Print a `weft.toml` with every key, its default and what it does
    #[command(before_help = "example: weft config example > weft.toml")]
    Example,
}

/// Print every value with its origin; secrets are hidden
#[derive(clap::Args)]
#[command(before_help = "example: weft config show --listen 127.0.0.1:7800")]
struct Read {
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    arguments: Arguments,
}

/// Tell every mistake in file, environment and flags; exit 2 if there is one
#[derive(clap::Args)]
#[command(before_help = "example: weft config check")]
struct Check {
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    arguments: Arguments,
}

impl Args {
    /// Whether this is `weft config check`, which reports unknown variables among the mistakes.
    pub fn is_check(&self) -> bool {
        matches!(self.command, Command::Check(_))
    }
}

/// `said` is `--json` before the name of the command.
pub fn run(args: Args, said: bool, colour: Colour) -> Result<End> {
    match args.command {
        Command::Show(Read { json, arguments }) => show::run(&arguments.load()?, json || said, colour),
        Command::Check(Check { json, arguments }) => check::run(&arguments, json || said),
        Command::Example if said => {
            Err(Fault::usage("`--json` is given, and the example is a `weft.toml`: leave it out"))
        }
        Command::Example => {
            terminal::put(weft_config::example().trim_end())?;
            Ok(End::Done)
        }
    }
}
