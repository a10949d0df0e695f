//! The commands that talk to a server, and the way to each.

use crate::remote::{Options, With};
use crate::terminal::Colour;
use crate::{End, audit, execution, flow, key, scanners, top, workers};
use anyhow::Result;
use execution::{
    cancel, count, explain, force_complete, force_fail, get, history, hold, list, priority, purge, release, replay,
    reschedule, result, revoke, submit, tag, wait,
};

#[derive(clap::Subcommand)]
pub enum Command {
    Submit(With<submit::Args>),
    Get(With<get::Args>),
    List(With<list::Args>),
    Count(With<count::Args>),
    Explain(With<explain::Args>),
    History(With<history::Args>),
    Result(With<result::Args>),
    Wait(With<wait::Args>),
    Cancel(With<cancel::Args>),
    Replay(With<replay::Args>),
    Hold(With<hold::Args>),
    Release(With<release::Args>),
    Revoke(With<revoke::Args>),
    Priority(With<priority::Args>),
    Reschedule(With<reschedule::Args>),
    Tag(With<tag::Args>),
    ForceComplete(With<force_complete::Args>),
    ForceFail(With<force_fail::Args>),
    Purge(With<purge::Args>),
    Top(With<top::Args>),
    Workers(With<workers::list::Args>),
    Drain(With<workers::drain::Args>),
    Undrain(With<workers::undrain::Args>),
    MarkDead(With<workers::mark_dead::Args>),
    #[command(subcommand, before_help = "example: weft flow list")]
    Flow(flow::Command),
    #[command(subcommand, before_help = "example: weft key list")]
    Key(key::Command),
    Scanners(scanners::Scanners),
    Audit(audit::Audit),
}

/// Runs a command. `before` is what was said before its name.
pub fn run(command: Command, before: Options, colour: Colour) -> Result<End> {
    match command {
        Command::Submit(with) => with.run(before, colour, submit::run),
        Command::Get(with) => with.run(before, colour, get::run),
        Command::List(with) => with.run(before, colour, list::run),
        Command::Count(with) => with.run(before, colour, count::run),
        Command::Explain(with) => with.run(before, colour, explain::run),
        Command::History(with) => with.run(before, colour, history::run),
        Command::Result(with) => with.run(before, colour, result::run),
        Command::Wait(with) => with.run(before, colour, wait::run),
        Command::Cancel(with) => with.run(before, colour, cancel::run),
        Command::Replay(with) => with.run(before, colour, replay::run),
        Command::Hold(with) => with.run(before, colour, hold::run),
        Command::Release(with) => with.run(before, colour, release::run),
        Command::Revoke(with) => with.run(before, colour, revoke::run),
        Command::Priority(with) => with.run(before, colour, priority::run),
        Command::Reschedule(with) => with.run(before, colour, reschedule::run),
        Command::Tag(with) => with.run(before, colour, tag::run),
        Command::ForceComplete(with) => with.run(before, colour, force_complete::run),
        Command::ForceFail(with) => with.run(before, colour, force_fail::run),
        Command::Purge(with) => with.run(before, colour, purge::run),
        Command::Top(with) => with.run(before, colour, top::run),
        Command::Workers(with) => with.run(before, colour, workers::list::run),
        Command::Drain(with) => with.run(before, colour, workers::drain::run),
        Command::Undrain(with) => with.run(before, colour, workers::undrain::run),
        Command::MarkDead(with) => with.run(before, colour, workers::mark_dead::run),
        Command::Flow(command) => flow::run(command, before, colour),
        Command::Key(command) => key::run(command, before, colour),
        Command::Scanners(scanners) => scanners::run(scanners, before, colour),
        Command::Audit(audit) => audit::run(audit, before, colour),
    }
}
