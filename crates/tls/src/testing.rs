//! Certificates for tests: an authority of its own, and certificates of a server and of a client that it has signed.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// All in the PEM format.
pub struct Certificates {
    pub authority: String,
    pub server: String,
    pub server_key: String,
    pub client: String,
    pub client_key: String,
}

/// A self-signed certificate for a server with these names or addresses, as `openssl req -x509` makes one, and its key.
/// It is valid from the beginning of the year `years.start` to that of `years.end`.
pub fn self_signed(names: &[&str], years: std::ops::Range<i32>) -> Result<(String, String), rcgen::Error> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
    let key = KeyPair::generate()?;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// A certificate for a server with these names or addresses, whose own common name is `server`, signed by an authority with
/// the common name `issuer`. It is valid from the beginning of the year `years.start` to that of `years.end`.
pub fn signed(names: &[&str], years: std::ops::Range<i32>, issuer: &str) -> Result<String, rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, issuer);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let mut params = CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())?;
    params.distinguished_name.push(DnType::CommonName, "server");
    params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
    Ok(params.signed_by(&KeyPair::generate()?, &authority)?.pem())
}

/// For a server with these names or addresses.
pub fn certificates(names: &[&str]) -> Result<Certificates, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let server = CertificateParams::new(names)?.signed_by(&key, &authority)?;
    let client_key = KeyPair::generate()?;
    let client = CertificateParams::new(vec!["client".to_owned()])?.signed_by(&client_key, &authority)?;
    Ok(Certificates {
        authority: authority.pem(),
        server: server.pem(),
        server_key: key.serialize_pem(),
        client: client.pem(),
        client_key: client_key.serialize_pem(),
    })
}
