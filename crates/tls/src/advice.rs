//! What to do about a handshake that failed.

use rustls::{CertificateError, Error as TlsError};
use std::error::Error;
use std::io;

/// A sentence for the person who starts the program, if the error or one of its causes is about TLS and there is something
/// to say. `parameter` is what names a file of authorities in the address.
pub fn advice(error: &(dyn Error + 'static), parameter: &str) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = tls_error(error) {
            return sentence(error, parameter);
        }
        cause = error.source();
    }
    None
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
        TlsError::InvalidMessage(_) => return Some("the server speaks no TLS on this port".to_owned()),
        _ => return None,
    };
    Some(match certificate {
        // An authority that was made anew under its old name gives a bad signature.
        Wrong::UnknownIssuer | Wrong::BadSignature => {
            format!("its certificate is of no authority that is trusted here; `{parameter}=FILE` names one")
        }
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
            "its certificate is for another name; write the address with the name that it is for".to_owned()
        }
        Wrong::Expired | Wrong::ExpiredContext { .. } => "its certificate has expired".to_owned(),
        _ => return None,
    })
}
