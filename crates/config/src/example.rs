//! The example of a `weft.toml`: every key with its default, each taken out by a `#` right before it.

use crate::keys;
use crate::row::{Fallback, Row};
use std::fmt::Write;

/// A file that changes nothing until a `#` is removed.
pub fn example() -> String {
    let mut text = String::from(
        "# Configuration of Weft. What stands here is overruled by environment variables, and those by flags.\n\
         # Lines with a key show its default, or an example if there is none: remove the `#` before one to set it.\n",
    );
    let mut table = "";
    for area in keys::AREAS {
        let _ = write!(text, "\n# {}\n", area.title);
        for row in area.rows.iter().filter(|row| row.in_file) {
            let (above, name) = row.key.split_once('.').unwrap_or(("", row.key));
            if above != table {
                table = above;
                let _ = write!(text, "\n[{table}]\n");
            }
            let _ = write!(text, "\n{}", lines(row, name));
        }
    }
    text
}

fn lines(row: &Row, name: &str) -> String {
    let names: Vec<String> = [Some(row.variable()), row.flag()].into_iter().flatten().collect();
    let reload = if row.reload { "; SIGHUP reloads it" } else { "" };
    let (value, default) = match row.default {
        Fallback::Value(value) => (value, String::new()),
        Fallback::Derived(how) => (row.sample, format!("; without it: {how}")),
    };
    let allowed = row.kind.allowed();
    let value = row.kind.literal(value);
    format!("# {}\n# {allowed}{default}{reload}; {}\n#{name} = {value}\n", row.help, names.join(", "))
}
