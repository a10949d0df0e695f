//! Which crates from outside Weft does without, and which it carries in two versions. Owns both lists, each entry with
//! its reason.

use super::Finding;
use super::graph::{Graph, Package};
use super::licences::place;
use super::source::{Tree, line_starting};
use std::collections::BTreeMap;

/// Crates that may not be anywhere in the graph, not even below another.
const NOWHERE: &[(&str, &str)] = &[
    ("bincode", "postcard: bincode is not looked after any more"),
    ("chrono", "jiff, or `Time` inside"),
    ("chrono-tz", "jiff"),
    ("madsim", "weft-sim: the engine takes clock and spawner as values, nothing needs patching"),
    ("native-tls", "rustls: no system libraries in a one-file binary"),
    ("openssl", "rustls: no system libraries in a one-file binary"),
    ("openssl-sys", "rustls: no system libraries in a one-file binary"),
    ("rocksdb", "the SQLite store: rocksdb costs minutes of every build"),
    ("sqlx", "tokio-postgres, which pipelines, and rusqlite"),
    ("sqlx-core", "tokio-postgres, which pipelines, and rusqlite"),
];

/// Crates that no crate of the workspace may name. Below another crate they are its own affair.
const NOT_NAMED: &[(&str, &str)] = &[
    ("ahash", "BTreeMap, or SHA-256 where the hash is kept: its values are not stable"),
    ("aide", "utoipa"),
    ("argh", "clap: one argument parser"),
    ("argon2", "an HMAC: keys of 256 bits need no slow hash"),
    ("async-trait", "`impl Future` in the trait, and be generic over it"),
    ("axum-server", "an accept loop on hyper-util, with timeouts"),
    ("colored", "anstyle, which clap brings"),
    ("config", "toml and serde: layers are merged in sight"),
    ("cron", "croner with jiff, or five fields over jiff"),
    ("deadpool-postgres", "a connection per loop"),
    ("deadpool-redis", "a connection per primary: nothing to pool"),
    ("diesel", "statements written out, tokio-postgres and rusqlite"),
    ("eventsource-client", "a parser of forty lines"),
    ("eventsource-stream", "a parser of forty lines"),
    ("fail", "weft_core::planted and weft_store::Faulty"),
    ("figment", "toml and serde: layers are merged in sight"),
    ("fred", "redis, connections to single nodes"),
    ("governor", "a token bucket with the clock as a value"),
    ("libc", "rustix"),
    ("libsql", "rusqlite"),
    ("log", "tracing"),
    ("loom", "shuttle"),
    ("metrics", "prometheus-client: typed label sets, no global"),
    ("metrics-exporter-prometheus", "prometheus-client: typed label sets, no global"),
    ("moka", "lru: moka has threads and a clock of its own"),
    ("noxious", "a proxy of sixty lines, seeded"),
    ("pico-args", "clap: one argument parser"),
    ("porcupine", "porcupine-rs, which is the checker"),
    ("postgresql_embedded", "a server that xtask starts"),
    ("prettytable", "a table of our own, or comfy-table"),
    ("prettytable-rs", "a table of our own, or comfy-table"),
    ("quickcheck", "proptest, which shrinks a list of commands"),
    ("reqwest", "the hyper-util client, which connects to the address that was checked"),
    ("reqwest-eventsource", "a parser of forty lines"),
    ("rkyv", "postcard: a layout is no format"),
    ("rust-embed", "include_bytes! from a generated list"),
    ("saffron", "croner with jiff, or five fields over jiff"),
    ("schemars", "utoipa"),
    ("sea-orm", "statements written out, tokio-postgres and rusqlite"),
    ("simd-json", "serde_json: one JSON crate"),
    ("structopt", "clap: one argument parser"),
    ("testcontainers", "a server that xtask starts: no container daemon"),
    ("turso", "rusqlite"),
    ("valkey-glide", "redis, connections to single nodes"),
];

/// What examples may name all the same: they show users what users would write.
const FINE_IN_EXAMPLES: &[&str] = &["reqwest"];

/// Crates that are in the graph in more than one version, and why nothing can be done about it here.
const DOUBLED: &[(&str, &str)] = &[
    ("base64", "the certificates of the tests write PEM with 0.23, PostgreSQL's protocol is on 0.22"),
    ("const-oid", "x509-cert, for channel binding, is on 0.9, digest on 0.10; constants"),
    ("embedded-io", "postcard names both for features that are off: in the lock file, never compiled"),
    ("fallible-iterator", "tokio-postgres is on 0.2, rusqlite is on 0.3; a trait and its adapters, small twice"),
    ("getrandom", "ring is on 0.2, everything else on 0.4; a system call"),
    ("lru", "ratatui, for `weft top`, is on 0.18; a small crate"),
    ("syn", "zerocopy-derive is on 2, all other derives are on 3; only builds carry both"),
    ("synstructure", "below a feature of rcgen that is off: in the lock file, never compiled"),
    ("wasi", "below tokio and below tokio-postgres, for WebAssembly only: in the lock file, never compiled"),
    ("windows-sys", "ring is on 0.52, everything else on 0.61; for Windows only"),
];

