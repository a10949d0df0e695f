//! The packages that `cargo metadata` knows: those of the workspace and everything they can bring, on any platform.

use crate::run::Line;
use anyhow::{Context, Result, bail};
use serde_json::Value;

/// What to do when cargo cannot answer.
pub const MEND: &str = "`cargo update --workspace` mends the lock file, `cargo fetch --locked` gets what is missing";

pub struct Graph {
    pub packages: Vec<Package>,
}

pub struct Package {
    pub name: String,
    pub version: String,
    pub licence: Option<String>,
    /// Where it was fetched from; nothing for a package on disk.
    pub source: Option<String>,
    /// For a member of the workspace its `Cargo.toml`, from the root.
    pub manifest: Option<String>,
    pub dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    /// Only tests, examples and benches see it.
    pub dev: bool,
}

impl Graph {
    /// Asks cargo, which says on stderr why it cannot answer.
    pub fn load() -> Result<Graph> {
        let line = Line::cargo("metadata --format-version 1 --locked");
        let captured = line.capture()?;
        if !captured.status.success() {
            bail!(
                "`{line}` failed: `cargo fetch --locked` gets what is missing, `cargo update -w` mends the lock file"
            );
        }
        let metadata = serde_json::from_str(&captured.stdout).with_context(|| format!("`{line}` wrote no JSON"))?;
        Graph::from(&metadata).with_context(|| format!("`{line}` wrote something else than expected"))
    }

    fn from(metadata: &Value) -> Result<Graph> {
        let root = metadata["workspace_root"].as_str().context("no `workspace_root`")?;
        let members = metadata["workspace_members"].as_array().context("no `workspace_members`")?;
        let packages = metadata["packages"].as_array().context("no `packages`")?.iter();
        let packages = packages.map(|package| {
            let manifest = text(package, "manifest_path")?;
            let manifest =
                manifest.strip_prefix(root).map(|path| path.trim_start_matches(['/', '\\']).replace('\\', "/"));
            let dependencies = package["dependencies"].as_array().context("no `dependencies`")?.iter();
            Ok(Package {
                name: text(package, "name")?,
                version: text(package, "version")?,
                licence: package["license"].as_str().map(str::to_owned),
                source: package["source"].as_str().map(str::to_owned),
                manifest: if members.contains(&package["id"]) { manifest } else { None },
                dependencies: dependencies.map(dependency).collect::<Result<_>>()?,
            })
        });
        Ok(Graph { packages: packages.collect::<Result<_>>()? })
    }

    /// The packages of the workspace, each with its `Cargo.toml`.
    pub fn members(&self) -> impl Iterator<Item = (&Package, &str)> {
        self.packages.iter().filter_map(|package| Some((package, package.manifest.as_deref()?)))
    }
}

fn dependency(value: &Value) -> Result<Dependency> {
    Ok(Dependency { name: text(value, "name")?, dev: value["kind"] == "dev" })
}

fn text(value: &Value, field: &str) -> Result<String> {
    Ok(value[field].as_str().with_context(|| format!("no `{field}`"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_and_strangers_are_told_apart() {
        let metadata = json!({
            "workspace_root": "/w",
            "workspace_members": ["path+file:///w/crates/core#weft-core@0.1.0"],
            "packages": [
                {
                    "id": "path+file:///w/crates/core#weft-core@0.1.0", "name": "weft-core", "version": "0.1.0",
                    "license": "Apache-2.0", "source": null, "manifest_path": "/w/crates/core/Cargo.toml",
                    "dependencies": [{ "name": "serde", "kind": null }, { "name": "proptest", "kind": "dev" }],
                },
                {
                    "id": "registry+x#serde@1.0.0", "name": "serde", "version": "1.0.0", "license": "MIT",
                    "source": "registry+x", "manifest_path": "/w/vendor/serde/Cargo.toml", "dependencies": [],
                },
            ],
        });
        let graph = Graph::from(&metadata).expect("it is well formed");
        let members: Vec<_> = graph.members().map(|(package, manifest)| (package.name.as_str(), manifest)).collect();
        assert_eq!(members, [("weft-core", "crates/core/Cargo.toml")]);
        let serde = Dependency { name: "serde".to_owned(), dev: false };
        let proptest = Dependency { name: "proptest".to_owned(), dev: true };
        assert_eq!(graph.packages[0].dependencies, [serde, proptest]);
        assert_eq!(graph.packages[1].source.as_deref(), Some("registry+x"));
        assert!(Graph::from(&json!({})).is_err());
    }
}
