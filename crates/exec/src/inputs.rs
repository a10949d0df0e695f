//! What upstreams handed over, as files of a folder: one for each result, and `inputs.json`, which lists them all with how
//! the upstreams ended.

use bytes::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LIST: &str = "inputs.json";

/// Several may have a name that ends so, and are the files of a folder then.
const MANY: &str = "[]";

/// The end of one upstream.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Input {
    pub name: String,
    /// Its key in the flow.
    pub upstream: String,
    pub execution: String,
    pub outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Its record is gone, and its result with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub purged: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<InputFailure>,
}

#[derive(Clone, Debug, Serialize)]
pub struct InputFailure {
    pub category: String,
    pub message: String,
}

/// The folder while it is filled. It is private, and gone when this is dropped, unless it has become part of the folder
/// of a task.
#[derive(Debug)]
pub struct Inputs {
    folder: TempDir,
    listed: Vec<Listed>,
    /// Names of edges whose upstreams had not ended.
    missing: Vec<String>,
    /// How many there are under each name.
    counts: BTreeMap<String, usize>,
}

#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    input: Input,
    /// Within the folder; none without a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

#[derive(Serialize)]
struct List<'a> {
    inputs: &'a [Listed],
    missing: &'a [String],
}

impl Inputs {
    pub fn new(missing: Vec<String>) -> io::Result<Inputs> {
        let mode = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("weft-inputs-").permissions(mode).tempdir()?;
        Ok(Inputs { folder, listed: Vec::new(), missing, counts: BTreeMap::new() })
    }

    /// Adds one, and writes its result to a file. Those under one name are added in the order of their edges.
    pub async fn add(mut self, input: Input, value: Option<Bytes>) -> io::Result<Inputs> {
        let write = move || {
            let count = self.counts.entry(input.name.clone()).or_default();
            let number = std::mem::replace(count, *count + 1);
            let file = value.map(|bytes| write(self.folder.path(), &input.name, number, &bytes)).transpose()?;
            self.listed.push(Listed { input, file });
            Ok(self)
        };
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)?
    }

    /// The files of inputs whose names can be part of the name of a variable, by that part. Two names that become the same
    /// part have none: neither would be certain.
    pub(crate) fn by_variable(&self) -> impl Iterator<Item = (String, &Path)> {
        let mut files: BTreeMap<String, Vec<&Path>> = BTreeMap::new();
        for listed in &self.listed {
            if let (Some(file), Some(part)) = (&listed.file, variable_part(&listed.input.name)) {
                files.entry(part).or_default().push(file);
            }
        }
        files.into_iter().filter(|(_, files)| files.len() == 1).map(|(part, files)| (part, files[0]))
    }

    /// Makes it the folder of this path, which is on the same disk. Blocks.
    pub(crate) fn move_to(&self, path: &Path) -> io::Result<()> {
        let list = serde_json::to_vec_pretty(&List { inputs: &self.listed, missing: &self.missing })?;
        create(&self.folder.path().join(LIST), &list)?;
        // Dropping this finds nothing to remove at the old path any more.
        std::fs::rename(self.folder.path(), path)
    }
}

fn write(folder: &Path, name: &str, number: usize, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut file = PathBuf::from(file_name(name));
    if name.ends_with(MANY) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder.join(&file))?;
        file.push(number.to_string());
    }
    create(&folder.join(&file), bytes)?;
    Ok(file)
}

fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

fn variable_part(name: &str) -> Option<String> {
    let fits = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    fits.then(|| name.to_ascii_uppercase().replace('-', "_"))
}

/// The name of an input as that of a file. What could lead elsewhere, or is awkward in a path, is written like `%2F`; no
/// two names become one.
fn file_name(name: &str) -> String {
    let taken = name.eq_ignore_ascii_case(LIST);
    let plain = |at: usize, byte: u8| match byte {
        b'.' => at > 0 && !taken,
        b'_' | b'-' | b'[' | b']' => true,
        _ => byte.is_ascii_alphanumeric(),
    };
    let escaped = |(at, byte): (usize, u8)| match plain(at, byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.bytes().enumerate().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cli_10_inputs_have_variables_of_their_own_unless_two_would_share_one() {
        let mut inputs = Inputs::new(Vec::new()).unwrap();
        for name in ["rows", "first-page", "pages[]", "Total", "total", "a b"] {
            let input = Input { name: name.to_owned(), ..Input::default() };
            inputs = inputs.add(input, Some(Bytes::from_static(b"1"))).await.unwrap();
        }
        inputs = inputs.add(Input { name: "none".to_owned(), ..Input::default() }, None).await.unwrap();
        let variables: Vec<(String, &Path)> = inputs.by_variable().collect();
        assert_eq!(
            variables,
            [("FIRST_PAGE".to_owned(), Path::new("first-page")), ("ROWS".to_owned(), Path::new("rows"))]
        );
    }

    #[test]
    fn no_name_of_an_input_leads_out_of_the_folder() {
        for (name, file) in [
            ("rows", "rows"),
            ("Rows_2-b.csv", "Rows_2-b.csv"),
            ("pages[]", "pages[]"),
            ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd"),
            ("..", "%2E."),
            ("a b%2F", "a%20b%252F"),
            ("inputs.json", "inputs%2Ejson"),
        ] {
            assert_eq!(file_name(name), file);
        }
    }
}
