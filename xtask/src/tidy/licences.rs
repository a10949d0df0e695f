//! What every package of the graph must show: a licence that lets Weft be given away, and a source that can be checked.

use super::Finding;
use super::graph::{Graph, Package};
use super::source::Tree;
use super::spdx;

const GOOD: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unlicense",
    "Zlib",
];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub fn check(graph: &Graph, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &graph.packages {
        let mut found = |what: String, instead: &str| {
            let (path, line) = place(package, tree);
            findings.push(Finding::new(path, line, what, instead));
        };
        let name = &package.name;
        if let Some(reason) = unlicensed(package.licence.as_deref()) {
            found(format!("the licence of `{name}` {reason}"), "take another crate, or write what is needed of it");
        }
        match package.source.as_deref() {
            Some(REGISTRY) => {}
            None if package.manifest.is_some() => {}
            other => {
                let what = format!("`{name}` comes from {}", other.unwrap_or("a folder outside of the workspace"));
                found(what, "take a released version from crates.io");
            }
        }
    }
    findings
}

/// Why these terms are not good enough.
fn unlicensed(terms: Option<&str>) -> Option<String> {
    let Some(terms) = terms else { return Some("is not named".to_owned()) };
    match spdx::permits(terms, &good) {
        Ok(true) => None,
        Ok(false) => Some(format!("is `{terms}`")),
        Err(why) => Some(format!("cannot be read: {why}")),
    }
}

fn good(licence: &str) -> bool {
    GOOD.contains(&licence) || licence.starts_with("Unicode-")
}

/// Where a package is written down: its own manifest, or its entry in the lock file.
pub fn place<'a>(package: &'a Package, tree: &Tree) -> (&'a str, usize) {
    if let Some(manifest) = &package.manifest {
        return (manifest, 1);
    }
    let entry = format!("name = \"{}\"\nversion = \"{}\"", package.name, package.version);
    ("Cargo.lock", tree.lock.find(&entry).map_or(1, |at| super::source::line_at(&tree.lock, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_good_absent_bad_or_unreadable() {
        assert_eq!(unlicensed(Some("(MIT OR Apache-2.0) AND Unicode-3.0")), None);
        assert_eq!(unlicensed(Some("MIT OR Apache-2.0 OR LGPL-2.1-or-later")), None);
        assert_eq!(unlicensed(Some("MPL-2.0")), Some("is `MPL-2.0`".to_owned()));
        assert_eq!(unlicensed(None), Some("is not named".to_owned()));
        assert!(unlicensed(Some("see file")).is_some_and(|why| why.starts_with("cannot be read")));
    }

    #[test]
    fn a_package_from_elsewhere_is_found() {
        let package = |name: &str, source: Option<&str>, manifest: Option<&str>| Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            licence: Some("MIT".to_owned()),
            source: source.map(str::to_owned),
            manifest: manifest.map(str::to_owned),
            dependencies: Vec::new(),
        };
        let packages = vec![
            package("a", Some(REGISTRY), None),
            package("b", None, Some("crates/b/Cargo.toml")),
            package("c", Some("git+https://example.org/c"), None),
            package("d", None, None),
        ];
        let mut tree = Tree::of(&[]);
        tree.lock = "[[package]]\nname = \"c\"\nversion = \"1.0.0\"\n".to_owned();
        let found: Vec<_> = check(&Graph { packages }, &tree).iter().map(Finding::to_string).collect();
        assert_eq!(
            found,
            [
                "Cargo.lock:2: `c` comes from git+https://example.org/c: take a released version from crates.io",
                "Cargo.lock:1: `d` comes from a folder outside of the workspace: take a released version from crates.io",
            ]
        );
    }
}
