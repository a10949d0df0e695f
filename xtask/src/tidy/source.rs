//! The files of the tree, and which part of each is code and which is said to people. Owns the walk over the folders and
//! the splitting of Rust into code, comments and literals; judges nothing.

use anyhow::{Context, Result};
use std::path::Path;

/// Every `.rs`, `.md` and `.toml` file, in the order of their paths.
pub struct Tree {
    pub files: Vec<File>,
    /// `Cargo.lock`, empty if there is none.
    pub lock: String,
}

/// A file, and the same text twice more with everything blanked out but its code or but its prose. Blanks keep every
/// line and column where it is.
pub struct File {
    /// From the root of the workspace, with `/`.
    pub path: String,
    pub text: String,
    /// Rust without comments and without the insides of literals; empty for other files.
    pub code: String,
    /// Comments of Rust and TOML; all of a Markdown file.
    pub prose: String,
}

/// What is made by tools or holds data.
const SKIPPED: &[&str] = &["target", "node_modules", "weft-data"];

impl Tree {
    pub fn read(root: &Path) -> Result<Tree> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let lock = std::fs::read_to_string(root.join("Cargo.lock")).unwrap_or_default();
        Ok(Tree { files, lock })
    }

    /// A tree made up of these files, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| File::new(path, (*text).to_owned())).collect();
        Tree { files, lock: String::new() }
    }

    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }
}

fn walk(root: &Path, folder: &str, files: &mut Vec<File>) -> Result<()> {
    let here = root.join(folder);
    for entry in std::fs::read_dir(&here).with_context(|| format!("could not list `{}`", here.display()))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') || SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            walk(root, &path, files)?;
        } else if kind.is_file() && [".rs", ".md", ".toml"].iter().any(|ending| name.ends_with(ending)) {
            let text = std::fs::read_to_string(entry.path()).with_context(|| format!("could not read `{path}`"))?;
            files.push(File::new(&path, text));
        }
    }
    Ok(())
}

impl File {
    pub fn new(path: &str, text: String) -> File {
        let (code, prose) = match path.rsplit('.').next() {
            Some("rs") => {
                let classes = classes(text.as_bytes());
                (only(&text, &classes, Class::Code), only(&text, &classes, Class::Comment))
            }
            Some("toml") => (String::new(), toml_comments(&text)),
            _ => (String::new(), text.clone()),
        };
        File { path: path.to_owned(), text, code, prose }
    }

    /// Tests may do without what is asked of the code they test.
    pub fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }
}

/// The line, from 1, of a place in a text.
pub fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count()
}

/// The line, from 1, that begins with `start` once blanks are gone; 1 if none does.
pub fn line_starting(text: &str, start: &str) -> usize {
    text.lines().position(|line| line.trim_start().starts_with(start)).map_or(1, |at| at + 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Code,
    Comment,
    Literal,
}

fn only(text: &str, classes: &[Class], wanted: Class) -> String {
    let kept = text.bytes().zip(classes).map(|(byte, class)| match byte {
        b'\n' => b'\n',
        _ if *class == wanted => byte,
        _ => b' ',
    });
    String::from_utf8(kept.collect()).expect("source: classes change only beside ASCII")
}

fn toml_comments(text: &str) -> String {
    let mut comments = String::new();
    for line in text.split_inclusive('\n') {
        let start = comment_start(line).unwrap_or(line.trim_end_matches('\n').len());
        comments.extend(std::iter::repeat_n(' ', start));
        comments.push_str(&line[start..]);
    }
    comments
}

/// Where the comment of a line of TOML begins: at the first `#` outside of quotes.
pub fn comment_start(line: &str) -> Option<usize> {
    let mut quote = None;
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '#') => return Some(at),
            (None, '"' | '\'') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
    }
    None
}

