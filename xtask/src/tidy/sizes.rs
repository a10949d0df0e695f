//! How long files and functions are. A file that is too long is a finding; anything merely long is told, and a reader
//! decides.

use super::Finding;
use super::source::{File, Tree, line_at};

/// Past this a file probably holds a second thing.
const FILE_LINES_LONG: usize = 500;
/// Past this it certainly does.
const FILE_LINES_MAX: usize = 800;
/// Past this a function does not fit a screen.
const FUNCTION_LINES_LONG: usize = 100;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let measured = tree.rust().map(|file| (file, file.text.lines().count()));
    let long = measured.filter(|(_, lines)| *lines > FILE_LINES_MAX);
    let instead = "find the second thing in it and give it a file of its own";
    long.map(|(file, lines)| Finding::new(&file.path, 1, format!("{lines} lines"), instead)).collect()
}

/// Long files and functions, tests too, in the order of the tree.
pub fn outliers(tree: &Tree) -> Vec<String> {
    let mut outliers = Vec::new();
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_LONG {
            outliers.push(format!("{}:1: {lines} lines", file.path));
        }
        for (name, line, lines) in functions(file).into_iter().filter(|(.., lines)| *lines > FUNCTION_LINES_LONG) {
            outliers.push(format!("{}:{line}: `fn {name}` has {lines} lines", file.path));
        }
    }
    outliers
}

/// Every function with a body: its name, its first line and how many it has.
fn functions(file: &File) -> Vec<(&str, usize, usize)> {
    let code = file.code.as_str();
    let mut functions = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let fresh = at == 0 || !code.as_bytes()[at - 1].is_ascii_alphanumeric() && code.as_bytes()[at - 1] != b'_';
        let rest = code[at + 3..].trim_start();
        let name = rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
        if !fresh || name.is_empty() {
            continue;
        }
        if let Some(length) = body_end(&code[at..]) {
            let lines = 1 + code.as_bytes()[at..at + length].iter().filter(|byte| **byte == b'\n').count();
            functions.push((name, line_at(code, at), lines));
        }
    }
    functions
}

/// Where the braces that open first close again; nothing if a `;` outside of brackets ends the signature before.
fn body_end(code: &str) -> Option<usize> {
    let (mut braces, mut brackets) = (0, 0);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b';' if braces == 0 && brackets == 0 => return None,
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b'{' => braces += 1,
            b'}' if braces == 1 => return Some(at + 1),
            b'}' => braces -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_signature_to_brace() {
        let rust = "\
trait A { fn absent(&self, x: [u8; 4]) -> u8; }
/// fn not_code() {
fn one() { call(\"}\") }
pub async fn three<T>(
    x: fn(u8) -> u8, y: [u8; 2]) {
    if x { '}' } else { y } }
impl A { fn two() -> u8 where u8: Copy {
} }
";
        let file = File::new("a.rs", rust.to_owned());
        assert_eq!(functions(&file), [("one", 3, 1), ("three", 4, 3), ("two", 7, 2)]);
    }

    #[test]
    fn long_is_told_and_too_long_is_found() {
        let body = |lines: usize| format!("fn f() {{\n{}}}\n", "x();\n".repeat(lines));
        let tree = Tree::of(&[("a.rs", &body(98)), ("b.rs", &body(99)), ("c.rs", &body(700)), ("d.rs", &body(800))]);
        assert_eq!(
            outliers(&tree),
            [
                "b.rs:1: `fn f` has 101 lines",
                "c.rs:1: 702 lines",
                "c.rs:1: `fn f` has 702 lines",
                "d.rs:1: 802 lines",
                "d.rs:1: `fn f` has 802 lines",
            ]
        );
        let found: Vec<_> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["d.rs"]);
    }
}
