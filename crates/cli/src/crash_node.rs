//! A node that is there to be killed. It submits, claims and completes as fast as it can and writes down, before going
//! on, what was acknowledged to it; the test that kills it, or its store, compares this ledger with what the store still
//! knows. A store that does not answer for a while is no reason to stop: what was not answered is asked again.

use crate::store::{self, Address};
use crate::{End, terminal};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::future::Future;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use weft_core::Rejection;
use weft_engine::{Claim, Client, Completion, Config, Engine, Submission};

/// Short, so that the next node soon gets what a killed one held.
const LEASE_MS: u64 = 1_000;
const PRODUCERS: usize = 4;
const WORKERS: usize = 8;
const BATCH: u64 = 8;
/// Between two tries of a call that was not answered.
const AGAIN: Duration = Duration::from_millis(20);

#[derive(clap::Args)]
pub struct Args {
    /// Address of the store
    #[arg(long)]
    store: String,

    /// File of acknowledged facts, one line each
    #[arg(long)]
    ledger: PathBuf,

    /// Makes the keys of this run distinct from those of other runs
    #[arg(long)]
    round: String,

    /// How long a worker holds what it claimed before it completes it, in milliseconds
    #[arg(long, default_value_t = 0)]
    work_ms: u64,
}

/// Lines: `begin KEY` before a submission; `submitted KEY ID`, `claimed ID EPOCH LEASE` and `completed ID RESULT` once they
/// are acknowledged. How many submissions and completions there are is told on stdout.
#[derive(Clone)]
struct Ledger(Arc<Mutex<(File, usize)>>);

impl Ledger {
    fn note(&self, lines: &str) -> Result<()> {
        self.write(lines, 0)
    }

    fn acknowledged(&self, lines: &str) -> Result<()> {
        self.write(lines, lines.lines().count())
    }

    fn write(&self, lines: &str, acknowledged: usize) -> Result<()> {
        let mut guard = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (file, count) = &mut *guard;
        file.write_all(lines.as_bytes()).context("could not write the ledger")?;
        *count += acknowledged;
        if acknowledged > 0 { terminal::put(&format!("acknowledged {count}")) } else { Ok(()) }
    }
}

pub fn run(args: Args) -> Result<End> {
    let begun = unanswered(&args)?;
    let file = OpenOptions::new().create(true).append(true).open(&args.ledger);
    let file = file.with_context(|| format!("could not open `{}`", args.ledger.display()))?;
    let ledger = Ledger(Arc::new(Mutex::new((file, 0))));
    store::runtime()?.block_on(async {
        let mut terminated = signal(SignalKind::terminate()).context("could not listen for signals")?;
        let config = Config { node: args.round.as_str().into(), ..Config::default() };
        let engine = Engine::open(Address::parse(&args.store)?.open().await?, config).await?;
        let client = engine.client("crash")?;
        terminal::put("ready")?;
        let mut tasks = JoinSet::new();
        tasks.spawn(submit_again(client.clone(), ledger.clone(), begun));
        for producer in 0..PRODUCERS {
            tasks.spawn(produce(client.clone(), ledger.clone(), format!("{}-{producer}", args.round)));
        }
        let work_for = Duration::from_millis(args.work_ms);
        for worker in 0..WORKERS {
            tasks.spawn(work(client.clone(), ledger.clone(), format!("crash-{}-{worker}", args.round), work_for));
        }
        loop {
            tokio::select! {
                biased;
                _ = terminated.recv() => {
                    tasks.shutdown().await;
                    engine.shutdown().await;
                    return Ok(End::Done);
                }
                ended = tasks.join_next() => match ended {
                    Some(ended) => ended.context("a task stopped")??,
                    None => return Ok(End::Done),
                }
            }
        }
    })
}

/// Keys whose submission was begun by a killed node and never answered.
fn unanswered(args: &Args) -> Result<BTreeSet<String>> {
    let Ok(ledger) = fs::read_to_string(&args.ledger) else { return Ok(BTreeSet::new()) };
    let mut keys = BTreeSet::new();
    for line in ledger.lines() {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["begin", key] => {
                keys.insert((*key).to_owned());
            }
            ["submitted", key, _] => {
                keys.remove(*key);
            }
            _ => {}
        }
    }
    Ok(keys)
}

/// Asks again until there is an answer: a store that is away, or an outcome that is unknown, is none.
async fn answered<T, F: Future<Output = Result<T, Rejection>>>(call: impl Fn() -> F) -> Result<T, Rejection> {
    loop {
        match call().await {
            Err(Rejection::Busy { .. } | Rejection::Unavailable { .. }) => tokio::time::sleep(AGAIN).await,
            answer => return answer,
        }
    }
}

/// A client that got no answer asks again with the same key: at most one execution may come of it.
async fn submit_again(client: Client, ledger: Ledger, keys: BTreeSet<String>) -> Result<()> {
    for key in keys {
        let submitted = answered(|| client.submit(submission(&key))).await?;
        ledger.acknowledged(&format!("submitted {key} {}\n", submitted.id))?;
    }
    Ok(())
}

async fn produce(client: Client, ledger: Ledger, prefix: String) -> Result<()> {
    for batch in 0.. {
        let keys: Vec<String> = (0..BATCH).map(|at| format!("{prefix}-{}", batch * BATCH + at)).collect();
        ledger.note(&keys.iter().map(|key| format!("begin {key}\n")).collect::<String>())?;
        let answers = client.submit_batch(keys.iter().map(|key| submission(key)).collect()).await;
        let mut lines = String::new();
        for (key, answer) in keys.iter().zip(answers) {
            let submitted = match answer {
                Err(Rejection::Busy { .. } | Rejection::Unavailable { .. }) => {
                    answered(|| client.submit(submission(key))).await?
                }
                answer => answer?,
            };
            lines.push_str(&format!("submitted {key} {}\n", submitted.id));
        }
        ledger.acknowledged(&lines)?;
    }
    Ok(())
}

fn submission(key: &str) -> Submission {
    Submission::new("crash").idempotency_key(key.to_owned()).input(key.to_owned())
}

async fn work(client: Client, ledger: Ledger, instance: String, work_for: Duration) -> Result<()> {
    loop {
        let claim = || Claim::new("crash", instance.as_str()).max(BATCH as usize).lease_ms(LEASE_MS).wait_ms(10_000);
        let held = answered(|| client.claim(claim())).await?.executions;
        let claimed = held.iter().map(|work| format!("claimed {} {} {}\n", work.id, work.epoch, work.lease));
        ledger.note(&claimed.collect::<String>())?;
        if !work_for.is_zero() {
            tokio::time::sleep(work_for).await;
        }
        let results: Vec<String> =
            held.iter().map(|work| format!("{instance}/{}/{}", work.epoch, work.lease)).collect();
        let complete = |at: usize| Completion::of(&held[at]).result(results[at].clone());
        let answers = client.complete_batch((0..held.len()).map(complete).collect()).await;
        let mut lines = String::new();
        for (at, answer) in answers.into_iter().enumerate() {
            let answer = match answer {
                Err(Rejection::Busy { .. } | Rejection::Unavailable { .. }) => {
                    answered(|| client.complete(complete(at))).await
                }
                answer => answer,
            };
            // A lease that ran out while this process was starved is somebody else's work by now.
            if answer.is_ok() {
                lines.push_str(&format!("completed {} {}\n", held[at].id, results[at]));
            }
        }
        ledger.acknowledged(&lines)?;
    }
}
