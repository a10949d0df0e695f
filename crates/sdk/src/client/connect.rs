//! Setting up a client of a server.

use super::Client;
use crate::Error;
use crate::layer::Retry;
use crate::transport::{Http, Origin};
use std::path::PathBuf;
use std::time::Duration;
use weft_api::{Args, op};
use weft_tls::Trust;

/// A client to be. Nothing is sent before `build`, and then only with `check`.
#[must_use = "nothing happens before `build`"]
#[derive(Clone)]
pub struct Connect {
    url: String,
    key: Option<String>,
    namespace: Option<String>,
    ca_file: Option<PathBuf>,
    client_cert: Option<(PathBuf, PathBuf)>,
    retry: Retry,
    check: bool,
}

impl Connect {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            key: None,
            namespace: None,
            ca_file: None,
            client_cert: None,
            retry: Retry::default(),
            check: false,
        }
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

    /// Files in the PEM format with a certificate and its key, for a server that asks clients for one.
    pub fn client_cert(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client_cert = Some((cert.into(), key.into()));
        self
    }

    /// Asks the server for its version, so that a wrong address or key is found here.
    pub fn check(mut self) -> Self {
        self.check = true;
        self
    }

    pub async fn build(self) -> Result<Client, Error> {
        let mut trust = self.ca_file.map_or_else(Trust::system, Trust::file);
        if let Some((cert, key)) = self.client_cert {
            trust = trust.showing(cert, key);
        }
        let mut http = Http::new(&self.url, self.key.as_deref(), trust)?;
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
