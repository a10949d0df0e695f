//! What may not be written, where, and what to write instead. Owns the tables: a rule that would be said twice in review
//! is a row here. Looks at words only; what needs a type is clippy's.

use super::Finding;
use super::source::{File, Tree, line_at};

/// A row: any of `what`, at word bounds, in a file within one of the places and not in an excepted one.
///
/// A place is a path from the root, or `**/` and a name that may stand at any depth. No place at all is everywhere.
struct Ban {
    what: &'static [&'static str],
    within: &'static [&'static str],
    except: &'static [&'static str],
    instead: &'static str,
}

/// Banned in Rust code; comments and literals may speak of it.
const CODE: &[Ban] = &[
    Ban {
        what: &["SystemTime::now", "Instant::now"],
        within: &["crates/core"],
        except: &[],
        instead: "take `now: Time` from the command",
    },
    Ban {
        what: &["HashMap", "HashSet"],
        within: &["crates/core"],
        except: &[],
        instead: "BTreeMap or BTreeSet: order is part of every result",
    },
    Ban {
        what: &["rand", "getrandom", "Uuid::new_v4", "Uuid::now_v7"],
        within: &["crates/core"],
        except: &[],
        instead: "let fresh ids and randomness enter with the command",
    },
    Ban {
        what: &["SystemTime::now", "Instant::now", "tokio::time", "tokio::spawn", "thread::sleep"],
        within: &["crates/engine/src"],
        except: &["crates/engine/src/runtime.rs"],
        instead: "take clock and spawner as values, so that the simulator drives the same code; only runtime.rs knows the real ones",
    },
    Ban {
        what: &["watch::Sender", "watch::channel", "broadcast::channel", "select!"],
        within: &["crates/engine/src"],
        except: &["crates/engine/src/engine.rs"],
        instead: "`bell.rs` or `future::select`: these wake or choose by chance, and the same seed must give the same log",
    },
    Ban {
        what: &["thread::sleep", "time::sleep"],
        within: &["**/tests", "**/tests.rs"],
        except: &[],
        instead: "virtual time, or wait for a named event with a deadline that fails loudly",
    },
    Ban {
        what: &["todo!", "unimplemented!"],
        within: &[],
        except: &[],
        instead: "write it, or refuse with a `Rejection`",
    },
    Ban { what: &["dbg!"], within: &[], except: &[], instead: "`tracing`, or nothing" },
    Ban { what: &["#[ignore"], within: &[], except: &[], instead: "mend the test or delete it" },
];

/// Banned in what people read: comments of Rust and TOML, all of Markdown. A word in lower case stands for any case.
const PROSE: &[Ban] = &[
    Ban {
        what: &["TODO", "FIXME", "XXX"],
        within: &[],
        except: &[],
        instead: "do it, or say why it is right as it is; wishes belong to the issue tracker",
    },
    Ban {
        what: &["phase", "milestone", "sprint", "ticket", "part 2", "v2"],
        within: &[],
        except: &[],
        instead: "say what the code promises; plans and history belong elsewhere",
    },
    Ban {
        what: &["for now", "temporary", "hack", "follow-up"],
        within: &[],
        except: &[],
        instead: "say why it is right as it stands, or make it right",
    },
];

/// A word that is banned and right in one file.
struct Exception {
    file: &'static str,
    word: &'static str,
    why: &'static str,
}

const EXCEPTIONS: &[Exception] = &[
    Exception { file: "crates/cli/src/bench/mod.rs", word: "temporary", why: "a folder that goes away is meant" },
    Exception { file: "crates/cli/src/bench/file.rs", word: "temporary", why: "a folder that goes away is meant" },
    Exception { file: "crates/cli/src/demo/mod.rs", word: "temporary", why: "a folder that goes away is meant" },
    Exception { file: "crates/bench/src/load.rs", word: "ticket", why: "the right to claim one execution is meant" },
    Exception {
        file: "crates/dispatch/tests/all/counts.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/engine/tests/all/kit/mod.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/engine/tests/all/kit/probe.rs",
        word: "time::sleep",
        why: "a store that takes its time is what is tested",
    },
    Exception {
        file: "crates/engine/tests/all/losses.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/engine/tests/all/nodes.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/engine/tests/all/stores/place.rs",
        word: "time::sleep",
        why: "between two looks for a named event, with a deadline; on real servers nothing tells of it",
    },
    Exception {
        file: "crates/sdk/tests/all/children.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/sdk/tests/all/leases.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/sdk/tests/all/losses.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/sdk/tests/all/registry.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/sdk/tests/all/renewals.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/sdk/tests/all/steps.rs",
        word: "time::sleep",
        why: "tokio's clock is paused: time is virtual",
    },
    Exception {
        file: "crates/server/tests/all/kit.rs",
        word: "time::sleep",
        why: "a store that takes its time is what is tested",
    },
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    judged(tree, EXCEPTIONS)
}

