//! Settings that need one another, or exclude one another. Asked once every value for itself is fine.

use crate::keys;
use crate::mistake::Mistake;
use crate::settings::Settings;
use std::net::SocketAddr;

pub(crate) fn check(settings: &Settings) -> Vec<Mistake> {
    let told = [master_key(settings), tls(settings), client_ca(settings), proxies(settings)];
    let reached = [listen(settings), metrics(settings)];
    told.into_iter().chain(reached).flatten().map(Mistake::Relation).collect()
}

fn master_key(settings: &Settings) -> Option<String> {
    let both = settings.get(keys::MASTER_KEY).is_some() && settings.get(keys::MASTER_KEY_FILE).is_some();
    let origin = settings.origin(keys::MASTER_KEY_FILE);
    both.then(|| format!("`WEFT_MASTER_KEY` and `master_key_file` ({origin}) are both given: give one of them"))
}

fn tls(settings: &Settings) -> Option<String> {
    let needs = |given: &str, origin, missing: &str| {
        Some(format!("`{given}` ({origin}) needs `{missing}`: give both or neither"))
    };
    let (cert, key) = (keys::SERVER_TLS_CERT, keys::SERVER_TLS_KEY);
    match (settings.get(cert), settings.get(key)) {
        (Some(_), None) => needs(cert.row.key, settings.origin(cert), key.row.key),
        (None, Some(_)) => needs(key.row.key, settings.origin(key), cert.row.key),
        _ => None,
    }
}

fn client_ca(settings: &Settings) -> Option<String> {
    let alone = settings.get(keys::SERVER_TLS_CLIENT_CA).is_some() && settings.get(keys::SERVER_TLS_CERT).is_none();
    let origin = settings.origin(keys::SERVER_TLS_CLIENT_CA);
    alone.then(|| {
        format!("`server.tls_client_ca` ({origin}) needs TLS: give `server.tls_cert` and `server.tls_key` too")
    })
}

fn proxies(settings: &Settings) -> Option<String> {
    let unused = !settings.get(keys::SERVER_TRUSTED_PROXIES).is_empty() && !settings.get(keys::SERVER_BEHIND_PROXY);
    let origin = settings.origin(keys::SERVER_TRUSTED_PROXIES);
    unused.then(|| format!("`server.trusted_proxies` ({origin}) needs `server.behind_proxy = true`"))
}

/// Nothing listens beyond this machine without TLS or a declared proxy.
fn listen(settings: &Settings) -> Option<String> {
    let address = settings.get(keys::SERVER_LISTEN);
    let safe = settings.get(keys::SERVER_TLS_CERT).is_some() || settings.get(keys::SERVER_BEHIND_PROXY);
    let origin = settings.origin(keys::SERVER_LISTEN);
    (is_reached(address) && !safe).then(|| {
        format!(
            "`server.listen` is {address} ({origin}), which others reach, without encryption: give `server.tls_cert` and \
             `server.tls_key`, or say `server.behind_proxy = true` if a proxy in front encrypts"
        )
    })
}

/// Metrics ask nobody for a key.
fn metrics(settings: &Settings) -> Option<String> {
    let address = settings.get(keys::METRICS_LISTEN).filter(|address| is_reached(*address))?;
    let origin = settings.origin(keys::METRICS_LISTEN);
    (!settings.get(keys::SERVER_BEHIND_PROXY)).then(|| {
        format!(
            "`metrics.listen` is {address} ({origin}), which others reach without a key: take an address of this machine, \
             or say `server.behind_proxy = true`"
        )
    })
}

fn is_reached(address: SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}
