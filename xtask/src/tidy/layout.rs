//! What every Rust file must be: named for what it holds, and opened with a sentence about it.

use super::Finding;
use super::source::{File, Tree};

/// Words that say nothing about what is inside. If only such a word fits, the thing has two jobs.
const EMPTY_WORDS: &[&str] = &["common", "helper", "helpers", "manager", "managers", "misc", "ops", "util", "utils"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(|file| [empty_name(file), without_docs(file)]).flatten().collect()
}

fn empty_name(file: &File) -> Option<Finding> {
    let words = file.path.trim_end_matches(".rs").split(['/', '_', '-']);
    let word = words.into_iter().find(|word| EMPTY_WORDS.contains(word))?;
    Some(Finding::new(&file.path, 1, format!("`{word}` in a name"), "name the file for the one thing it holds"))
}

fn without_docs(file: &File) -> Option<Finding> {
    let first = file.text.lines().next().unwrap_or_default();
    let documented = first.strip_prefix("//!").is_some_and(|said| !said.trim().is_empty());
    let instead = "say in `//!` on the first line what it owns and what it never does";
    (!documented && !file.is_test())
        .then(|| Finding::new(&file.path, 1, "does not begin with its module docs", instead))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn names_say_what_is_inside() {
        let docs = "//! Owns it.\n";
        for path in ["a/lease_manager.rs", "a/utils.rs", "common/src/a.rs", "tests/common/mod.rs", "a/ops.rs"] {
            assert_eq!(found(path, docs).len(), 1, "{path}");
        }
        for path in ["a/stops.rs", "a/commons.rs", "a/utility.rs", "a/operation.rs"] {
            assert_eq!(found(path, docs), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_module_begins_with_a_sentence_unless_it_is_a_test() {
        assert_eq!(found("a/src/lib.rs", "//! Owns it.\n"), [""; 0]);
        assert_eq!(found("a/tests/all/main.rs", "mod b;\n"), [""; 0]);
        for text in ["", "use std::io;\n", "//!\n//! Owns it.\n", "// Owns it.\n", "/// Owns it.\n"] {
            assert_eq!(found("a/src/lib.rs", text), ["does not begin with its module docs"], "{text:?}");
        }
    }
}
