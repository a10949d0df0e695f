//! What the engine and the server are told, made from the settings.

use anyhow::Result;
use std::collections::BTreeMap;
use std::time::Duration;
use weft_api::node::Setting;
use weft_config::{Key, Settings, keys};
use weft_core::limits::{Limits, NAME_MAX};
use weft_core::record::execution::Policy;
use weft_engine::Config;
use weft_engine::config::{Filter, ScannerConfig};
use weft_server::tls::{Files, Identity};
use weft_server::{Auth, Options, Origins, Proxies, Rate, Rates};

pub fn engine(settings: &Settings) -> Result<Config> {
    let node = match settings.get(keys::NODE_NAME) {
        Some(name) => name,
        None => drawn_name()?,
    };
    Ok(Config {
        node: node.into(),
        limits: limits(settings),
        policy: Policy {
            retention_ms: Some(ms(settings.get(keys::EXECUTION_RETENTION))),
            idempotency_ttl_ms: ms(settings.get(keys::EXECUTION_IDEMPOTENCY_TTL)),
            ..Policy::default()
        },
        queue_max: settings.get(keys::ENGINE_QUEUE),
        batch_max: settings.get(keys::ENGINE_BATCH),
        lease_ms: ms(settings.get(keys::EXECUTION_LEASE)),
        cache_bytes: settings.get(keys::ENGINE_CACHE),
        recheck_ms: ms(settings.get(keys::ENGINE_RECHECK)),
        clock_skew_max_ms: ms(settings.get(keys::ENGINE_CLOCK_SKEW_MAX)),
        scanners: ScannerConfig {
            at_once: settings.get(keys::SCANNERS_AT_ONCE),
            filter: filter(settings, keys::SCANNERS_NAMESPACE, keys::SCANNERS_TAG),
            filters: own_filters(settings),
            intervals: keys::SCANNERS.iter().map(|keys| (keys.name, ms(settings.get(keys.interval)))).collect(),
            ..ScannerConfig::default()
        },
        ..Config::default()
    })
}

fn filter(settings: &Settings, namespace: Key<Option<String>>, tag: Key<Option<String>>) -> Filter {
    let tag = settings.get(tag);
    let tag = tag.as_ref().and_then(|tag| tag.split_once('=')).map(|(key, value)| (key.into(), value.into()));
    Filter { namespace: settings.get(namespace).map(Into::into), tag }
}

/// The filters of single scanners, as far as they have some.
fn own_filters(settings: &Settings) -> BTreeMap<&'static str, Filter> {
    let filters = keys::SCANNERS.iter().map(|keys| (keys.name, filter(settings, keys.namespace, keys.tag)));
    filters.filter(|(_, filter)| !filter.is_none()).collect()
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        input_max: settings.get(keys::LIMITS_INPUT),
        result_max: settings.get(keys::LIMITS_RESULT),
        checkpoint_max: settings.get(keys::LIMITS_CHECKPOINT),
        step_max: settings.get(keys::LIMITS_STEP),
        request_ttl_ms: ms(settings.get(keys::EXECUTION_REQUEST_TTL)),
        audit_kept_ms: ms(settings.get(keys::AUDIT_RETENTION)),
        flow_members_max: settings.get(keys::LIMITS_FLOW_MEMBERS),
        flow_edges_max: settings.get(keys::LIMITS_FLOW_EDGES) as u64,
        edges_per_member_max: settings.get(keys::LIMITS_EDGES_PER_MEMBER),
        inputs_inline_max: settings.get(keys::LIMITS_INPUTS),
        seal_by_ms: ms(settings.get(keys::FLOW_SEAL_BY)),
    }
}

pub fn options(settings: &Settings, auth: Auth) -> Result<Options> {
    let origins = origins(settings, matches!(auth, Auth::Dev))?;
    Ok(Options {
        rates: rates(settings),
        cors_origins: origins,
        proxies: proxies(settings),
        connections_max: settings.get(keys::SERVER_MAX_CONNECTIONS),
        waiting_max: settings.get(keys::SERVER_MAX_WAITING_CLAIMS),
        drain: settings.get(keys::SERVER_DRAIN),
        ..Options::new(auth)
    })
}

/// The settings as the server tells them to an administrator.
pub fn shown(settings: &Settings) -> Vec<Setting> {
    let shown = settings.rows().into_iter().map(|row| Setting {
        key: row.key.to_owned(),
        value: row.value,
        otherwise: row.otherwise.map(str::to_owned),
        origin: row.origin.to_string(),
    });
    shown.collect()
}

fn proxies(settings: &Settings) -> Proxies {
    let trusted = settings.get(keys::SERVER_TRUSTED_PROXIES);
    Proxies::new(move |address| trusted.iter().any(|network| network.contains(address)))
}

/// `any` may be `*`, where nobody needs a key.
pub fn origins(settings: &Settings, any: bool) -> Result<Origins> {
    Ok(Origins::parse(&settings.get(keys::SERVER_CORS_ORIGINS), any)?)
}

/// A burst of two seconds; an address without a key has five, because a page that opens asks several times.
pub fn rates(settings: &Settings) -> Rates {
    let rate = |per_s: u32, seconds: u32| Rate { per_s, burst: per_s.saturating_mul(seconds) };
    Rates {
        default: rate(settings.get(keys::AUTH_RATE_DEFAULT), 2),
        worker: rate(settings.get(keys::AUTH_RATE_WORKER), 2),
        open: rate(settings.get(keys::AUTH_OPEN_RATE), 5),
    }
}

/// The certificate, if there is to be encryption.
pub fn identity(settings: &Settings) -> Result<Option<Identity>> {
    Ok(files(settings).map(Identity::load).transpose()?)
}

pub fn files(settings: &Settings) -> Option<Files> {
    let (cert, key) = (settings.get(keys::SERVER_TLS_CERT)?, settings.get(keys::SERVER_TLS_KEY)?);
    Some(Files { cert, key, client_ca: settings.get(keys::SERVER_TLS_CLIENT_CA) })
}

/// The name of this machine and a random part: several nodes may be on one.
fn drawn_name() -> Result<String> {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let letters = host.chars().filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.'));
    let mut name: String = letters.take(NAME_MAX - 9).collect();
    let mut random = [0; 4];
    getrandom::fill(&mut random)?;
    name.push('-');
    name.extend(random.iter().map(|byte| format!("{byte:02x}")));
    Ok(name)
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_config::Sources;

    #[test]
    fn sr_2_every_scanner_has_a_setting_whose_default_is_its_own_interval() {
        let configured = engine(&Settings::built_in()).unwrap().scanners.intervals;
        assert_eq!(configured, weft_engine::scanner::intervals().collect::<BTreeMap<_, _>>());
    }

    #[test]
    fn sr_34_filters_of_the_configuration_reach_the_scanners() {
        let flags = ["scanners-namespace=shop", "scanners-tag=team=a=b", "scanners-lease-expiry-tag=team="];
        let flags = flags.map(|flag| flag.split_once('=').unwrap()).map(|(flag, value)| (flag.into(), value.into()));
        let settings = Settings::load(Sources { flags: flags.into(), ..Sources::default() }).unwrap();
        let scanners = engine(&settings).unwrap().scanners;
        let tagged = |value: &str| Some(("team".into(), value.into()));
        assert_eq!(scanners.filter, Filter { namespace: Some("shop".into()), tag: tagged("a=b") });
        assert_eq!(scanners.filters, [("lease_expiry", Filter { namespace: None, tag: tagged("") })].into());
        let none = engine(&Settings::built_in()).unwrap().scanners;
        assert!(none.filter.is_none() && none.filters.is_empty());
    }
}
