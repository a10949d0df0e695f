//! A server, as a caller sees it. One that several nodes serve is looked at through the node that answers.

mod metrics;

use super::{BOOTSTRAP, filters};
use crate::remote;
use anyhow::Result;
use serde::Deserialize;
use std::collections::BTreeSet;
use weft_api::page::PageQuery;
use weft_sdk::{Args, Client, Error, Operation, op};
use weft_store::Finding;

/// Keys that are looked through.
const KEYS_MAX: u32 = 1_000;

/// What a call is refused with if the key does not reach so far is no finding about the server.
pub async fn look(options: &remote::Options) -> Result<Vec<Finding>> {
    let client = options.client().await?;
    let version = client.call::<op::GetVersion>(Args::default()).await;
    let version = version.map_err(|error| remote::fault("look at the server", error))?;
    let mut findings = vec![versions(&version.version, &version.store)];
    findings.extend(readiness(&client).await);
    findings.extend(durability(&client).await);
    findings.extend(clock(&client).await);
    findings.extend(nodes(&client).await);
    findings.extend(filters(&client).await);
    findings.extend(metrics::look(&client).await);
    findings.extend(keys(&client).await);
    Ok(findings)
}

/// The reply, or what kept it away; nothing if the key does not reach so far.
async fn asked<O>(client: &Client, subject: &str) -> Result<O::Reply, Option<Finding>>
where
    O: Operation,
    Args<O::Path, O::Query, O::Body>: Default,
{
    match client.call::<O>(Args::default()).await {
        Ok(reply) => Ok(reply),
        Err(Error::Rejected(problem)) if matches!(problem.status, 400 | 403) => Err(None),
        Err(error) => Err(Some(Finding::problem(subject, error.to_string(), "look at the log of the server"))),
    }
}

fn versions(theirs: &str, store: &str) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    let found = format!("weft {theirs} on {store}");
    match theirs == own {
        true => Finding::fine("version", found),
        false => {
            Finding::warning("version", format!("{found}, and this is {own}"), "use the same version on both sides")
        }
    }
}

async fn readiness(client: &Client) -> Option<Finding> {
    #[derive(Deserialize)]
    struct Ready {
        ready: bool,
        #[serde(default)]
        why: Vec<String>,
    }
    let told = match client.page("/readyz").await {
        Ok(page) => page?.1,
        Err(error) => return Some(Finding::problem("readiness", error.to_string(), "look at the log of the server")),
    };
    Some(match serde_json::from_str::<Ready>(&told) {
        Ok(Ready { ready: true, .. }) => Finding::fine("readiness", "takes work"),
        Ok(Ready { why, .. }) => {
            let advice = why.first().map_or("look at the log of the server", |why| to_do(why));
            Finding::problem("readiness", format!("takes no work: {}", why.join(", ")), advice)
        }
        Err(_) => {
            Finding::problem("readiness", "`/readyz` answers as no server of Weft does", "see what is in front of it")
        }
    })
}

/// What to do about a node that takes no work, by the word that it says why with.
fn to_do(why: &str) -> &'static str {
    match why {
        "draining" => "it stops; ask another node, or start one",
        "starting" => "ask again in a moment",
        "store_unreachable" | "store_slow" => "look at the store: is it up, has it disk and memory, who holds locks",
        "store_full" => "make room: free or enlarge the disk of the store, or raise the limit of its memory",
        "clock_skewed" | "clock_unsure" => "set the clocks of the node and the store by a time server",
        "partition_ended" | "scanners_ended" | "partition_stuck" | "scanners_stuck" => {
            "restart the node; its log says what went wrong, which is worth a report"
        }
        _ => "a key with the scope `operate` is told more; look at the log of the server",
    }
}

async fn durability(client: &Client) -> Option<Finding> {
    let durability = match asked::<op::GetCapabilities>(client, "durability").await {
        Ok(reply) => reply.durability,
        Err(finding) => return finding,
    };
    let found = format!("{}: {}", durability.level, durability.acknowledged);
    let found = match durability.can_lose.is_empty() {
        true => found,
        false => format!("{found}; can lose: {}", durability.can_lose.join(", ")),
    };
    // Every store loses something with its last disk; one that acknowledges what is on none loses it by a power cut.
    Some(match durability.level.as_str() {
        "memory" => {
            Finding::warning("durability", found, "`docs/stores.md` tells which settings of the store lose less")
        }
        _ => Finding::fine("durability", found),
    })
}

async fn clock(client: &Client) -> Option<Finding> {
    let before = super::local_ms();
    match asked::<op::GetStats>(client, "clock").await {
        Ok(stats) => Some(super::clock(stats.at as i64, before, "set the clocks by a time server")),
        Err(finding) => finding,
    }
}

async fn nodes(client: &Client) -> Option<Finding> {
    let nodes = match asked::<op::ListNodes>(client, "nodes").await {
        Ok(reply) => reply.items,
        Err(finding) => return finding,
    };
    let live: Vec<_> = nodes.iter().filter(|node| node.live).collect();
    let versions: BTreeSet<&str> = live.iter().map(|node| node.version.as_str()).collect();
    Some(match versions.len() {
        0 | 1 => Finding::fine("nodes", format!("{} live, {} known", live.len(), nodes.len())),
        _ => {
            let found = format!("{} live, of the versions {}", live.len(), Vec::from_iter(versions).join(", "));
            Finding::warning("nodes", found, "finish the upgrade: one version at a time")
        }
    })
}

/// Finds items that the filters of all live nodes exclude. A call that fails is another finding.
async fn filters(client: &Client) -> Option<Finding> {
    let nodes = asked::<op::ListNodes>(client, "filters").await.ok()?.items.into_iter();
    let live: Vec<_> = nodes.filter(|node| node.live).map(|node| node.filters).collect();
    let (mut namespaces, mut query) = (Vec::new(), PageQuery::default());
    let mut more = filters::needs_namespaces(&live);
    while more {
        let args = Args { query: query.clone(), ..Args::default() };
        let page = client.call::<op::ListNamespaces>(args).await.ok()?;
        namespaces.extend(page.items.into_iter().map(|namespace| namespace.name));
        (more, query.cursor) = (page.next_cursor.is_some(), page.next_cursor);
    }
    filters::look(&live, &namespaces)
}

async fn keys(client: &Client) -> Option<Finding> {
    let query = PageQuery { limit: Some(KEYS_MAX), ..Default::default() };
    let args = Args { query, ..Args::default() };
    let keys = match client.call::<op::ListKeys>(args).await {
        Ok(page) => page.items,
        // Only an administrator sees keys, and a server for development has none.
        Err(_) => return None,
    };
    let first = keys.iter().find(|key| key.name == BOOTSTRAP && key.creator == BOOTSTRAP);
    Some(super::first_key(keys.len(), first.map(|key| key.id.as_str())))
}
