//! The server that a worker claims from.

use crate::fault::{Code, Fault};
use anyhow::Result;
use std::path::{Path, PathBuf};
use weft_sdk::Client;

#[derive(clap::Args)]
pub struct Server {
    /// Server to claim from
    #[arg(
        long,
        value_name = "URL",
        env = "WEFT_URL",
        default_value = "http://127.0.0.1:7700",
        help_heading = "Server"
    )]
    url: String,

    /// File that holds the key [env: WEFT_KEY_FILE; WEFT_KEY holds the key itself]
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    key_file: Option<PathBuf>,

    /// Namespace to work in
    #[arg(long, value_name = "NAME", env = "WEFT_NAMESPACE", help_heading = "Server")]
    namespace: Option<String>,
}

impl Server {
    /// A client, and where it goes. Nothing is sent yet.
    pub async fn connect(&self) -> Result<(Client, String)> {
        let mut connect = Client::connect(&self.url);
        if let Some(key) = find_key(self.key_file.as_deref())? {
            connect = connect.key(key);
        }
        if let Some(namespace) = &self.namespace {
            connect = connect.namespace(namespace);
        }
        let client = connect.build().await.map_err(|error| Fault::error(Code::Usage, error.to_string()))?;
        Ok((client, self.url.clone()))
    }
}

/// The key of a file that is named, else of the variables; space around it does not belong to it.
pub fn find_key(file: Option<&Path>) -> Result<Option<String>> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let file = match file {
        Some(file) => Some(file.to_path_buf()),
        None => match set("WEFT_KEY") {
            Some(key) => return Ok(Some(key.trim().to_owned())),
            None => set("WEFT_KEY_FILE").map(PathBuf::from),
        },
    };
    let Some(file) = file else { return Ok(None) };
    let text = std::fs::read_to_string(&file)
        .map_err(|error| Fault::usage(format!("cannot read the key in `{}`: {error}", file.display())))?;
    Ok(Some(text.trim().to_owned()))
}