fn judged(tree: &Tree, exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut needed = vec![false; exceptions.len()];
    for file in &tree.files {
        let in_code = found(file, &file.code, CODE, false);
        for (word, finding) in in_code.into_iter().chain(found(file, &file.prose, PROSE, true)) {
            let excepted = |exception: &Exception| exception.file == file.path && exception.word == word;
            match exceptions.iter().position(excepted) {
                Some(at) => needed[at] = true,
                None => findings.push(finding),
            }
        }
        findings.extend(issue_references(file));
    }
    for (Exception { file, word, why }, _) in exceptions.iter().zip(needed).filter(|(_, needed)| !needed) {
        let what = format!("`{word}` is excepted in {file} ({why}) and is not there");
        findings.push(Finding::new("xtask/src/tidy/bans.rs", 1, what, "delete the exception"));
    }
    findings
}

/// Each finding with the word that was found.
fn found(file: &File, text: &str, bans: &[Ban], prose: bool) -> Vec<(&'static str, Finding)> {
    let mut found = Vec::new();
    for ban in bans.iter().filter(|ban| applies(ban, &file.path)) {
        for what in ban.what {
            let any_case = prose && !what.contains(|letter: char| letter.is_ascii_uppercase());
            for at in places(text, what, any_case) {
                found.push((*what, Finding::new(&file.path, line_at(text, at), format!("`{what}`"), ban.instead)));
            }
        }
    }
    found
}

fn applies(ban: &Ban, path: &str) -> bool {
    let within = |places: &[&str]| places.iter().any(|place| contains(place, path));
    (ban.within.is_empty() || within(ban.within)) && !within(ban.except)
}

fn contains(place: &str, path: &str) -> bool {
    match place.strip_prefix("**/") {
        Some(name) => path.split('/').any(|part| part == name),
        None => path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
    }
}

/// Where `what` stands in a text as words of its own: `rand` is not in `rand_core` nor in `brand`.
fn places(text: &str, what: &str, any_case: bool) -> Vec<usize> {
    // ASCII only, so that every place in the lowered text is the same place in the text.
    let lowered = any_case.then(|| text.to_ascii_lowercase());
    let text = lowered.as_deref().unwrap_or(text);
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let joined = |one: Option<char>, other: Option<char>| one.is_some_and(is_word) && other.is_some_and(is_word);
    text.match_indices(what)
        .map(|(at, _)| at)
        .filter(|at| {
            let (before, after) = (&text[..*at], &text[at + what.len()..]);
            !joined(before.chars().next_back(), what.chars().next())
                && !joined(what.chars().next_back(), after.chars().next())
        })
        .collect()
}

