//! The page of the documentation, `docs/configuration.md`.

use crate::keys;
use crate::row::{Fallback, Row};
use crate::variables::OTHERS;
use std::fmt::Write;

const BEGINNING: &str = "\
# Configuration

<!-- Written by the tests of crates/config from its table of keys: `WEFT_BLESS=1 cargo test -p weft-config`. -->

A setting comes from the built-in default, from `weft.toml`, from the environment or from a flag; the later one counts.
`weft config show` prints every value with its origin, `weft config example` a `weft.toml` to begin with, and `weft config
check` what is wrong with yours.

- **Mistakes stop the start**, all of them told at once: an unknown key or flag, a wrong unit, a value out of range.
- **Unknown variables** with the prefix `WEFT_` are warned of with the nearest name by every command, unless it is quiet (`-q`);
  `weft config check` refuses them.
- **Kubernetes and Docker links** add variables for a service or container called `weft`, such as `WEFT_SERVICE_HOST`,
  `WEFT_PORT=tcp://…` and `WEFT_PORT_7700_TCP_ADDR`. They are known by name and value and passed over; the log names them at
  the level `debug`.
- **Durations** are `250ms`, `30s`, `15m`, `24h`, `7d`; **sizes** `512B`, `64KiB`, `1MiB`: one number and one unit. In
  `weft.toml` they stand in quotes.
- **Lists** are `[\"a\", \"b\"]` in `weft.toml` and `a,b` elsewhere. A flag that is true or false may be given without a value.
- **Secrets** come from a file or the environment, never from a flag, and are shown as `***`.
- **↻** marks what SIGHUP reloads. A change of anything else takes a restart, and the log says so.
";

/// The whole page.
pub fn page() -> String {
    let mut text = BEGINNING.to_owned();
    for area in keys::AREAS {
        let _ = write!(text, "\n## {}\n\n", area.title);
        text.push_str("| Key | Variable | Flag | Default | Allowed | Meaning |\n|---|---|---|---|---|---|\n");
        for row in area.rows {
            text.push_str(&line(row));
        }
    }
    text.push_str(
        "\n## Other variables\n\nThese have the prefix and are no configuration.\n\n| Variable | Is |\n|---|---|\n",
    );
    for other in OTHERS {
        let _ = writeln!(text, "| `{}` | {} |", other.name, other.what);
    }
    text
}

fn line(row: &Row) -> String {
    let key = match (row.in_file, row.reload) {
        (false, _) => "–".to_owned(),
        (true, false) => format!("`{}`", row.key),
        (true, true) => format!("`{}` ↻", row.key),
    };
    let also = row.also.map_or_else(String::new, |also| format!(", `{also}`"));
    let flag = row.flag().map_or_else(|| "–".to_owned(), |flag| format!("`{flag}`"));
    let default = match row.default {
        Fallback::Value("") => "empty".to_owned(),
        Fallback::Value(text) => format!("`{text}`"),
        Fallback::Derived(how) => how.to_owned(),
    };
    let allowed = row.kind.allowed();
    format!("| {key} | `{}`{also} | {flag} | {default} | {allowed} | {} |\n", row.variable(), row.help)
}
