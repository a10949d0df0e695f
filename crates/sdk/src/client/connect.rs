//! Setting up a client of a server.

use super::Client;
use crate::Error;
use crate::layer::Retry;
use crate::transport::{Http, Origin};
use std::path::PathBuf;
use std::time::Duration;
use weft_api::{Args, op};

/// A client to be. Nothing is sent before `build`, and then only with `check`.
#[must_use = "nothing happens before `build`"]
#[derive(Clone)]
pub struct Connect {
    url: String,
    key: Option<String>,
    namespace: Option<String>,
    ca_file: Option<PathBuf>,
    retry: Retry,
    check: bool,
}

impl Connect {
    pub(super) fn new(url: String) -> Self {
        Self { url, key: None, namespace: None, ca_file: None, retry: Retry::default(), check: false }
    }

    /// The API key. A server for development asks for none.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The namespace of the calls; the key's unless given.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The time of a whole call with its repeats, beside what it asks the server to wait; 30 seconds unless given.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.retry = self.retry.timeout(timeout);
        self
    }

    /// How calls are repeated.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// A file in the PEM format with the authorities to trust instead of the system's.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Asks the server for its version, so that a wrong address or key is found here.
    pub fn check(mut self) -> Self {
        self.check = true;
        self
    }

    pub async fn build(self) -> Result<Client, Error> {
        let mut http = Http::new(&self.url, self.key.as_deref(), self.ca_file)?;
        if let Some(namespace) = &self.namespace {
            http = http.in_namespace(namespace);
        }
        let client = Client::of(Origin::Http(http), self.retry);
        if self.check {
            client.call::<op::GetVersion>(Args::default()).await?;
        }
        Ok(client)
    }
}
