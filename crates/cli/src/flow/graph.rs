//! `weft flow graph`: a picture of a flow, as text or in a file.

use crate::End;
use crate::fault::{Code, Fault};
use crate::remote::{Form, Remote, flow_name};
use crate::render::{self, time};
use crate::terminal;
use anyhow::{Context, Result};
use std::path::PathBuf;
use weft_api::flow::Graph;
use weft_api::op;
use weft_api::operation::NoBody;
use weft_api::page::PageQuery;
use weft_graph::{svg, tree};

/// Draw a flow: as a tree, for Graphviz or Mermaid, or as a picture
#[derive(clap::Args)]
#[command(before_help = "example: weft flow graph 3c9e01 --mermaid")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// For Graphviz
    #[arg(long, conflicts_with_all = ["mermaid", "svg"])]
    dot: bool,

    /// For Mermaid
    #[arg(long, conflicts_with = "svg")]
    mermaid: bool,

    /// As an SVG picture
    #[arg(long)]
    svg: bool,

    /// Write it to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    let is_json = matches!(remote.form, Form::Json | Form::Jsonl);
    if is_json && (args.dot || args.mermaid || args.svg || args.output.is_some()) {
        return Err(Fault::usage("a picture is no JSON: give `--json` alone, or one of `--dot`, `--mermaid`, `--svg`"));
    }
    let id = flow_name(&remote, &args.id).await?;
    let graph = read(&remote, &id).await?;
    if is_json {
        return remote.put(&graph, &graph.id, String::new).map(|()| End::Done);
    }
    let text = drawn(&args, &graph, &remote);
    match &args.output {
        Some(file) => {
            let name = file.display();
            std::fs::write(file, text).with_context(|| Fault::new(Code::Refused, format!("cannot write `{name}`")))?;
            remote.say(&format!("written to `{name}`"));
        }
        None => terminal::put(text.trim_end_matches('\n'))?,
    }
    Ok(End::Done)
}

fn drawn(args: &Args, graph: &Graph, remote: &Remote) -> String {
    let picture = render::graph::picture(graph, time::now_ms());
    if args.dot {
        return weft_graph::dot(&picture);
    }
    if args.mermaid {
        return weft_graph::mermaid(&picture);
    }
    if args.svg {
        return weft_graph::svg(&picture, &svg::Options::default());
    }
    let for_eyes = args.output.is_none();
    let colour = for_eyes && remote.colour.out.is_on();
    weft_graph::tree(&picture, &tree::Options { colour, width: terminal::width().filter(|_| for_eyes) })
}

/// The largest page of a graph.
const PAGE_MAX: u32 = 1_000;

/// A whole graph, page by page. What is added meanwhile may be missing.
pub async fn read(remote: &Remote, id: &str) -> Result<Graph> {
    let mut whole: Option<Graph> = None;
    let mut query = PageQuery { limit: Some(PAGE_MAX), cursor: None };
    loop {
        let mut page = remote.call::<op::GetGraph>("read its graph", [id.to_owned()], query.clone(), NoBody {}).await?;
        let next = page.next_cursor.take();
        let so_far = match whole.take() {
            None => page,
            Some(mut graph) => {
                graph.nodes.append(&mut page.nodes);
                graph.edges.append(&mut page.edges);
                Graph { nodes: graph.nodes, edges: graph.edges, ..page }
            }
        };
        match next {
            Some(cursor) => {
                query.cursor = Some(cursor);
                whole = Some(so_far);
            }
            None => return Ok(so_far),
        }
    }
}