/// A number sign with a number sends the reader off the page, to a place that may be gone. Anchors of links, such as
/// `page#2-build`, are none.
fn issue_references(file: &File) -> Vec<Finding> {
    let instead = "say what the reader needs to know; a full link stands only on a regression test";
    let text = file.prose.as_str();
    let mut findings = Vec::new();
    for (at, _) in text.match_indices('#') {
        let rest = &text[at + 1..];
        let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let bounded =
            |letter: Option<char>| letter.is_none_or(|letter| !letter.is_alphanumeric() && !"-_/#".contains(letter));
        if digits > 0 && bounded(text[..at].chars().next_back()) && bounded(rest[digits..].chars().next()) {
            findings.push(Finding::new(&file.path, line_at(text, at), format!("`#{}`", &rest[..digits]), instead));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        judged(&tree, &[]).into_iter().map(|finding| format!("{} {}", finding.line, finding.what)).collect()
    }

    #[test]
    fn words_have_bounds() {
        for (text, what, any_case, count) in [
            ("rand::rng() rand_core brand operand rand", "rand", false, 2),
            ("tokio::time::sleep tokio::timer", "tokio::time", false, 1),
            ("Phase two-phase phases emphase PHASE", "phase", true, 3),
            ("TODO todo todos", "TODO", false, 1),
            ("api v2, v20, rev2, /v2/", "v2", true, 2),
            ("todo!() my_todo!()", "todo!", false, 1),
            ("#[ignore] #[ignore = \"x\"]", "#[ignore", false, 2),
            ("éphase phaseé", "phase", true, 0),
        ] {
            assert_eq!(places(text, what, any_case).len(), count, "{what} in {text}");
        }
    }

    #[test]
    fn a_place_ends_at_a_slash() {
        for (place, path, inside) in [
            ("crates/core", "crates/core/src/a.rs", true),
            ("crates/core", "crates/core-extra/src/a.rs", false),
            ("crates/engine/src/runtime.rs", "crates/engine/src/runtime.rs", true),
            ("**/tests", "crates/a/tests/all/b.rs", true),
            ("**/tests", "crates/a/contests/b.rs", false),
            ("**/tests.rs", "crates/a/src/b/tests.rs", true),
        ] {
            assert_eq!(contains(place, path), inside, "{path} in {place}");
        }
    }

    #[test]
    fn code_is_banned_only_where_the_row_says() {
        let clock = "fn f() {\n    Instant::now();\n}\n";
        assert_eq!(whats("crates/core/src/a.rs", clock), ["2 `Instant::now`"]);
        assert_eq!(whats("crates/engine/src/a.rs", clock), ["2 `Instant::now`"]);
        assert_eq!(whats("crates/engine/src/runtime.rs", clock), [""; 0]);
        assert_eq!(whats("crates/bench/src/a.rs", clock), [""; 0]);
        assert_eq!(whats("crates/core/src/a.rs", "// no HashMap here\nf(\"HashMap\");\n"), [""; 0]);
        assert_eq!(whats("crates/a/tests/b.rs", "std::thread::sleep(x);"), ["1 `thread::sleep`"]);
    }

    #[test]
    fn prose_is_read_in_comments_and_documents_only() {
        assert_eq!(whats("crates/a/src/b.rs", "let phase = \"TODO\";\n// A Hack.\n"), ["2 `hack`"]);
        assert_eq!(whats("README.md", "one\n\nfor now it is\n"), ["3 `for now`"]);
        assert_eq!(whats("Cargo.toml", "hack = \"phase\" # a ticket\n"), ["1 `ticket`"]);
    }

    #[test]
    fn an_exception_holds_for_its_file_and_must_be_needed() {
        let tree = Tree::of(&[("a.md", "two-phase commit"), ("b.md", "two-phase commit")]);
        let exception = |file: &'static str| Exception { file, word: "phase", why: "a term" };
        let whats = |exceptions: &[Exception]| -> Vec<String> {
            judged(&tree, exceptions).into_iter().map(|finding| format!("{} {}", finding.path, finding.what)).collect()
        };
        assert_eq!(whats(&[exception("a.md")]), ["b.md `phase`"]);
        assert_eq!(whats(&[exception("a.md"), exception("b.md")]), [""; 0]);
        let unneeded = "xtask/src/tidy/bans.rs `phase` is excepted in c.md (a term) and is not there";
        assert_eq!(whats(&[exception("a.md"), exception("b.md"), exception("c.md")]), [unneeded]);
    }

    #[test]
    fn numbers_of_issues_are_found_and_anchors_are_not() {
        assert_eq!(whats("a.rs", "// see #378.\n"), ["1 `#378`"]);
        assert_eq!(whats("a.md", "(#12)\n"), ["1 `#12`"]);
        assert_eq!(whats("a.md", "[x](page.md#2-build) [y](#2-build) &#39x; ## 3\n"), [""; 0]);
        assert_eq!(whats("a.rs", "let colour = \"#123456\"; // one\n"), [""; 0]);
    }
}
