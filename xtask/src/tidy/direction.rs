//! Which crate may know which. Owns the layers of the workspace; how a crate uses what it may know is not its business.

use super::Finding;
use super::graph::{Dependency, Graph, Package};
use super::source::{Tree, line_starting};

/// A crate, and the crates of the workspace it may name. A `*` at the end stands for any rest.
struct Layer {
    name: &'static str,
    knows: &'static [&'static str],
}

/// Arrows point one way: core, store, engine, then what sits on top. Only the binary and the server name a concrete
/// store.
const LAYERS: &[Layer] = &[
    Layer { name: "weft-core", knows: &[] },
    Layer { name: "weft-store", knows: &["weft-core"] },
    Layer { name: "weft-tls", knows: &[] },
    Layer { name: "weft-config", knows: &["weft-core"] },
    Layer { name: "weft-exec", knows: &[] },
    Layer { name: "weft-graph", knows: &[] },
    Layer { name: "weft-store-*", knows: &["weft-core", "weft-store", "weft-tls"] },
    Layer { name: "weft-engine", knows: &["weft-core", "weft-store"] },
    Layer { name: "weft-sim", knows: &["weft-core", "weft-store", "weft-engine"] },
    Layer { name: "weft-api", knows: &[] },
    Layer { name: "weft-dispatch", knows: &["weft-api", "weft-core", "weft-engine"] },
    Layer {
        name: "weft-sdk",
        knows: &["weft-api", "weft-core", "weft-store", "weft-engine", "weft-dispatch", "weft-tls"],
    },
    Layer { name: "weft-bench", knows: &["weft-core", "weft-store", "weft-engine", "weft-sdk"] },
    Layer { name: "weft-server", knows: &["weft-api", "weft-core", "weft-engine", "weft-dispatch"] },
    Layer { name: "weft", knows: &["weft-*"] },
    Layer { name: "weft-servers", knows: &[] },
    Layer { name: "xtask", knows: &["weft-servers"] },
];

/// Crates that only tests and who runs them may name: a `*` does not stand for them.
const FOR_TESTS: &[&str] = &["weft-servers"];

/// All that core may take from outside. Its rules must be replayed, simulated and batched, so it brings no world along.
const CORE_TAKES: &[&str] = &["bytes", "postcard", "serde", "sha2", "thiserror", "uuid"];

pub fn check(graph: &Graph, tree: &Tree) -> Vec<Finding> {
    let members: Vec<&str> = graph.members().map(|(package, _)| package.name.as_str()).collect();
    let mut findings = Vec::new();
    for (package, manifest) in graph.members() {
        let text = tree.file(manifest).map_or("", |file| file.text.as_str());
        let found = |line: usize, what: String, instead: String| Finding::new(manifest, line, what, instead);
        let Some(layer) = LAYERS.iter().find(|layer| fits(layer.name, &package.name)) else {
            let what = format!("`{}` has no place among the layers", package.name);
            findings.push(found(1, what, "say in xtask/src/tidy/direction.rs which crates it may know".to_owned()));
            continue;
        };
        for dependency in &package.dependencies {
            if let Some(instead) = refuse(package, layer, dependency, &members) {
                let what = format!("`{}` names `{}`", package.name, dependency.name);
                findings.push(found(line_starting(text, &dependency.name), what, instead));
            }
        }
    }
    findings
}

/// What to do instead of this dependency, or nothing if it is fine. Tests may look anywhere, except those of core: a
/// test of a rule that needs more than core is a test of something else.
fn refuse(package: &Package, layer: &Layer, dependency: &Dependency, members: &[&str]) -> Option<String> {
    let core = layer.name == "weft-core";
    if !members.contains(&dependency.name.as_str()) {
        let taken = !core || dependency.dev || CORE_TAKES.contains(&dependency.name.as_str());
        return (!taken)
            .then(|| format!("core takes only {} from outside: move it to the engine", CORE_TAKES.join(", ")));
    }
    let known = if FOR_TESTS.contains(&dependency.name.as_str()) {
        layer.knows.contains(&dependency.name.as_str())
    } else {
        layer.knows.iter().any(|pattern| fits(pattern, &dependency.name))
    };
    if known || (dependency.dev && !core) {
        return None;
    }
    let knows = if layer.knows.is_empty() { "no crate of the workspace".to_owned() } else { layer.knows.join(", ") };
    Some(format!("it may know {knows}: move the code that needs more up to a crate on top of `{}`", package.name))
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of these crates, each with what it names; `dev:` marks what only its tests name.
    fn refused(crates: &[(&str, &str)]) -> Vec<String> {
        let packages = crates.iter().map(|(name, names)| Package {
            name: (*name).to_owned(),
            version: "0.1.0".to_owned(),
            licence: None,
            source: None,
            manifest: Some(format!("{name}/Cargo.toml")),
            dependencies: names
                .split_whitespace()
                .map(|name| Dependency {
                    name: name.trim_start_matches("dev:").to_owned(),
                    dev: name.starts_with("dev:"),
                })
                .collect(),
        });
        let graph = Graph { packages: packages.collect() };
        check(&graph, &Tree::of(&[])).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn the_intended_workspace_is_fine() {
        let refused = refused(&[
            ("weft-core", "serde postcard uuid thiserror bytes sha2 dev:proptest"),
            ("weft-store", "weft-core tokio dev:weft-store-sqlite"),
            ("weft-store-sqlite", "weft-core weft-store rusqlite"),
            ("weft-store-postgres", "weft-core weft-store tokio-postgres dev:weft-servers"),
            ("weft-store-valkey", "weft-core weft-store weft-tls redis dev:weft-servers"),
            ("weft-tls", "rustls rustls-native-certs thiserror"),
            ("weft-config", "weft-core strsim toml"),
            ("weft-exec", "bytes rustix tokio"),
            ("weft-engine", "weft-core weft-store tokio dev:weft-store-sqlite"),
            ("weft-sim", "weft-core weft-store weft-engine"),
            ("weft-bench", "weft-core weft-store weft-engine"),
            ("weft-server", "weft-api weft-engine weft-dispatch"),
            ("weft", "weft-core weft-store weft-store-sqlite weft-engine weft-sim weft-bench weft-server"),
            ("weft-servers", "rustix tempfile thiserror"),
            ("xtask", "anyhow serde_json weft-servers"),
        ]);
        assert_eq!(refused, [""; 0]);
    }

    #[test]
    fn an_arrow_the_other_way_is_refused() {
        for (name, names) in [
            ("weft-core", "weft-store"),
            ("weft-core", "dev:weft-store"),
            ("weft-store", "weft-engine"),
            ("weft-store-sqlite", "weft-engine"),
            ("weft-engine", "weft-store-sqlite"),
            ("weft-config", "weft-engine"),
            ("weft-sim", "weft-store-sqlite"),
            ("weft-bench", "weft-store-sqlite"),
            ("weft-server", "weft"),
            ("weft-servers", "weft-core"),
            ("weft-exec", "weft-engine"),
            ("weft-store-postgres", "weft-servers"),
            ("weft", "weft-servers"),
            ("xtask", "weft-core"),
        ] {
            let named = names.trim_start_matches("dev:");
            let refused = refused(&[(name, names), (named, "")]);
            assert_eq!(refused, [format!("`{name}` names `{named}`")]);
        }
    }

    #[test]
    fn core_brings_no_world_along() {
        assert_eq!(refused(&[("weft-core", "serde tokio dev:tokio")]), ["`weft-core` names `tokio`"]);
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        assert_eq!(refused(&[("weft-extras", "")]), ["`weft-extras` has no place among the layers"]);
    }
}
