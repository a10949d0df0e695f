//! The server's side of TLS: its certificate, read again when it changes, and whose certificates it asks for.

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;
use weft_core::text::Text;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// Of a subject that is longer than names ought to be, the beginning tells enough.
const SUBJECT_MAX: usize = 200;

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

/// Whose certificate it is, as `CN=web-3,O=shop`; none if it does not say in characters that can be printed.
pub fn subject(certificate: &CertificateDer<'_>) -> Option<Text> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let subject: String = certificate.tbs_certificate.subject.to_string().chars().take(SUBJECT_MAX).collect();
    let printable = !subject.is_empty() && !subject.chars().any(char::is_control);
    printable.then(|| subject.into())
}

/// The identity of the server. New connections get the newest; open ones keep theirs.
#[derive(Debug)]
pub struct Identity {
    current: RwLock<Current>,
}

#[derive(Debug)]
struct Current {
    files: Files,
    config: Arc<ServerConfig>,
    stamp: Option<SystemTime>,
}

impl Current {
    fn load(files: Files) -> Result<Self, Error> {
        // Taken first: files that change meanwhile are read again.
        let stamp = stamp(&files);
        Ok(Self { config: config(&files)?, stamp, files })
    }
}

impl Identity {
    pub fn load(files: Files) -> Result<Self, Error> {
        Ok(Self { current: RwLock::new(Current::load(files)?) })
    }

    pub fn config(&self) -> Arc<ServerConfig> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).config.clone()
    }

    /// Reads the files again if they changed. Files that cannot be used leave everything as it is.
    pub fn refresh(&self) -> Result<bool, Error> {
        let files = {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.stamp == stamp(&current.files) {
                return Ok(false);
            }
            current.files.clone()
        };
        self.replace(files).map(|()| true)
    }

    /// Takes these files from now on. Files that cannot be used leave everything as it is.
    pub fn replace(&self, files: Files) -> Result<(), Error> {
        let loaded = Current::load(files)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
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
