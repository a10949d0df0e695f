//! Whom Weft trusts when it talks to a server: the authorities of a file, or those of the system; and what it shows to one
//! that asks who is there. Certificates are always checked, and so are their names; only a pinned certificate that has none
//! is taken under every address. Knows no store.

mod advice;
mod pinned;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use advice::{NO_TLS, advice, is_distrust, is_no_tls};

use pinned::OrPinned;
use rustls::client::{WantsClientCert, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Why there is nobody to trust.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read certificates from `{}`: {why}", path.display())]
    File { path: PathBuf, why: String },
    #[error("cannot check certificates: this system has none of any authority ({why}); name a file of them")]
    System { why: String },
    #[error("cannot show the certificate of `{}` with the key of `{}`: {why}", cert.display(), key.display())]
    Identity { cert: PathBuf, key: PathBuf, why: String },
}

/// The authorities whose certificates count. They are read at the first connection.
#[derive(Clone)]
pub struct Trust {
    /// A file in the PEM format; without one the authorities of the system are trusted.
    file: Option<PathBuf>,
    identity: Option<Identity>,
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

/// Files in the PEM format: a certificate with those between it and its authority, and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    cert: PathBuf,
    key: PathBuf,
}

impl Trust {
    pub fn system() -> Self {
        Self { file: None, identity: None, config: Arc::default() }
    }

    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { file: Some(path.into()), identity: None, config: Arc::default() }
    }

    /// The same, with a certificate and its key for a server that asks for one.
    pub fn showing(self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let identity = Identity { cert: cert.into(), key: key.into() };
        Self { file: self.file, identity: Some(identity), config: Arc::default() }
    }

    pub fn path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let trusting = match &self.file {
            Some(path) => trusting_file(path)?,
            None => trusting_roots(of_system()?),
        };
        let config = match &self.identity {
            None => trusting.with_no_client_auth(),
            Some(identity) => identity.shown_by(trusting)?,
        };
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(path) => write!(f, "Trust({})", path.display()),
            None => f.write_str("Trust(system)"),
        }
    }
}

impl PartialEq for Trust {
    fn eq(&self, other: &Self) -> bool {
        (&self.file, &self.identity) == (&other.file, &other.identity)
    }
}

impl Eq for Trust {}

/// For a client that wants a configuration although nothing will be encrypted.
pub fn trusting_nobody() -> ClientConfig {
    trusting_roots(RootCertStore::empty()).with_no_client_auth()
}

type Trusting = ConfigBuilder<ClientConfig, WantsClientCert>;

fn trusting_roots(roots: RootCertStore) -> Trusting {
    builder().with_root_certificates(roots)
}

/// The authorities of a file, and servers that show one of its certificates as their own.
fn trusting_file(path: &Path) -> Result<Trusting, Error> {
    let (roots, pinned) = of_file(path)?;
    let builder = builder();
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), builder.crypto_provider().clone());
    let chains = chains.build().expect("tls: a file without certificates was refused");
    Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(OrPinned { chains, pinned })))
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    builder.expect("tls: the provider has the default versions")
}

impl Identity {
    fn shown_by(&self, trusting: Trusting) -> Result<ClientConfig, Error> {
        let wrong = |why: String| Error::Identity { cert: self.cert.clone(), key: self.key.clone(), why };
        let certs = CertificateDer::pem_file_iter(&self.cert).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let certs = certs.map_err(|error| wrong(format!("the certificate: {error}")))?;
        if certs.is_empty() {
            return Err(wrong("there is no certificate in the PEM format".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| wrong(format!("the key: {error}")))?;
        trusting.with_client_auth_cert(certs, key).map_err(|error| wrong(error.to_string()))
    }
}

fn of_file(path: &Path) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), Error> {
    let wrong = |why: String| Error::File { path: path.to_owned(), why };
    let (mut roots, mut pinned) = (RootCertStore::empty(), Vec::new());
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
        pinned.push(certificate);
    }
    match roots.is_empty() {
        true => Err(wrong("there is none in it; they are in the PEM format, between `BEGIN CERTIFICATE` lines".into())),
        false => Ok((roots, pinned)),
    }
}

/// Systems hold certificates that nobody can read any more; the others count.
fn of_system() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let why = found.errors.first().map_or_else(|| "nothing was found".to_owned(), ToString::to_string);
    Err(Error::System { why })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks a server that shows the certificate of a file, by that file, in the year 2027.
    fn check(pem: String, name: &'static str) -> Result<(), String> {
        use rustls::client::danger::ServerCertVerifier;
        use rustls::pki_types::{ServerName, UnixTime};
        let shown = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, pem).unwrap();
        let (roots, pinned) = of_file(&path).unwrap();
        let provider = builder().crypto_provider().clone();
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let name = ServerName::try_from(name).unwrap();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_000));
        let verifier = OrPinned { chains, pinned };
        let checked = verifier.verify_server_cert(&shown, &[], &name, &[], now);
        checked.map(drop).map_err(|error| advice(&error, "ca_file").unwrap_or_default())
    }

    #[test]
    fn a_certificate_that_is_pinned_is_still_checked_for_its_times_and_its_name() {
        const NAMES: [&str; 2] = ["weft.example", "127.0.0.1"];
        let itself = |years: std::ops::Range<i32>| testing::self_signed(&NAMES, years).unwrap().0;
        // Signed by an authority that is not in the file, which has a name of its own or that of the certificate.
        let private = |years: std::ops::Range<i32>| testing::signed(&NAMES, years, "private").unwrap();
        let namesake = |years: std::ops::Range<i32>| testing::signed(&NAMES, years, "server").unwrap();
        for made in [itself, private, namesake] as [fn(_) -> _; 3] {
            assert_eq!(check(made(2020..2100), "weft.example"), Ok(()));
            assert!(check(made(2020..2021), "weft.example").unwrap_err().contains("has expired"));
            assert!(check(made(2090..2100), "weft.example").unwrap_err().contains("not valid yet"));
            let told = check(made(2020..2100), "other.example").unwrap_err();
            assert!(
                told.ends_with("for another name; write the address with one of `weft.example`, `127.0.0.1`"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_pinned_certificate_without_any_name_is_accepted_under_every_address() {
        let itself = |years: std::ops::Range<i32>| testing::self_signed(&[], years).unwrap().0;
        let private = |years: std::ops::Range<i32>| testing::signed(&[], years, "private").unwrap();
        for made in [itself, private] as [fn(_) -> _; 2] {
            for name in ["weft.example", "127.0.0.1"] {
                assert_eq!(check(made(2020..2100), name), Ok(()));
                assert!(check(made(2020..2021), name).unwrap_err().contains("has expired"));
            }
        }
        // The certificate of no authority, which is an authority for itself: its chain is good.
        let leaf = rcgen::CertificateParams::new(Vec::new()).unwrap();
        let leaf = leaf.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        assert_eq!(check(leaf.pem(), "weft.example"), Ok(()));
    }

    #[test]
    fn a_file_without_certificates_is_refused_by_name() {
        for path in ["no/such/file.pem", "Cargo.toml"] {
            let told = Trust::file(path).config().map(drop).unwrap_err().to_string();
            assert!(told.contains(&format!("`{path}`")), "{told}");
            let told = Trust::system().showing(path, "key.pem").config().map(drop).unwrap_err().to_string();
            assert!(told.contains(&format!("`{path}`")) && told.contains("`key.pem`"), "{told}");
        }
    }
}
