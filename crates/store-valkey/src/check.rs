//! The look at all servers before a store is opened, and the same look for `weft doctor`.
//!
//! Changes nothing. What speaks against opening is collected with its reason; opening takes the first.

use crate::durability::Needs;
use crate::error::OpenError;
use crate::info::{Server, Version, ask, lines, text};
use crate::library;
use crate::link::Dial;
use crate::meta;
use crate::options::{Address, Mode, Options};
use crate::route::Layout;
use redis::Value;
use std::collections::BTreeMap;
use weft_store::{Finding, Level};

const OLDEST: Version = Version(7, 2, 0);
/// A failover takes about four seconds more than this.
const NODE_TIMEOUT_ADVICE: &str = "leases should be longer than 3 × (`cluster-node-timeout` + 4 s)";

/// Everything that was seen.
pub struct Survey {
    pub layout: Layout,
    pub servers: Vec<Server>,
    pub needs: Needs,
    pub problems: Vec<OpenError>,
}

/// Looks at every primary. An error is what keeps from looking at all.
pub async fn survey(options: &Options) -> Result<Survey, OpenError> {
    options.validate()?;
    let first = first_server(options).await?;
    let mut problems = Vec::new();
    match (options.mode, first.is_cluster()) {
        (Mode::Standalone, true) => return Err(OpenError::IsCluster { address: first.address }),
        (Mode::Cluster, false) => return Err(OpenError::IsStandalone { address: first.address }),
        _ => {}
    }
    let (layout, servers, replicas) = match options.mode {
        Mode::Standalone => {
            let replicas = BTreeMap::from([(first.address.clone(), first.connected_replicas())]);
            (Layout::single(first.address.clone()), vec![first], replicas)
        }
        Mode::Cluster => cluster(options, &first, &mut problems).await?,
    };
    let mut weak = false;
    for server in &servers {
        weak |= look(options, server, &replicas, &mut problems);
    }
    let level = if weak && options.accept_data_loss { Level::Memory } else { options.durability };
    let verified = level == Level::Memory || servers.iter().all(Server::shows_settings);
    let needs = Needs::new(options, level, verified, replicas);
    Ok(Survey { layout, servers, needs, problems })
}

async fn first_server(options: &Options) -> Result<Server, OpenError> {
    let mut why = String::new();
    for address in &options.addresses {
        match Server::ask(&Dial::new(address.clone(), options)).await {
            Ok(server) => return Ok(server),
            Err(error) if error.kind() == redis::ErrorKind::AuthenticationFailed => {
                return Err(OpenError::Login { address: address.clone(), why: error.to_string() });
            }
            Err(error) => why = error.to_string(),
        }
    }
    let servers: Vec<String> = options.addresses.iter().map(|address| format!("`{address}`")).collect();
    Err(OpenError::Unreachable { servers: servers.join(", "), why })
}

/// The slot map, all primaries, and how many replicas each has.
async fn cluster(
    options: &Options,
    first: &Server,
    problems: &mut Vec<OpenError>,
) -> Result<(Layout, Vec<Server>, BTreeMap<Address, u32>), OpenError> {
    let address = &first.address;
    let failed = |why: String| OpenError::Server { address: address.clone(), why };
    let asked = async {
        let mut connection = Dial::new(address.clone(), options).connect().await?;
        let state = ask(&mut connection, redis::cmd("CLUSTER").arg("INFO")).await?;
        let shards = ask(&mut connection, redis::cmd("CLUSTER").arg("SHARDS")).await?;
        Ok::<_, redis::RedisError>((lines(&text(&state)), shards))
    };
    let (state, shards) = asked.await.map_err(|error| failed(error.to_string()))?;
    let layout = Layout::ask(options, std::slice::from_ref(address)).await.map_err(failed)?;
    if let Some(owner) = layout.owners().into_iter().find(|owner| !options.allows(owner)) {
        return Err(OpenError::Plaintext { address: owner.clone() });
    }
    match state.get("cluster_state").map(String::as_str) {
        Some("ok") if layout.covers_all() => {}
        state => problems.push(OpenError::ClusterState {
            why: match state {
                Some("ok") => "not all slots have a node".to_owned(),
                other => format!("its state is `{}`", other.unwrap_or("unknown")),
            },
        }),
    }
    let mut servers = Vec::new();
    for owner in layout.owners() {
        match Server::ask(&Dial::new(owner.clone(), options)).await {
            Ok(server) => servers.push(server),
            Err(error) => {
                problems.push(OpenError::Unreachable { servers: format!("`{owner}`"), why: error.to_string() })
            }
        }
    }
    let counted = replica_counts(&shards, address);
    let count = |server: &Server| counted.get(&server.address).copied().unwrap_or(0).max(server.connected_replicas());
    let replicas = servers.iter().map(|server| (server.address.clone(), count(server))).collect();
    Ok((layout, servers, replicas))
}

