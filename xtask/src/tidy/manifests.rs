//! What every `Cargo.toml` must say: the lints of the workspace, versions in one place, a reason per dependency.

use super::Finding;
use super::source::{File, Tree, comment_start};

/// Compiled before everything else and speaks to a person at a terminal, so it prints.
const WITHOUT_LINTS: &[&str] = &["xtask/Cargo.toml"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml")) {
        let entries = entries(file);
        if file.path == "Cargo.toml" {
            findings.extend(without_reason(file, &entries));
        } else {
            findings.extend(without_lints(file, &entries));
            findings.extend(with_version(file, &entries));
        }
    }
    findings
}

/// One `key = value` of a manifest, over as many lines as it has.
struct Entry<'a> {
    table: &'a str,
    key: &'a str,
    /// From 1.
    line: usize,
    /// Its lines, with the comment lines right above it.
    text: String,
    commented: bool,
}

/// The entries in the order of the file. Reads what manifests are made of: tables, keys, arrays over several lines.
fn entries(file: &File) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let (mut table, mut open, mut above) = ("", 0_i32, false);
    for (at, line) in file.text.lines().enumerate() {
        let value = &line[..comment_start(line).unwrap_or(line.len())];
        let commented = value.len() < line.len();
        let trimmed = value.trim();
        if open > 0 {
            let entry = entries.last_mut().expect("manifests: an open bracket belongs to an entry");
            entry.text.push_str(trimmed);
            entry.commented |= commented;
        } else if trimmed.is_empty() {
            above = commented;
            continue;
        } else if trimmed.starts_with('[') {
            table = trimmed.trim_matches(['[', ']']);
            above = false;
            continue;
        } else {
            let key = trimmed.split('=').next().unwrap_or_default().trim();
            entries.push(Entry { table, key, line: at + 1, text: trimmed.to_owned(), commented: commented || above });
        }
        above = false;
        open += value
            .chars()
            .map(|letter| i32::from("[{".contains(letter)) - i32::from("]}".contains(letter)))
            .sum::<i32>();
    }
    entries
}

fn without_reason(file: &File, entries: &[Entry<'_>]) -> Vec<Finding> {
    let instead = "write behind it the sentence that would have to become false for it to go";
    let outside = |entry: &&Entry<'_>| entry.table == "workspace.dependencies" && !entry.text.contains("path =");
    let bare = entries.iter().filter(outside).filter(|entry| !entry.commented);
    bare.map(|entry| Finding::new(&file.path, entry.line, format!("`{}` without its reason", entry.key), instead))
        .collect()
}

fn without_lints(file: &File, entries: &[Entry<'_>]) -> Option<Finding> {
    let linted = |entry: &Entry<'_>| entry.table == "lints" && entry.key == "workspace" && entry.text.ends_with("true");
    let instead = "add `[lints]` with `workspace = true`";
    let found = !WITHOUT_LINTS.contains(&file.path.as_str()) && !entries.iter().any(linted);
    found.then(|| Finding::new(&file.path, 1, "without the lints of the workspace", instead))
}

fn with_version(file: &File, entries: &[Entry<'_>]) -> Vec<Finding> {
    let instead = "take it from `[workspace.dependencies]`, where its reason stands";
    let own = entries.iter().filter(|entry| {
        let inherited = entry.key.ends_with(".workspace") || entry.text.contains("workspace = true");
        entry.table.ends_with("dependencies") && !inherited
    });
    own.map(|entry| Finding::new(&file.path, entry.line, format!("`{}` with a version of its own", entry.key), instead))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)]))
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.what))
            .collect()
    }

    #[test]
    fn a_dependency_carries_its_reason() {
        let manifest = "\
# Each with its reason.
[workspace.dependencies]
weft-core = { path = \"crates/core\" }

anyhow = \"1\" # context at the edge
bytes = { version = \"1\", features = [\"#\"] }
# help from one definition
clap = \"4\"
lru = { version = \"0.19\", features = [
    \"a\",
] } # the cache
tokio = \"1\"

[profile.dev]
debug = 1
";
        assert_eq!(found("Cargo.toml", manifest), ["6: `bytes` without its reason", "12: `tokio` without its reason"]);
    }

    #[test]
    fn a_crate_takes_lints_and_versions_from_the_workspace() {
        let fine = "[dependencies]\na.workspace = true\nb = { workspace = true, features = [\"x\"] }\n[lints]\nworkspace = true\n";
        assert_eq!(found("crates/a/Cargo.toml", fine), [""; 0]);
        let own = "[dev-dependencies]\na = \"1\"\n";
        let lints = "1: without the lints of the workspace".to_owned();
        let version = "2: `a` with a version of its own".to_owned();
        assert_eq!(found("crates/a/Cargo.toml", own), [lints, version.clone()]);
        assert_eq!(found("xtask/Cargo.toml", own), [version]);
    }
}
