//! `weft flow watch`: a flow until it is done. Redraws its tree on a terminal; elsewhere writes a line per change.

use super::{end_of, graph};
use crate::End;
use crate::fault::Fault;
use crate::remote::{Form, Patience, Remote, duration, flow_name};
use crate::render::{self, time};
use crate::terminal;
use anyhow::Result;
use std::io::IsTerminal;
use std::time::Duration;
use weft_api::flow::{Flow, Graph};
use weft_graph::tree;

/// Watch a flow until it is done; exit 5 if it ends without success
#[derive(clap::Args)]
#[command(before_help = "example: weft flow watch 3c9e01 --timeout 5m")]
pub struct Args {
    /// Its id, or a unique end of it
    #[arg(value_name = "ID")]
    id: String,

    /// Time between two looks
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "500ms")]
    every: Duration,
}

/// Looks are no closer than this, whatever was asked for.
const EVERY_MIN: Duration = Duration::from_millis(50);

/// Of a flow with more members the totals are shown and not the tree: no terminal has room for it.
const TREE_MEMBERS_MAX: u32 = 500;

pub async fn run(args: Args, remote: Remote) -> Result<End> {
    if remote.form == Form::Json {
        return Err(Fault::usage("a watch tells of every change, and `--json` is one object; take `--jsonl`"));
    }
    let id = flow_name(&remote, &args.id).await?;
    let short = render::id::short(&id);
    let mut patience = Patience::of(&remote);
    let mut view = View::new(&remote);
    let mut flow = super::read(&remote, &id).await?;
    remote.if_interrupted(format!("`{id}` goes on; `weft flow watch {short}` shows it again"));
    loop {
        match view.show(&flow).await {
            Ok(()) if flow.public_flow_state.is_terminal() => return Ok(end_of(&flow)),
            Ok(()) => patience.answered(),
            Err(error) => {
                patience.bear(error).await?;
                view.begin_below();
            }
        }
        if patience.is_over() {
            return Err(patience.timed_out(&flow));
        }
        let every = args.every.max(EVERY_MIN);
        tokio::time::sleep(patience.left().map_or(every, |left| left.min(every))).await;
        match super::read(&remote, &id).await {
            Ok(now) => {
                patience.answered();
                flow = now;
            }
            Err(error) => {
                patience.bear(error).await?;
                view.begin_below();
            }
        }
    }
}

/// What was shown last.
struct View<'a> {
    remote: &'a Remote,
    /// Drawn over itself
    over: bool,
    /// Rows that it takes on the terminal
    rows: usize,
    written: String,
    /// Of which change of the flow
    graph: Option<(String, Graph)>,
}

impl<'a> View<'a> {
    fn new(remote: &'a Remote) -> Self {
        let over = remote.form == Form::People && std::io::stdout().is_terminal();
        Self { remote, over, rows: 0, written: String::new(), graph: None }
    }

    /// Something was said below the view: it stays, and the next one begins under that.
    fn begin_below(&mut self) {
        self.rows = 0;
    }

    async fn show(&mut self, flow: &Flow) -> Result<()> {
        match self.over {
            true => self.draw(flow).await,
            false => self.write(flow),
        }
    }

    async fn draw(&mut self, flow: &Flow) -> Result<()> {
        let (now, paint) = (time::now_ms(), self.remote.colour.out);
        let text = if flow.summary.total_members > TREE_MEMBERS_MAX {
            render::flow::card(flow, now, paint)
        } else {
            if self.graph.as_ref().is_none_or(|(etag, _)| *etag != flow.etag) {
                self.graph = Some((flow.etag.clone(), graph::read(self.remote, &flow.id).await?));
            }
            let options = tree::Options { colour: paint.is_on(), width: terminal::width() };
            let graph = self.graph.as_ref().map(|(_, graph)| render::graph::picture(graph, now));
            weft_graph::tree(&graph.unwrap_or_default(), &options)
        };
        let shown = fit(text.trim_end(), terminal::height());
        self.rows = terminal::redraw(self.rows, &shown)?;
        Ok(())
    }

    /// One line for each change that a reader can see.
    fn write(&mut self, flow: &Flow) -> Result<()> {
        let line = match self.remote.form {
            Form::People => format!("{}  {}", flow.id, render::flow::standing(flow, self.remote.colour.out)),
            Form::Ids => flow.public_flow_state.name().to_owned(),
            Form::Json | Form::Jsonl => flow.etag.clone(),
        };
        if line == self.written {
            return Ok(());
        }
        let put = self.remote.put(flow, &line, || line.clone());
        self.written = line;
        put
    }
}

/// As many lines as a terminal can draw over: a line that has scrolled away cannot be reached again.
fn fit(text: &str, height: Option<usize>) -> String {
    let room = height.map_or(usize::MAX, |height| height.saturating_sub(2).max(1));
    let lines = text.lines().count();
    if lines <= room {
        return text.to_owned();
    }
    let shown: Vec<&str> = text.lines().take(room).collect();
    format!("{}\n… and {}", shown.join("\n"), render::count((lines - room) as u64, "more line"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_no_higher_than_the_terminal() {
        assert_eq!(fit("a\nb\nc", Some(5)), "a\nb\nc");
        assert_eq!(fit("a\nb\nc", Some(4)), "a\nb\n… and 1 more line");
        assert_eq!(fit("a\nb", None), "a\nb");
    }
}
