//! Commands about scanners: how those of a node are doing, and what they have parked.

mod discard;
mod list;
mod parked;
mod retry;

use crate::End;
use crate::remote::{Options, With};
use crate::terminal::Colour;
use anyhow::Result;

/// Show how the scanners of a node are doing; `parked` is about what they could not handle
#[derive(clap::Args)]
#[command(before_help = "example: weft scanners", args_conflicts_with_subcommands = true)]
pub struct Scanners {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    list: With<list::Args>,
}

#[derive(clap::Subcommand)]
enum Command {
    Parked(Box<Parked>),
}

/// List items that scanners could not handle; `retry` and `discard` end that
#[derive(clap::Args)]
#[command(before_help = "example: weft scanners parked", args_conflicts_with_subcommands = true)]
struct Parked {
    #[command(subcommand)]
    command: Option<Verb>,

    #[command(flatten)]
    list: With<parked::Args>,
}

#[derive(clap::Subcommand)]
enum Verb {
    Retry(With<retry::Args>),
    Discard(With<discard::Args>),
}

pub fn run(scanners: Scanners, before: Options, colour: Colour) -> Result<End> {
    let Some(Command::Parked(parked)) = scanners.command else {
        return scanners.list.run_anywhere(before, colour, list::run);
    };
    match parked.command {
        None => parked.list.run_anywhere(before, colour, parked::run),
        Some(Verb::Retry(with)) => with.run_anywhere(before, colour, retry::run),
        Some(Verb::Discard(with)) => with.run_anywhere(before, colour, discard::run),
    }
}
