//! Server certificates that are themselves in the file of authorities: self-signed, as `openssl req -x509` makes them,
//! or signed by an authority that is not in the file. No chain leads from either to the file.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::Arc;

/// Accepts chains to an authority, and exactly the certificates of `pinned`. Times are checked either way, and so are names,
/// except that a pinned certificate that presents none at all is accepted under every address.
#[derive(Debug)]
pub struct OrPinned {
    pub chains: Arc<WebPkiServerVerifier>,
    pub pinned: Vec<CertificateDer<'static>>,
}

/// Whether a certificate was refused because it is the one of an authority.
pub fn is_authority(error: &CertificateError) -> bool {
    let CertificateError::Other(other) = error else { return false };
    matches!(other.0.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// Whether a certificate was refused because of who signed it, which says nothing about a pinned one. An issuer that has
/// the name of another authority gives a bad signature.
fn is_about_issuer(error: &CertificateError) -> bool {
    is_authority(error) || matches!(error, CertificateError::UnknownIssuer | CertificateError::BadSignature)
}

/// Whether a certificate was refused because it presents no name at all, as `openssl req -x509 -subj /CN=host` makes it.
fn is_nameless(error: &CertificateError) -> bool {
    matches!(error, CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty())
}

impl ServerCertVerifier for OrPinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain = self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if !self.pinned.iter().any(|pinned| pinned == end_entity) {
            return chain;
        }
        let named = match chain {
            // The times of the server's own certificate are checked before its constraints and its issuer, so that only
            // the name is left.
            Err(Error::InvalidCertificate(refused)) if is_about_issuer(&refused) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)
            }
            chain => chain.map(drop),
        };
        match named {
            // The name is checked last.
            Err(Error::InvalidCertificate(refused)) if is_nameless(&refused) => Ok(ServerCertVerified::assertion()),
            named => named.map(|()| ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