/// The class of every byte of Rust. Follows the language as far as quotes and comments need it: nested block comments,
/// escapes, raw strings, and the apostrophe of a lifetime.
fn classes(text: &[u8]) -> Vec<Class> {
    let mut classes = Vec::with_capacity(text.len());
    while classes.len() < text.len() {
        let at = classes.len();
        let rest = &text[at..];
        let (class, length) = match rest {
            [b'/', b'/', ..] => (Class::Comment, line_comment(rest)),
            [b'/', b'*', ..] => (Class::Comment, block_comment(rest)),
            [b'"', ..] => (Class::Literal, string(rest)),
            [b'\'', ..] => letter(rest).map_or((Class::Code, 1), |length| (Class::Literal, length)),
            [byte, ..] if is_word(*byte) => word_or_raw_string(rest),
            _ => (Class::Code, 1),
        };
        classes.resize(text.len().min(at + length), class);
    }
    classes
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn line_comment(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at + 1 < rest.len() {
        match &rest[at..at + 2] {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of a character literal, or nothing if the apostrophe begins a lifetime.
fn letter(rest: &[u8]) -> Option<usize> {
    let first = *rest.get(1)?;
    if first == b'\\' {
        // The escaped letter may itself be an apostrophe.
        return rest.iter().skip(3).position(|byte| *byte == b'\'').map(|at| at + 4);
    }
    let width = match first {
        0x00..=0x7f => 1,
        0x80..=0xdf => 2,
        0xe0..=0xef => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

fn word_or_raw_string(rest: &[u8]) -> (Class, usize) {
    let length = rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
    let (word, after) = rest.split_at(length);
    let hashes = after.iter().take_while(|byte| **byte == b'#').count();
    let raw = matches!(word, b"r" | b"br" | b"cr") && after.get(hashes) == Some(&b'"');
    if !raw {
        return (Class::Code, length);
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let inside = length + hashes + 1;
    let end = rest[inside..].windows(close.len()).position(|window| window == close);
    (Class::Literal, end.map_or(rest.len(), |end| inside + end + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a line of Rust as code and as prose, without blanks.
    fn split(rust: &str) -> (String, String) {
        let file = File::new("a.rs", rust.to_owned());
        assert_eq!(file.code.len(), rust.len());
        assert_eq!(file.prose.len(), rust.len());
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        (squeeze(&file.code), squeeze(&file.prose))
    }

    #[test]
    fn code_comments_and_literals_are_told_apart() {
        for (rust, code, prose) in [
            ("let a = 1; // why", "let a = 1;", "// why"),
            ("a /* x /* y */ z */ b", "a b", "/* x /* y */ z */"),
            (r#"f("// no \" comment"); g()"#, "f( ); g()", ""),
            (r##"f(r#"a " // b"#, br"\"); // c"##, "f( , );", "// c"),
            ("r#type = b\"x\" + c\"y\"", "r#type = b + c", ""),
            ("fn f<'a>(x: &'a str) -> char { '\"' }", "fn f<'a>(x: &'a str) -> char { }", ""),
            (r"['\'', '\\', 'é', '\u{1F600}', '/'] // d", "[ , , , , ]", "// d"),
            ("/// über\nfn f() {}", "fn f() {}", "/// über"),
            ("\"open", "", ""),
            ("/* open", "", "/* open"),
        ] {
            assert_eq!(split(rust), (code.to_owned(), prose.to_owned()), "{rust}");
        }
    }

    #[test]
    fn lines_stay_where_they_are() {
        let file = File::new("a.rs", "/* one\ntwo */\nlet s = \"\n\";\nend".to_owned());
        let at = file.code.find("end").expect("it is code");
        assert_eq!(line_at(&file.code, at), 5);
    }

    #[test]
    fn a_hash_in_quotes_begins_no_comment() {
        assert_eq!(comment_start("a = \"#1\" # why"), Some(9));
        assert_eq!(comment_start("a = '#'"), None);
        assert_eq!(toml_comments("é = 1 # x\ny = 2\n").trim_end_matches('\n').lines().count(), 2);
    }

    #[test]
    fn tests_are_known_by_their_place() {
        for (path, test) in
            [("crates/a/tests/all/x.rs", true), ("crates/a/src/b/tests.rs", true), ("a/contests.rs", false)]
        {
            assert_eq!(File::new(path, String::new()).is_test(), test, "{path}");
        }
    }
}
