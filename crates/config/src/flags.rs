//! The flags of the command line, as data: whoever parses them makes arguments of these.

use crate::keys;
use crate::kind::Kind;
use crate::row::{Fallback, Row};

/// A flag that sets a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    pub key: &'static str,
    /// Without its dashes.
    pub long: String,
    /// What stands for the value in help.
    pub value_name: &'static str,
    /// One line with what is allowed and the default.
    pub help: String,
    /// If given, the value may be left out, and is then this.
    pub value_missing: Option<&'static str>,
    /// Whose heading it stands under.
    pub area: &'static str,
}

/// Every flag in the order of the table. Values are texts: `Settings::load` reads them, so that a mistake reads the same
/// wherever it stands.
pub fn arguments() -> Vec<Flag> {
    let rows = keys::AREAS.iter().flat_map(|area| area.rows.iter().map(|row| (area.title, row)));
    rows.filter_map(|(area, row)| flag(area, row)).collect()
}

fn flag(area: &'static str, row: &'static Row) -> Option<Flag> {
    let long = row.flag()?.trim_start_matches('-').to_owned();
    let default = match row.default {
        Fallback::Value("") => "empty",
        Fallback::Value(text) | Fallback::Derived(text) => text,
    };
    let help = format!("{} [{}; default: {default}]", row.help, row.kind.allowed());
    let value_missing = (row.kind == Kind::Switch).then_some("true");
    Some(Flag { key: row.key, long, value_name: row.kind.placeholder(), help, value_missing, area })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_but_a_secret_has_a_flag_with_its_range_and_default() {
        let flags = arguments();
        assert_eq!(flags.len(), keys::rows().filter(|row| !row.is_secret()).count());
        let drain = flags.iter().find(|flag| flag.long == "drain").unwrap();
        assert_eq!((drain.key, drain.value_name, drain.area), ("server.drain", "DURATION", "Server"));
        assert_eq!(drain.help, "How long a stop waits for calls that came in before [0s to 10m; default: 15s]");
        assert_eq!(drain.value_missing, None);
        let proxy = flags.iter().find(|flag| flag.long == "behind-proxy").unwrap();
        assert_eq!(proxy.value_missing, Some("true"));
    }
}
