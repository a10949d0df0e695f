//! What to do about a handshake that failed.

use crate::pinned::is_authority;
use rustls::{CertificateError, Error as TlsError};
use std::error::Error;
use std::io;

/// What a server without TLS answers to a handshake.
pub const NO_TLS: &str = "the server speaks no TLS on this port";

/// A sentence for the person who starts the program, if the error or one of its causes is about TLS and there is something
/// to say. `parameter` is what names a file of authorities in the address.
pub fn advice(error: &(dyn Error + 'static), parameter: &str) -> Option<String> {
    sentence(cause(error)?, parameter)
}

/// Whether the error or one of its causes is that the certificate of the server is not trusted.
pub fn is_distrust(error: &(dyn Error + 'static)) -> bool {
    matches!(cause(error), Some(TlsError::InvalidCertificate(_)))
}

/// Whether the error or one of its causes is that the server answered a handshake with something that is no TLS.
pub fn is_no_tls(error: &(dyn Error + 'static)) -> bool {
    matches!(cause(error), Some(TlsError::InvalidMessage(_)))
}

fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
    std::iter::successors(Some(error), |&error| error.source()).find_map(tls_error)
}

/// An I/O error does not count what it wraps among its causes.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
    let wrapped = || error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref::<TlsError>();
    error.downcast_ref::<TlsError>().or_else(wrapped)
}

fn sentence(error: &TlsError, parameter: &str) -> Option<String> {
    use CertificateError as Wrong;
    let certificate = match error {
        TlsError::InvalidCertificate(wrong) => wrong,
        TlsError::InvalidMessage(_) => return Some(NO_TLS.to_owned()),
        _ => return None,
    };
    Some(match certificate {
        // An authority that was made anew under its old name gives a bad signature.
        Wrong::UnknownIssuer | Wrong::BadSignature => {
            format!("its certificate is of no authority that is trusted here; `{parameter}=FILE` names one")
        }
        Wrong::NotValidForNameContext { presented, .. } => {
            let names: Vec<String> = presented.iter().filter_map(|name| plain(name)).collect();
            match names.is_empty() {
                true => "its certificate is for no name; make one with a `subjectAltName`, the name or address of the server"
                    .to_owned(),
                false => {
                    format!("its certificate is for another name; write the address with one of {}", names.join(", "))
                }
            }
        }
        Wrong::NotValidForName => {
            "its certificate is for another name; write the address with the name that it is for".to_owned()
        }
        Wrong::Expired | Wrong::ExpiredContext { .. } => "its certificate has expired".to_owned(),
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => {
            "its certificate is not valid yet; look at the clocks of both machines".to_owned()
        }
        wrong if is_authority(wrong) => format!(
            "its certificate is signed by itself and not trusted here; `{parameter}=FILE` with exactly this certificate trusts it"
        ),
        _ => return None,
    })
}

/// The name in `DnsName("weft.example")` or `IpAddress(127.0.0.1)`, as the verifier writes them, in backticks. None for
/// other kinds of names, which no address of a server can have.
fn plain(presented: &str) -> Option<String> {
    let (kind, rest) = presented.split_once('(')?;
    let name = rest.strip_suffix(')')?.trim_matches('"');
    matches!(kind, "DnsName" | "IpAddress").then(|| format!("`{name}`"))
}
