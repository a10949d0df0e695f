//! The server's side of TLS: its certificate, read again when it changes, and whose certificates it asks for.

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{}`: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("the certificate in `{}` and the key in `{}` do not fit: {why}", cert.display(), key.display())]
    Pair { cert: PathBuf, key: PathBuf, why: String },
}

/// Where certificate and key are.
#[derive(Clone, Debug)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Authorities whose certificates callers must have, if they must have any.
    pub client_ca: Option<PathBuf>,
}

/// The identity of the server. New connections get the newest; open ones keep theirs.
#[derive(Debug)]
pub struct Identity {
    files: Files,
    current: RwLock<(Arc<ServerConfig>, Option<SystemTime>)>,
}

impl Identity {
    pub fn load(files: Files) -> Result<Self, Error> {
        let loaded = (config(&files)?, stamp(&files));
        Ok(Self { files, current: RwLock::new(loaded) })
    }

    pub fn config(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Reads the files again if they changed. Files that cannot be used leave everything as it is.
    pub fn refresh(&self) -> Result<bool, Error> {
        let stamp = stamp(&self.files);
        if self.current.read().unwrap_or_else(PoisonError::into_inner).1 == stamp {
            return Ok(false);
        }
        let config = config(&self.files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = (config, stamp);
        Ok(true)
    }
}

/// The latest of the times at which the files were written.
fn stamp(files: &Files) -> Option<SystemTime> {
    let written = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    let authorities = files.client_ca.as_deref().and_then(written);
    written(&files.cert).max(written(&files.key)).max(authorities)
}

fn config(files: &Files) -> Result<Arc<ServerConfig>, Error> {
    let unreadable = |path: &Path, why: String| Error::File { path: path.to_path_buf(), why };
    let certs = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unreadable(&files.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("tls: the provider has the default versions");
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for cert in certificates(path)? {
                roots.add(cert).map_err(|error| unreadable(path, error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| unreadable(path, error.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(certs, key).map_err(|error| Error::Pair {
        cert: files.cert.clone(),
        key: files.key.clone(),
        why: error.to_string(),
    })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unreadable = |why: String| Error::File { path: path.to_path_buf(), why };
    let certs = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
    let certs: Vec<_> = certs.collect::<Result<_, _>>().map_err(|error| unreadable(error.to_string()))?;
    if certs.is_empty() { Err(unreadable("it holds no certificate".to_string())) } else { Ok(certs) }
}
