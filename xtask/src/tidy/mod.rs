//! Is the tree in order? Owns the list of checks and how a finding is told; each check is a file beside this one.
//! Changes nothing: a finding says what to do instead, and a person does it.

mod bans;
mod crates;
mod direction;
mod graph;
mod layout;
mod licences;
mod manifests;
mod sizes;
mod source;
mod spdx;
mod tools;

use anyhow::Result;
use graph::Graph;
use source::Tree;
use std::fmt;

/// Something that must change.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// From the root of the workspace.
    pub path: String,
    /// From 1.
    pub line: usize,
    pub what: String,
    pub instead: String,
}

impl Finding {
    pub fn new(path: &str, line: usize, what: impl Into<String>, instead: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into(), instead: instead.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.what, self.instead)
    }
}

/// Runs every check and prints what it found; outliers and counts are printed too and are no findings. True if there is
/// nothing to change. `quick` leaves clippy out, the only slow one.
pub fn tidy(quick: bool) -> Result<bool> {
    let tree = Tree::read(crate::run::root())?;
    let graph = Graph::load();
    let mut findings = match &graph {
        Ok(graph) => about_graph(graph, &tree),
        Err(error) => vec![Finding::new("Cargo.lock", 1, format!("{error:#}"), graph::MEND)],
    };
    findings.extend(manifests::check(&tree));
    findings.extend(layout::check(&tree));
    findings.extend(sizes::check(&tree));
    findings.extend(bans::check(&tree));
    findings.extend(tools::format()?);
    if !quick {
        findings.extend(tools::clippy());
    }
    findings.sort();

    for outlier in sizes::outliers(&tree) {
        println!("outlier: {outlier}");
    }
    if let Ok(graph) = &graph {
        println!("{}", crates::counts(graph));
    }
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy: nothing to change"),
        1 => println!("tidy: 1 finding"),
        count => println!("tidy: {count} findings"),
    }
    Ok(findings.is_empty())
}

fn about_graph(graph: &Graph, tree: &Tree) -> Vec<Finding> {
    let mut findings = direction::check(graph, tree);
    findings.extend(licences::check(graph, tree));
    findings.extend(crates::check(graph, tree));
    findings
}
