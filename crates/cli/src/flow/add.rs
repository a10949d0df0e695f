//! `weft flow add`: members and edges for a flow that is there.

use super::file::{self, Wanted};
use crate::End;
use crate::fault::Fault;
use crate::remote::{Remote, flow_name};
use crate::render::count;
use anyhow::Result;
use serde::Deserialize;
use weft_api::flow::{AddEdges, AddMembers, Grown, NewEdge, NewMember};
use weft_api::op;
use weft_api::operation::NoQuery;

/// Add members and edges to a flow, all of them or none
#[derive(clap::Args)]
#[command(before_help = "example: weft flow add 3c9e01 more.yaml")]
#[command(
    after_help = "A file holds members and edges, in YAML or JSON; edges may also lead from and to members that are there:\n  \
    members:\n  \
    - {key: report, kind: report}\n  \
    edges:\n  \
    - {from: merge, to: report}\n\
    Adding the same again changes nothing."
)]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// File that holds members, edges or both, or `-` for stdin
    #[arg(value_name = "FILE")]
    file: String,

    /// More edges to the new members follow: none of them runs before `weft flow seal`
    #[arg(long)]
    unsealed: bool,

    /// Refuse if the graph has changed since this revision, which `weft flow get --json` tells
    #[arg(long, value_name = "N")]
    revision: Option<u64>,
}

/// What a file may hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with `members`, `edges` or both")]
struct Parts {
    #[serde(default)]
    members: Vec<NewMember>,
    #[serde(default)]
    edges: Vec<NewEdge>,
}

const WANTED: Wanted = Wanted { noun: "a part of a flow", help: "weft flow add" };

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let Parts { members, edges } = file::read(&args.file, &WANTED).await?;
    if members.is_empty() && edges.is_empty() {
        return Err(Fault::usage(format!("`{}` holds neither members nor edges", args.file)));
    }
    if members.is_empty() && args.unsealed {
        return Err(Fault::usage("`--unsealed` is about new members, and there is none"));
    }
    let id = flow_name(&remote, &args.id).await?;
    let counts = (members.len(), edges.len());
    let (path, expected_revision) = ([id.clone()], args.revision);
    let grown = match members.is_empty() {
        true => {
            let body = AddEdges { edges, expected_revision, request_id: None };
            remote.call::<op::AddEdges>("add to it", path, NoQuery {}, body).await?
        }
        false => {
            let seal = args.unsealed.then_some(false);
            let body = AddMembers { members, edges, seal, expected_revision, request_id: None };
            remote.call::<op::AddMembers>("add to it", path, NoQuery {}, body).await?
        }
    };
    remote.put(&grown, &id, || format!("{id}  {}", shown(&grown, counts)))?;
    Ok(End::Done)
}

/// `added 2 members and 1 edge; 1 member was there already`.
fn shown(grown: &Grown, (members, edges): (usize, usize)) -> String {
    let known = [(grown.members_existed.len(), "member"), (grown.edges_existed as usize, "edge")];
    let new = [(members - known[0].0.min(members), "member"), (edges - known[1].0.min(edges), "edge")];
    let told = |some: [(usize, &str); 2]| -> Vec<String> {
        some.into_iter().filter(|(number, _)| *number > 0).map(|(number, noun)| count(number as u64, noun)).collect()
    };
    let mut parts = Vec::new();
    match told(new).join(" and ") {
        none if none.is_empty() => {}
        new => parts.push(format!("added {new}")),
    }
    match told(known).join(" and ") {
        none if none.is_empty() => {}
        known => parts.push(format!("there already: {known}")),
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_is_told_apart_from_what_was_there() {
        let grown = |existed: &[&str], edges_existed| Grown {
            members: Default::default(),
            members_existed: existed.iter().map(|key| (*key).to_owned()).collect(),
            edges_existed,
            revision: 2,
        };
        assert_eq!(shown(&grown(&[], 0), (2, 1)), "added 2 members and 1 edge");
        assert_eq!(shown(&grown(&["a"], 1), (2, 1)), "added 1 member; there already: 1 member and 1 edge");
        assert_eq!(shown(&grown(&["a"], 0), (1, 0)), "there already: 1 member");
    }
}