/// Replicas per primary out of `CLUSTER SHARDS`, which also counts those that are down.
fn replica_counts(shards: &Value, asked: &Address) -> BTreeMap<Address, u32> {
    let Value::Array(shards) = shards else { return BTreeMap::new() };
    let shard = |shard: &Value| {
        let Value::Array(nodes) = field(shard, "nodes")? else { return None };
        let is_primary = |node: &&Value| field(node, "role").is_some_and(|role| text(role) == "master");
        let primary = nodes.iter().find(is_primary)?;
        let host = field(primary, "endpoint").or_else(|| field(primary, "ip")).map(text).unwrap_or_default();
        let host = if host.is_empty() || host == "?" { asked.host.clone() } else { host };
        let port = field(primary, "port").map(text)?.parse().ok()?;
        Some((Address::new(host, port), nodes.len() as u32 - 1))
    };
    shards.iter().filter_map(shard).collect()
}

fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    match map {
        Value::Array(fields) => fields.chunks_exact(2).find(|pair| text(&pair[0]) == name).map(|pair| &pair[1]),
        Value::Map(fields) => fields.iter().find(|(key, _)| text(key) == name).map(|(_, value)| value),
        _ => None,
    }
}

/// Collects what speaks against one server; true if its settings are weaker than the level.
fn look(options: &Options, server: &Server, replicas: &BTreeMap<Address, u32>, problems: &mut Vec<OpenError>) -> bool {
    let address = || server.address.clone();
    let (name, version, found) = server.version();
    if version.is_none_or(|version| version < OLDEST) {
        problems.push(OpenError::Version { server: name, found });
    }
    if !server.is_primary() {
        problems.push(OpenError::Replica { address: address() });
    }
    if server.eviction() != "noeviction" {
        problems.push(OpenError::Eviction { address: address(), policy: server.eviction().to_owned() });
    }
    let level = options.durability;
    if level == Level::Memory {
        return false;
    }
    let needed = options.replicas.unwrap_or(1);
    let count = replicas.get(&server.address).copied().unwrap_or(0);
    let lacks_replicas = level >= Level::Replicated && count < needed;
    let weakness = server.weakness();
    if !options.accept_data_loss {
        if let Some(setting) = weakness.clone() {
            problems.push(OpenError::Weak { address: address(), level, setting });
        }
        if lacks_replicas {
            problems.push(OpenError::Replicas { address: address(), level, found: count, needed });
        }
    }
    weakness.is_some() || lacks_replicas
}

/// The library as the server has it must be the one of this program: a name is never used for two.
pub async fn foreign_library(options: &Options, address: &Address) -> Option<OpenError> {
    let mut connection = Dial::new(address.clone(), options).connect().await.ok()?;
    let mut list = redis::cmd("FUNCTION");
    list.arg("LIST").arg("LIBRARYNAME").arg(library::NAME).arg("WITHCODE");
    // A user without the right to look relies on whoever loaded it.
    let Ok(Value::Array(libraries)) = ask(&mut connection, &list).await else { return None };
    let code = text(field(libraries.first()?, "library_code")?);
    (code != library::CODE).then(|| OpenError::Library { address: address.clone(), library: library::NAME })
}

/// What `weft doctor` says about the servers.
pub async fn inspect(options: &Options) -> Vec<Finding> {
    let survey = match survey(options).await {
        Ok(survey) => survey,
        Err(error) => return vec![problem(&error)],
    };
    let mut findings = vec![encryption(options, &survey)];
    findings.extend(survey.problems.iter().map(problem));
    for server in &survey.servers {
        findings.extend(doctor(server, survey.needs.level));
        findings.extend(foreign_library(options, &server.address).await.as_ref().map(problem));
    }
    let durability = survey.needs.describe();
    let weak = |problem: &OpenError| matches!(problem, OpenError::Weak { .. } | OpenError::Replicas { .. });
    match durability.verified {
        // The level that was asked for is not what these servers give, which has been said.
        _ if survey.problems.iter().any(weak) => {}
        true => findings.push(Finding::fine("durability", durability.to_string())),
        false => {
            let advice = "let the user of the node read the settings, or check them by hand";
            let found = format!("{durability} (not verified: `CONFIG` is not allowed)");
            findings.push(Finding::warning("durability", found, advice));
        }
    }
    findings.push(match meta::read(options, &survey.layout).await {
        Ok(Some(meta)) => {
            let found = format!("format {}, {} partitions, id {}", meta.format, meta.partitions, meta.id);
            match meta.format == meta::FORMAT {
                true => Finding::fine("store", found),
                false => {
                    let found = format!("{found}; this program writes format {}", meta::FORMAT);
                    Finding::problem("store", found, "`weft migrate` brings it up to date")
                }
            }
        }
        Ok(None) => Finding::problem("store", "there is none under this prefix", "`weft migrate` makes it"),
        Err(error) => problem(&error),
    });
    findings
}