pub fn check(graph: &Graph, tree: &Tree) -> Vec<Finding> {
    let mut findings = banned(graph, tree);
    findings.extend(doubled(graph, tree, DOUBLED));
    findings
}

/// How many packages there are, and which of them twice.
pub fn counts(graph: &Graph) -> String {
    let members = graph.members().count();
    let doubled: Vec<String> =
        versions(graph).iter().map(|(name, found)| format!("{name} {}", found.join(" and "))).collect();
    let doubled = if doubled.is_empty() { "none".to_owned() } else { doubled.join(", ") };
    format!("crates: {members} of the workspace, {} from outside; doubled: {doubled}", graph.packages.len() - members)
}

fn banned(graph: &Graph, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &graph.packages {
        if let Some((name, instead)) = NOWHERE.iter().find(|(name, _)| *name == package.name) {
            let (path, line) = place(package, tree);
            findings.push(Finding::new(path, line, format!("banned crate `{name}`"), *instead));
        }
    }
    for (package, manifest) in graph.members() {
        let text = tree.file(manifest).map_or("", |file| file.text.as_str());
        for dependency in &package.dependencies {
            let ban = NOT_NAMED.iter().find(|(name, _)| *name == dependency.name);
            let Some((name, instead)) = ban else { continue };
            if manifest.starts_with("examples/") && FINE_IN_EXAMPLES.contains(name) {
                continue;
            }
            let line = line_starting(text, name);
            findings.push(Finding::new(manifest, line, format!("banned crate `{name}`"), *instead));
        }
    }
    findings
}

fn doubled(graph: &Graph, tree: &Tree, known: &[(&str, &str)]) -> Vec<Finding> {
    let doubled = versions(graph);
    let mut findings = Vec::new();
    for (name, versions) in &doubled {
        if known.iter().all(|(known, _)| known != name) {
            let package = graph.packages.iter().find(|package| package.name == *name);
            let (path, line) = package.map_or(("Cargo.lock", 1), |package| place(package, tree));
            let what = format!("`{name}` in versions {}", versions.join(" and "));
            let instead = "bring its users to one version (`cargo tree -d`), or add it with its reason to xtask/src/tidy/crates.rs";
            findings.push(Finding::new(path, line, what, instead));
        }
    }
    for (name, _) in known.iter().filter(|(name, _)| !doubled.contains_key(name)) {
        let what = format!("`{name}` is listed as doubled and is not");
        findings.push(Finding::new("xtask/src/tidy/crates.rs", 1, what, "delete its line"));
    }
    findings
}

/// The packages with more than one version, and these versions.
fn versions(graph: &Graph) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Package { name, version, .. } in &graph.packages {
        versions.entry(name).or_default().push(version);
    }
    versions.retain(|_, found| found.len() > 1);
    versions
}

#[cfg(test)]
mod tests {
    use super::super::graph::Dependency;
    use super::*;

    fn package(name: &str, version: &str, manifest: Option<&str>, names: &[&str]) -> Package {
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: None,
            source: None,
            manifest: manifest.map(str::to_owned),
            dependencies: names.iter().map(|name| Dependency { name: (*name).to_owned(), dev: false }).collect(),
        }
    }

    #[test]
    fn a_banned_crate_is_found_where_it_is_named() {
        let packages = vec![
            package("weft-engine", "0.1.0", Some("crates/engine/Cargo.toml"), &["moka", "tokio"]),
            package("hello", "0.1.0", Some("examples/hello/Cargo.toml"), &["reqwest"]),
            package("tokio", "1.54.0", None, &["libc"]),
            package("openssl", "0.10.0", None, &[]),
        ];
        let tree = Tree::of(&[("crates/engine/Cargo.toml", "[dependencies]\nmoka.workspace = true\n")]);
        let found: Vec<_> = banned(&Graph { packages }, &tree).iter().map(Finding::to_string).collect();
        assert_eq!(
            found,
            [
                "Cargo.lock:1: banned crate `openssl`: rustls: no system libraries in a one-file binary",
                "crates/engine/Cargo.toml:2: banned crate `moka`: lru: moka has threads and a clock of its own",
            ]
        );
    }

    #[test]
    fn two_versions_need_a_reason_and_a_reason_two_versions() {
        let packages = vec![
            package("syn", "2.0.0", None, &[]),
            package("syn", "3.0.0", None, &[]),
            package("quote", "1.0.0", None, &[]),
        ];
        let graph = Graph { packages };
        let whats = |known: &[(&str, &str)]| -> Vec<String> {
            doubled(&graph, &Tree::of(&[]), known).into_iter().map(|finding| finding.what).collect()
        };
        assert_eq!(whats(&[("syn", "why")]), [""; 0]);
        assert_eq!(
            whats(&[("quote", "why")]),
            ["`syn` in versions 2.0.0 and 3.0.0", "`quote` is listed as doubled and is not"]
        );
        assert_eq!(counts(&graph), "crates: 0 of the workspace, 3 from outside; doubled: syn 2.0.0 and 3.0.0");
    }
}
