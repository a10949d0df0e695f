//! The address of a store, as people write it.

use crate::fault::Fault;
use anyhow::Result;
use std::fmt;
use std::path::PathBuf;
use weft_store_postgres as postgres;
use weft_store_sqlite as sqlite;
use weft_store_valkey as valkey;

/// What stands before the colon, and what an address of that kind looks like.
const SCHEMES: [(&str, &str); 9] = [
    ("sqlite", "sqlite://PATH"),
    ("postgres", "postgres://HOST/DATABASE"),
    ("postgresql", "postgres://HOST/DATABASE"),
    ("valkey", "valkey://HOST"),
    ("redis", "valkey://HOST"),
    ("valkey-cluster", "valkey-cluster://HOST,HOST"),
    ("valkeys", "valkeys://HOST"),
    ("rediss", "valkeys://HOST"),
    ("valkeys-cluster", "valkeys-cluster://HOST,HOST"),
];

/// Letters that may differ for a scheme to be meant.
const DISTANCE_MAX: usize = 3;

/// A store by its address. Nothing is opened yet.
pub enum Address {
    Sqlite {
        path: PathBuf,
        /// 0 takes what the file has.
        partitions: u16,
    },
    Postgres {
        options: Box<postgres::Options>,
        /// Where the server is, without secrets.
        server: String,
    },
    Valkey(Box<valkey::Options>),
}

impl Address {
    /// Reads an address. A wrong one is answered with what it could be; secrets in it are not repeated.
    pub fn parse(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
        let usage = |error: &dyn fmt::Display| Fault::usage(error.to_string());
        match scheme {
            "sqlite" => {
                // Both forms name the same path: `sqlite:/a` and `sqlite:///a`.
                let path = rest.strip_prefix("//").unwrap_or(rest);
                let options = sqlite::Options::from_url(&format!("sqlite://{path}")).map_err(|error| usage(&error))?;
                Ok(Address::Sqlite { path: options.path, partitions: options.partitions })
            }
            "postgres" | "postgresql" => {
                let options = postgres::Options::from_url(url).map_err(|error| usage(&error))?;
                Ok(Address::Postgres { options: Box::new(options), server: server(rest) })
            }
            "valkey" | "valkeys" | "valkey-cluster" | "valkeys-cluster" | "redis" | "rediss" => {
                let options = valkey::Options::from_url(url).map_err(|error| usage(&error))?;
                Ok(Address::Valkey(Box::new(options)))
            }
            "memory" => Err(Fault::new(
                crate::fault::Code::Usage,
                "a store in memory is gone with its process, so only `weft dev` has one",
            )
            .hint("`weft dev --memory`")
            .into()),
            "" => {
                let text =
                    format!("cannot read `{url}` as a store: a file is named `sqlite://{url}`; there are {}", forms());
                Err(Fault::usage(text))
            }
            other => {
                let meant = nearest(other).map_or_else(String::new, |nearest| format!("did you mean `{nearest}`? "));
                let text = format!("cannot open a store of the kind `{other}`: {meant}there are {}", forms());
                Err(Fault::usage(text))
            }
        }
    }

    pub(super) fn sqlite_options(&self) -> Result<sqlite::Options> {
        match self {
            Address::Sqlite { path, partitions } => Ok(sqlite::Options::new(path).partitions(*partitions)),
            _ => anyhow::bail!("this is not the address of a file"),
        }
    }
}

impl fmt::Display for Address {
    /// For people; without secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Sqlite { path, .. } => write!(f, "sqlite `{}`", path.display()),
            Address::Postgres { options, server } => write!(f, "postgres on `{server}`, schema `{}`", options.schema),
            Address::Valkey(options) => {
                let hosts: Vec<String> = options.addresses.iter().map(ToString::to_string).collect();
                write!(f, "valkey on {}, prefix `{}`", hosts.join(", "), options.prefix)
            }
        }
    }
}

/// Host, port and database of what follows the scheme: what stands before the `@` is nobody's business.
fn server(rest: &str) -> String {
    let rest = rest.trim_start_matches('/').split('?').next().unwrap_or_default();
    rest.rsplit_once('@').map_or(rest, |(_, server)| server).to_owned()
}

fn forms() -> String {
    let mut forms: Vec<String> = SCHEMES.iter().map(|(_, form)| format!("`{form}`")).collect();
    forms.dedup();
    forms.join(", ")
}

fn nearest(scheme: &str) -> Option<&'static str> {
    let (distance, name) = SCHEMES.iter().map(|(name, _)| (edits(scheme, name), *name)).min()?;
    (distance <= DISTANCE_MAX.min(name.len() / 2)).then_some(name)
}

/// How many letters have to be added, removed or changed.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> (u8, String) {
        let error = Address::parse(url).err().expect(url);
        (Fault::exit_code(&error), error.to_string())
    }

    #[test]
    fn both_forms_of_a_path_are_read() {
        for (url, wanted) in [
            ("sqlite:weft-data/weft.db", "weft-data/weft.db"),
            ("sqlite://weft-data/weft.db", "weft-data/weft.db"),
            ("sqlite:/a/b.db", "/a/b.db"),
            ("sqlite:///a/b.db?partitions=4", "/a/b.db"),
        ] {
            let Address::Sqlite { path, .. } = Address::parse(url).unwrap() else { panic!("{url}") };
            assert_eq!(path, PathBuf::from(wanted), "{url}");
        }
    }

    #[test]
    fn cli_1_cli_3_a_wrong_address_is_a_misuse_and_is_answered_with_the_nearest() {
        let (code, told) = refusal("postgre://localhost/x");
        assert_eq!(code, 2);
        assert!(told.contains("did you mean `postgres`?") && told.contains("`valkey-cluster://HOST,HOST`"), "{told}");
        assert!(refusal("mongodb://localhost").1.starts_with("cannot open a store of the kind `mongodb`: there are"));
        assert!(refusal("weft.db").1.contains("`sqlite://weft.db`"));
        assert!(refusal("sqlite:").1.contains("sqlite://PATH"));
        assert_eq!(refusal("valkey://localhost?prefex=x").0, 2);
        assert_eq!(refusal("postgres://localhost/x?schmea=y").0, 2);
    }

    #[test]
    fn sec_7_a_password_is_not_repeated() {
        for url in ["postgres://ann:hidden@localhost/x", "valkey://ann:hidden@localhost", "sqlite://x"] {
            assert!(!Address::parse(url).unwrap().to_string().contains("hidden"));
        }
        for url in ["postgres://ann:hidden@localhost/x?y=1", "valkey://ann:hidden@localhost?y=1"] {
            assert!(!refusal(url).1.contains("hidden"), "{}", refusal(url).1);
        }
    }
}
