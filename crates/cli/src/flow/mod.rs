//! Commands about flows: submitting, reading, drawing, watching, and every verb.

pub mod add;
pub mod cancel;
mod file;
pub mod finish;
pub mod get;
pub mod graph;
pub mod list;
pub mod members;
pub mod replay;
pub mod seal;
pub mod submit;
pub mod watch;

use crate::End;
use crate::remote::{Options, Remote, With};
use crate::render;
use crate::terminal::Colour;
use anyhow::Result;
use weft_api::flow::{Flow, FlowQuery, PublicFlowState};
use weft_api::op;
use weft_api::operation::NoBody;

/// Submit, show, draw, watch and steer flows, which are graphs of executions
#[derive(clap::Subcommand)]
pub enum Command {
    Submit(With<submit::Args>),
    Get(With<get::Args>),
    List(With<list::Args>),
    Members(With<members::Args>),
    Graph(With<graph::Args>),
    Watch(With<watch::Args>),
    Add(With<add::Args>),
    Cancel(With<cancel::Args>),
    Replay(With<replay::Args>),
    Seal(With<seal::Args>),
    Finish(With<finish::Args>),
}

pub fn run(command: Command, before: Options, colour: Colour) -> Result<End> {
    match command {
        Command::Submit(with) => with.run(before, colour, submit::run),
        Command::Get(with) => with.run(before, colour, get::run),
        Command::List(with) => with.run(before, colour, list::run),
        Command::Members(with) => with.run(before, colour, members::run),
        Command::Graph(with) => with.run(before, colour, graph::run),
        Command::Watch(with) => with.run(before, colour, watch::run),
        Command::Add(with) => with.run(before, colour, add::run),
        Command::Cancel(with) => with.run(before, colour, cancel::run),
        Command::Replay(with) => with.run(before, colour, replay::run),
        Command::Seal(with) => with.run(before, colour, seal::run),
        Command::Finish(with) => with.run(before, colour, finish::run),
    }
}

async fn read(remote: &Remote, id: &str) -> Result<Flow> {
    remote.call::<op::GetFlow>("get it", [id.to_owned()], FlowQuery::default(), NoBody {}).await
}

/// Shows how a flow ended; its exit code is that of its end.
fn put_ending(remote: &Remote, ended: &Flow) -> Result<()> {
    remote.put(ended, &ended.id, || format!("{}  {}", ended.id, render::flow::ending(ended, remote.colour.out)))
}

fn end_of(ended: &Flow) -> End {
    match ended.public_flow_state {
        PublicFlowState::Completed => End::Done,
        _ => End::Unsuccessful,
    }
}
