//! `lifecycle --remote`: the SDK over HTTP on the loopback device, in turn with the SDK in the process of the engine and
//! with the engine alone. Server, clients and worker share this process and its cores.

use super::ROUNDS;
use super::lifecycle::{check, rate, whole};
use crate::load::{Load, NAMESPACE};
use crate::options::Options;
use crate::process;
use crate::remote;
use crate::report::{Http, Report, rounded, since};
use crate::target::{Bed, Target};
use crate::verify::Seen;
use crate::watch::Watch;
use anyhow::{Context, Result};
use std::sync::Arc;
use weft_engine::Stats;
use weft_sdk::Client;

pub async fn run(target: &impl Target, options: &Options, watch: Arc<dyn Watch>) -> Result<Report> {
    let n = options.n.unwrap_or(20_000);
    let load = Load::new(options.payload(), options.workers(), watch);
    let cpu_before = process::cpu_s();
    let (mut http_per_s, mut stats) = (0.0, Vec::new());
    let (mut in_process_per_s, mut engine_per_s): (f64, f64) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        engine_per_s = engine_per_s.max(whole(target, 1, &load, n).await?.0);
        in_process_per_s = in_process_per_s.max(in_process(target, &load, n).await?);
        let (per_s, counted) = over_http(target, &load, n).await?;
        if per_s > http_per_s {
            (http_per_s, stats) = (per_s, counted);
        }
    }
    let mut report = Report::new("lifecycle", target);
    report.n = Some(n);
    report.workers = Some(load.workers);
    report.remote = true;
    report.throughput_per_s = Some(rounded(http_per_s));
    report.http = Some(Http {
        in_process_per_s: rounded(in_process_per_s),
        ratio_to_in_process: rounded(http_per_s / in_process_per_s),
        engine_per_s: rounded(engine_per_s),
        ratio_to_engine: rounded(http_per_s / engine_per_s),
    });
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    report.count(&stats);
    Ok(report)
}

async fn in_process(target: &impl Target, load: &Load, n: u64) -> Result<f64> {
    let bed = target.open(1).await?;
    let client = Client::embedded(bed.engine().clone()).namespace(NAMESPACE);
    let (per_s, _) = measured(&bed, &client, load, n, "in process").await?;
    drop(client);
    bed.close().await?;
    Ok(per_s)
}

async fn over_http(target: &impl Target, load: &Load, n: u64) -> Result<(f64, Vec<Stats>)> {
    let bed = target.open(1).await?;
    let served = target.serve(bed.engine()).await?;
    let client = Client::connect(&served.url).namespace(NAMESPACE).build().await.context("cannot reach the server")?;
    let measured = measured(&bed, &client, load, n, "over HTTP").await?;
    served.stop.await;
    bed.close().await?;
    Ok(measured)
}

/// The rate, and what the engine did for it.
async fn measured(bed: &Bed, client: &Client, load: &Load, n: u64, name: &str) -> Result<(f64, Vec<Stats>)> {
    let seen = Seen::new(n);
    load.watch.begin(name, 2 * n);
    let before = bed.stats();
    let (elapsed, ids) = remote::lifecycle(client, load, n, &seen).await?;
    let stats = since(bed.stats(), &before);
    load.watch.end();
    check(&bed.crew()?, load, n, &seen, ids).await?;
    Ok((rate(n, elapsed), stats))
}
