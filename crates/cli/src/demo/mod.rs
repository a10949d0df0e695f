//! `weft demo`: the first thing a newcomer runs. A real engine on a real store with workers in this process, and
//! everything that can happen to an execution, in a few seconds.

mod board;
mod plan;
mod producer;
mod summary;
mod view;
mod workers;

use crate::End;
use crate::store::{self, Address, AnyStore};
use crate::terminal::{self, Colour};
use anyhow::{Context, Result, bail};
use board::{Board, Note};
use plan::{Kind, Plan};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use view::{Tally, View};
use weft_bench::page::readable;
use weft_engine::{Client, Config, Engine, ListFilter};

/// Watch a few hundred executions run, fail, be retried, cancelled and recovered
#[derive(clap::Args)]
#[command(before_help = "example: weft demo")]
pub struct Args {
    /// Address of the store to use; what the demo does stays there [default: SQLite in a temporary folder]
    #[arg(long, value_name = "URL", conflicts_with_all = ["dir", "keep"])]
    store: Option<String>,

    /// Folder for a SQLite store; it is kept
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Keep the temporary folder
    #[arg(long)]
    keep: bool,

    /// How many executions
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = executions())]
    executions: u32,
}

fn executions() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(plan::EXECUTIONS_MIN)..=i64::from(plan::EXECUTIONS_MAX))
}

/// Far longer than it takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);
const DRAW_EVERY: Duration = Duration::from_millis(80);

/// Where the store is, and whether it goes away with the demo.
enum Place {
    Kept(PathBuf),
    Temporary(TempDir),
    Named(Address),
}

impl Place {
    fn choose(args: &Args) -> Result<Self> {
        if let Some(url) = &args.store {
            return Ok(Place::Named(Address::parse(url)?));
        }
        if let Some(dir) = &args.dir {
            return Ok(Place::Kept(dir.clone()));
        }
        let dir = TempDir::with_prefix("weft-demo-").context("cannot create a temporary folder")?;
        Ok(if args.keep { Place::Kept(dir.keep()) } else { Place::Temporary(dir) })
    }

    async fn open(&self) -> Result<AnyStore> {
        match self {
            Place::Kept(path) => store::open_dir(path),
            Place::Temporary(dir) => store::open_dir(dir.path()),
            Place::Named(address) => address.open().await,
        }
    }

    /// Where the data is, as people find it.
    fn name(&self) -> String {
        match self {
            Place::Kept(path) => path.join(store::FILE).display().to_string(),
            Place::Temporary(dir) => dir.path().join(store::FILE).display().to_string(),
            Place::Named(address) => address.to_string(),
        }
    }
}

pub fn run(args: Args, colour: Colour) -> Result<End> {
    let place = Place::choose(&args)?;
    store::runtime()?.block_on(async {
        let engine = Engine::open(place.open().await?, Config::default()).await?;
        terminal::say(&format!(
            "{} executions of {} kinds, {} workers, on {}, durability {}",
            args.executions,
            Kind::ALL.len(),
            plan::WORKERS + 3,
            place.name(),
            engine.describe().durability.level.name()
        ));
        let shown = show(&engine, Plan::new(args.executions), &place, colour);
        let ended = tokio::select! {
            ended = shown => ended,
            _ = tokio::signal::ctrl_c() => Ok(End::Interrupted),
        };
        engine.shutdown().await;
        if let Ok(End::Interrupted) = ended {
            let kept = match &place {
                Place::Temporary(_) => "its data is removed".to_owned(),
                kept => format!("its data is kept in {}", kept.name()),
            };
            terminal::say(&format!("\ninterrupted: the engine has stopped cleanly, {kept}"));
        }
        ended
    })
}

/// Runs the demo to its end and tells what happened.
async fn show(engine: &Engine, plan: Plan, place: &Place, colour: Colour) -> Result<End> {
    // A namespace of its own: a folder that is used again holds the executions of earlier demos too.
    let client = engine.client(&format!("demo-{}", engine.now().ms()))?;
    let (notes_to, notes) = mpsc::unbounded_channel();
    let mut view = View::new(&plan, colour);
    let board = Arc::new(Board::new(plan, notes_to));
    let before = engine.stats();
    let mut tasks = workers::start(&client, &board);
    tasks.spawn(producer::produce(client.clone(), board.clone()));
    let watched = watch(&client, &board, &mut view, notes, &mut tasks).await;
    view.close();
    watched?;
    let elapsed = view.elapsed();
    let stats = engine.stats().since(before);
    tasks.shutdown().await;

    let executions = board.executions();
    let summary = summary::read(&client, &board.plan, &executions).await;
    terminal::put(&summary.context("the demo did not end as it should")?.render(colour.out))?;
    let transitions = stats.commands;
    terminal::put(&format!(
        "\n{} executions in {}: {} transitions in {} commits, {:.1} to a commit; more share one when it is busier",
        executions.len(),
        terminal::readable_time(elapsed),
        readable(transitions as f64),
        readable(stats.commits as f64),
        transitions as f64 / stats.commits.max(1) as f64
    ))?;
    say_what_next(place, colour);
    Ok(End::Done)
}

/// Draws until everything has ended.
async fn watch(
    client: &Client,
    board: &Board,
    view: &mut View,
    mut notes: mpsc::UnboundedReceiver<Note>,
    tasks: &mut JoinSet<Result<()>>,
) -> Result<()> {
    let mut next_draw = Instant::now();
    loop {
        tokio::select! {
            Some(note) = notes.recv() => view.note(&note),
            Some(ended) = tasks.join_next() => ended.context("a worker stopped")??,
            () = tokio::time::sleep_until(next_draw.into()) => {
                let begun = Instant::now();
                let tally = tally(client).await?;
                view.draw(&tally);
                if tally.done() == board.plan.executions as u64 {
                    while let Ok(note) = notes.try_recv() {
                        view.note(&note);
                    }
                    return Ok(());
                }
                if view.elapsed() > PATIENCE {
                    bail!("{} of {} executions had ended after two minutes", tally.done(), board.plan.executions);
                }
                // Counting many executions takes a while; most of the time belongs to the workers.
                next_draw = Instant::now() + DRAW_EVERY.max(begun.elapsed() * 5);
            }
        }
    }
}

async fn tally(client: &Client) -> Result<Tally> {
    let counts = client.count(ListFilter::default()).await.context("executions could not be counted")?;
    let mut tally = Tally::default();
    for ((_, kind, state), count) in counts {
        if let Some(kind) = Kind::from_name(&kind) {
            tally.add(kind, state, count);
        }
    }
    Ok(tally)
}

fn say_what_next(place: &Place, colour: Colour) {
    match place {
        Place::Kept(_) | Place::Named(_) => terminal::say(&format!("\nthe data is in {}", place.name())),
        Place::Temporary(_) => terminal::say("\nthe data is removed; `weft demo --keep` leaves it there to look at"),
    }
    let next = [
        ("weft dev", "a server of your own, and the first commands to try with it"),
        ("weft demo --executions 20000", "the same with more"),
        ("weft bench lifecycle", "how fast it is here, against the bare store"),
        ("weft sim --seeds 20", "crashes, lost replies and wrong clocks, simulated"),
    ];
    terminal::say("next:");
    for (command, what) in next {
        terminal::say(&format!("  {:<30} {}", command, colour.err.dim(what)));
    }
}
