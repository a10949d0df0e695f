//! `floor`: what the store itself can do for the same durable facts.

use super::ROUNDS;
use crate::options::Options;
use crate::process;
use crate::report::{Report, rounded};
use crate::target::Target;
use crate::watch::Watch;
use anyhow::Result;

pub async fn run(target: &impl Target, options: &Options, watch: &dyn Watch) -> Result<Report> {
    let (n, payload) = (options.n.unwrap_or(20_000), options.payload());
    let cpu_before = process::cpu_s();
    let (mut best, mut commit_ms) = (0f64, f64::INFINITY);
    for _ in 0..ROUNDS {
        watch.begin("floor", 0);
        let floor = target.floor(n, payload).await?;
        (best, commit_ms) = (best.max(floor.per_s), commit_ms.min(floor.commit_ms));
        watch.end();
    }
    let mut report = Report::new("floor", target);
    report.n = Some(n);
    report.floor_per_s = Some(rounded(best));
    report.floor_commit_ms = Some(rounded(commit_ms));
    report.cpu_s = cpu_before.zip(process::cpu_s()).map(|(before, after)| rounded(after - before));
    Ok(report)
}
