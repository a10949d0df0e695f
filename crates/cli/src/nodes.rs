//! `weft nodes`: who serves a store, and asking one of them to stop.

mod drain;

use crate::End;
use crate::fault::{Code, Fault};
use crate::registry::{self, Seen, State};
use crate::remote::{self, Form, With};
use crate::render::{NONE, plain};
use crate::settings;
use crate::store::{self, Address, StoreArg};
use crate::terminal::{self, Colour, Table, readable_time};
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;
use weft_api::node::{Node, NodeFilter};
use weft_sdk::op;
use weft_store::Store;
use weft_store_sqlite::OpenError;

/// List the nodes that serve a store; `drain` lets one stop
#[derive(clap::Args)]
#[command(before_help = "example: weft nodes", after_help = AFTER, args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    store: StoreArg,

    #[command(flatten)]
    options: remote::Options,
}

#[derive(clap::Subcommand)]
enum Command {
    Drain(With<drain::Args>),
}

#[derive(Serialize)]
struct List {
    items: Vec<Shown>,
}

/// A node as the API has it, and the word for its state.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    node: Node,
    state: &'static str,
}

const AFTER: &str =
    "With --url, or WEFT_URL and no --store, it asks a server: a file can be read only while nobody serves it.";

pub fn run(args: Args, before: remote::Options, colour: Colour) -> Result<End> {
    if let Some(Command::Drain(with)) = args.command {
        return with.run_anywhere(before, colour, drain::run);
    }
    let options = args.options.or(before);
    let form = options.output()?;
    settings::warn_of_unknown_variables();
    let (place, nodes, exclusive) = match options.asks_server(args.store.is_named())? {
        true => (options.find_url(), store::runtime()?.block_on(asked(&options))?, false),
        false => {
            let address = args.store.current()?;
            let (nodes, exclusive) = store::runtime()?.block_on(found(&address))?;
            (address.to_string(), nodes, exclusive)
        }
    };
    match form {
        Form::People => {}
        Form::Json => {
            let items = nodes.into_iter().map(Shown::from).collect();
            terminal::put(&serde_json::to_string(&List { items })?)?;
            return Ok(End::Done);
        }
        Form::Jsonl => {
            let mut lines = nodes.into_iter().map(|node| serde_json::to_string(&Shown::from(node)));
            lines.try_for_each(|line| terminal::put(&line?))?;
            return Ok(End::Done);
        }
        Form::Ids => {
            nodes.iter().try_for_each(|node| terminal::put(&node.id))?;
            return Ok(End::Done);
        }
    }
    if nodes.is_empty() {
        let why = match exclusive {
            true => "one process at a time has it open, so it needs no registry; nobody has it now",
            false => "no node has served it in the last day",
        };
        terminal::say(&format!("{place}: {why}"));
    } else {
        terminal::put(&table(&nodes, colour))?;
    }
    Ok(End::Done)
}

async fn found(address: &Address) -> Result<(Vec<Seen>, bool)> {
    let store = address.open_existing().await.map_err(|error| match error.downcast_ref::<OpenError>() {
        Some(OpenError::Locked { .. }) => Fault::new(Code::Refused, format!("{error:#}"))
            .hint("ask the server that has it: `weft nodes --url http://127.0.0.1:7700`")
            .into(),
        _ => error,
    })?;
    Ok((registry::nodes(&store).await?, store.describe().exclusive))
}

/// The nodes as a server knows them. It does not say whether one that is not live has left.
async fn asked(options: &remote::Options) -> Result<Vec<Seen>> {
    let client = options.client().await?;
    let nodes = client.call::<op::ListNodes>(weft_sdk::Args::default()).await;
    let nodes = nodes.map_err(|error| remote::fault("list nodes", error))?;
    let now = crate::render::time::now_ms();
    Ok(nodes.items.into_iter().map(|node| Seen::told(node, now)).collect())
}

fn word(state: State) -> &'static str {
    match state {
        State::Live => "live",
        State::Silent => "silent",
        State::Left => "left",
    }
}

impl From<Seen> for Shown {
    fn from(node: Seen) -> Self {
        let state = word(node.state);
        let node = Node {
            id: node.id,
            name: node.name,
            version: node.version,
            started_at: node.started_at.ms(),
            seen_at: node.seen_at.ms(),
            live: node.state == State::Live,
            partitions: node.partitions,
            filters: node.filters,
            lag_ms: node.lag_ms,
        };
        Self { node, state }
    }
}

fn table(nodes: &[Seen], colour: Colour) -> String {
    let mut heading = vec!["node", "state", "version", "up", "heartbeat", "partitions", "lag", "id"];
    let filtered = nodes.iter().any(|node| !node.filters.is_empty());
    heading.extend(filtered.then_some("filters"));
    let mut table = Table::left(&heading);
    let time = |ms| readable_time(Duration::from_millis(ms));
    for node in nodes {
        let state = match node.state {
            State::Live => colour.out.green("live"),
            State::Silent => colour.out.yellow(&format!("silent for {}", time(node.silent_ms))),
            State::Left => colour.out.dim("left"),
        };
        let mut row = vec![
            plain(&node.name),
            state,
            plain(&node.version),
            time(node.up_ms),
            format!("{} ago", time(node.silent_ms)),
            ranges(&node.partitions),
            node.lag_ms.map_or(NONE.to_owned(), time),
            plain(&node.id),
        ];
        row.extend(filtered.then(|| filters(&node.filters)));
        table.row(row);
    }
    table.render(colour.out)
}

/// `namespace=shop tag=team=a`, and for single scanners after their names: `lease_expiry: namespace=bank`.
fn filters(filters: &[NodeFilter]) -> String {
    let field = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}={}", plain(value)));
    let one = |filter: &NodeFilter| {
        let fields = [field("namespace", &filter.namespace), field("tag", &filter.tag)].into_iter().flatten();
        let fields = fields.collect::<Vec<_>>().join(" ");
        let scanner = filter.scanner.as_ref().map_or(String::new(), |scanner| format!("{}: ", plain(scanner)));
        format!("{scanner}{}", if fields.is_empty() { NONE } else { &fields })
    };
    match filters.is_empty() {
        true => NONE.to_owned(),
        false => filters.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// Numbers in order, neighbours joined: `0-3, 7`.
fn ranges(numbers: &[u16]) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*number) => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let run = |(first, last): &(u16, u16)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    match runs.is_empty() {
        true => "–".to_owned(),
        false => runs.iter().map(run).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sr_34_filters_of_a_node_are_shown_with_the_scanners_that_have_their_own() {
        let some = |text: &str| Some(text.to_owned());
        let shown = filters(&[
            NodeFilter { scanner: None, namespace: some("shop"), tag: some("team=a") },
            NodeFilter { scanner: some("lease_expiry"), namespace: some("bank"), tag: None },
            NodeFilter { scanner: some("mine"), ..NodeFilter::default() },
        ]);
        assert_eq!(shown, "namespace=shop tag=team=a, lease_expiry: namespace=bank, mine: –");
        assert_eq!(filters(&[]), "–");
    }

    #[test]
    fn neighbours_are_joined() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(ranges(&[]), "–");
        assert_eq!(ranges(&[u16::MAX]), "65535");
    }
}