fn encryption(options: &Options, survey: &Survey) -> Finding {
    let exposed = survey.servers.iter().find(|server| !server.address.is_loopback());
    match (&options.tls, exposed) {
        (Some(_), _) => Finding::fine("connection", "encrypted, with a certificate that is trusted"),
        (None, None) => Finding::fine("connection", "in the clear on this machine"),
        (None, Some(server)) => {
            let found = format!("in the clear on the way to `{}`", server.address);
            Finding::warning("connection", found, "use `valkeys://` or `valkeys-cluster://`")
        }
    }
}

fn problem(error: &OpenError) -> Finding {
    let (found, advice) = match error.to_string().split_once("; ") {
        Some((found, advice)) => (found.to_owned(), advice.to_owned()),
        None => (error.to_string(), "see what it says".to_owned()),
    };
    Finding::problem("server", found, advice)
}

fn doctor(server: &Server, level: Level) -> Vec<Finding> {
    let (name, version, found) = server.version();
    let at = |what: String| format!("`{}`: {what}", server.address);
    let mut findings = vec![Finding::fine("version", at(format!("{name} {found}")))];
    if version.is_some_and(|version| is_vulnerable(name, version)) {
        let advice = "upgrade: CVE-2025-49844 lets anybody who may run scripts take over the server";
        findings = vec![Finding::warning("version", at(format!("{name} {found}")), advice)];
    }
    if let Some(percent) = server.memory_used_percent().filter(|percent| *percent >= 90) {
        findings.push(Finding::warning("memory", at(format!("{percent} % of `maxmemory` is used")), "give it more"));
    }
    let min_replicas = server.setting("min-replicas-to-write").unwrap_or("0");
    if level >= Level::Replicated && min_replicas == "0" && server.shows_settings() {
        let advice = "set it to the number of replicas, so that a missing one refuses a commit before it is written";
        findings.push(Finding::warning("replicas", at("`min-replicas-to-write` is 0".to_owned()), advice));
    }
    if server.is_cluster() {
        findings.push(Finding::fine("failover", at(NODE_TIMEOUT_ADVICE.to_owned())));
    }
    findings
}

/// Versions without the fix for CVE-2025-49844.
fn is_vulnerable(name: &str, version: Version) -> bool {
    let fixed: &[Version] = match name {
        "Valkey" => &[Version(7, 2, 11), Version(8, 0, 6), Version(8, 1, 4)],
        _ => &[Version(7, 2, 11), Version(7, 4, 6), Version(8, 0, 4), Version(8, 2, 2)],
    };
    fixed.iter().any(|fix| (fix.0, fix.1) == (version.0, version.1) && version < *fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_without_the_fix_are_known() {
        let rows = [
            ("Valkey", Version(7, 2, 10), true),
            ("Valkey", Version(7, 2, 11), false),
            ("Valkey", Version(8, 0, 5), true),
            ("Valkey", Version(8, 1, 4), false),
            ("Valkey", Version(9, 0, 0), false),
            ("Redis", Version(7, 4, 5), true),
            ("Redis", Version(8, 2, 1), true),
            ("Redis", Version(8, 2, 2), false),
        ];
        for (name, version, expected) in rows {
            assert_eq!(is_vulnerable(name, version), expected, "{name} {version}");
        }
    }

    #[test]
    fn replicas_that_are_down_are_counted() {
        let text = |text: &str| Value::BulkString(text.into());
        let node = |port, role: &str| {
            Value::Array(vec![text("port"), Value::Int(port), text("ip"), text("10.0.0.1"), text("role"), text(role)])
        };
        let shard = |nodes: Vec<Value>| {
            Value::Array(vec![text("slots"), Value::Array(vec![]), text("nodes"), Value::Array(nodes)])
        };
        let shards = Value::Array(vec![
            shard(vec![node(1, "replica"), node(2, "master"), node(3, "replica")]),
            shard(vec![node(4, "master")]),
        ]);
        let counts = replica_counts(&shards, &Address::new("localhost", 9));
        let [two, four] = [2, 4].map(|port| Address::new("10.0.0.1", port));
        assert_eq!(counts, BTreeMap::from([(two, 2), (four, 0)]));
    }
}
