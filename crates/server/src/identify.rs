//! Whose request it is: where it comes from, its key, how often that key calls, and in which namespace it wants to act.

use crate::app::Shared;
use crate::auth::{self, Good, RateClass};
use crate::cors::Origins;
use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use http::uri::Scheme;
use http::{Extensions, HeaderMap, HeaderName};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use weft_api::{Code, NAMESPACE_DEFAULT, Problem};
use weft_core::command::{Origin, Principal, Scopes};
use weft_core::text::Text;
use weft_dispatch::{Caller, Reach};

/// Where a request came from; put into its extensions by the listener.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The subject of the certificate with which a connection was opened; put into the extensions of its requests by the
/// listener.
#[derive(Clone, Debug)]
pub struct Subject(pub Text);

/// The id of a request; put into its extensions before it is answered.
#[derive(Clone, Debug)]
pub struct RequestId(pub Text);

/// Somebody who may call, as far as the key goes.
pub struct Known {
    pub caller: Caller,
    pub good: Option<Good>,
}

/// Checks, in this order: host, rate of the address, key, rate of the key. `name` is told who it is as soon as that is
/// known, also if the request is refused after that.
pub async fn identify(
    shared: &Shared,
    parts: &Parts,
    namespace: Option<Text>,
    name: &mut String,
) -> Result<Known, Problem> {
    let Some(keyring) = &shared.keyring else {
        check_local(parts, &shared.origins())?;
        *name = "dev".to_string();
        let caller = Caller {
            name: "dev".into(),
            scopes: Scopes::ALL,
            reach: Reach::All,
            namespace,
            fallback: Some(NAMESPACE_DEFAULT.into()),
            read_only: false,
            origin: Some(origin_of(parts, "")),
        };
        return Ok(Known { caller, good: None });
    };
    let (address, open) = (auth::address_name(peer(&parts.extensions)), shared.rates().open);
    // Before any hashing: an address that keeps failing costs nothing more.
    shared.buckets.peek(&address, open, shared.elapsed_ms()).map_err(|ms| too_often(shared, ms))?;
    let good = match keyring.check(bearer(&parts.headers)?.as_deref()).await {
        Ok(good) => good,
        Err(problem) if problem.code == Code::Unauthorized => {
            shared.metrics.refused("auth");
            // The next one is refused if this was the last that the address had.
            let _ = shared.buckets.take(&address, open, shared.elapsed_ms());
            let nobody = Principal::new("", "unknown", Scopes::NONE);
            let nobody = Principal { origin: Some(origin_of(parts, "")), ..nobody };
            shared.tell_refusal(&nobody, "authenticate", "", problem.code);
            return Err(problem);
        }
        Err(problem) => return Err(problem),
    };
    let key = &good.key;
    *name = match parts.extensions.get::<Subject>() {
        Some(Subject(subject)) => format!("{} ({subject})", key.name),
        None => key.name.to_string(),
    };
    let rate = match key.rate {
        RateClass::Default => Some(shared.rates().default),
        RateClass::Worker => Some(shared.rates().worker),
        RateClass::Unlimited => None,
    };
    if let Some(rate) = rate {
        shared.buckets.take(&key.id, rate, shared.elapsed_ms()).map_err(|ms| too_often(shared, ms))?;
    }
    let caller = Caller {
        name: key.name.clone(),
        scopes: key.scopes,
        reach: key.reach.clone(),
        namespace,
        fallback: None,
        read_only: key.read_only,
        origin: Some(origin_of(parts, &key.id)),
    };
    Ok(Known { caller, good: Some(good) })
}

fn origin_of(parts: &Parts, key: &str) -> Arc<Origin> {
    let request = parts.extensions.get::<RequestId>().map_or_else(|| "".into(), |id| id.0.clone());
    let address = peer(&parts.extensions);
    let address = match parts.extensions.get::<Subject>() {
        Some(Subject(subject)) => format!("{address} ({subject})"),
        None => address.to_string(),
    };
    Arc::new(Origin { key: key.into(), address: address.into(), request })
}

impl Shared {
    /// Passes on whether the caller may; the audit log is told if not.
    pub fn allowed<T>(&self, caller: &Caller, verb: &str, target: &str, may: Result<T, Problem>) -> Result<T, Problem> {
        if let Err(problem) = &may
            && problem.code == Code::Forbidden
        {
            self.metrics.refused("scope");
            self.tell_refusal(&caller.principal("".into()), verb, target, problem.code);
        }
        may
    }

    /// Tells the audit log of a refusal. The answer does not wait for it.
    pub fn tell_refusal(&self, principal: &Principal, verb: &str, target: &str, code: Code) {
        self.dispatch.engine().audit_refusal(principal, verb, target, code.name());
    }
}

fn bearer(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(AUTHORIZATION) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let (scheme, key) = text.split_once(' ').unwrap_or(("", ""));
    Ok(scheme.eq_ignore_ascii_case("bearer").then(|| key.trim().to_string()))
}

fn too_often(shared: &Shared, ms: u64) -> Problem {
    shared.metrics.refused("rate");
    Problem::new(Code::RateLimited, format!("could not take the call: too many came; repeat it after {ms} ms"))
        .retry_after(ms)
}

/// Refuses a request to a server without keys unless its `Host` is this machine and its `Origin`, if a browser sent one,
/// is that of the server itself or listed: another port of this machine is another page.
pub fn check_local(parts: &Parts, origins: &Origins) -> Result<(), Problem> {
    // HTTP/2 has the host in the URL instead.
    let host = match header(&parts.headers, &HOST)? {
        Some(host) => Some(host),
        None => parts.uri.authority().map(|authority| authority.to_string()),
    };
    let host = host.unwrap_or_default();
    if !is_local(&host) {
        let detail = format!("the host `{host}` is not this machine, and this server asks for no keys");
        let problem = Problem::new(Code::Forbidden, detail);
        return Err(problem.hint("call `localhost`, or run `weft serve`, which asks for keys"));
    }
    let Some(origin) = header(&parts.headers, &ORIGIN)? else { return Ok(()) };
    let own = format!("{}://{host}", parts.extensions.get::<Scheme>().unwrap_or(&Scheme::HTTP));
    if origin.eq_ignore_ascii_case(&own) || origins.allowed(&parts.headers).is_some() {
        return Ok(());
    }
    let detail = format!("the origin `{origin}` is not `{own}`, and this server asks for no keys");
    let problem = Problem::new(Code::Forbidden, detail);
    Err(problem
        .hint("list the origin in `server.cors_origins` (WEFT_CORS_ORIGINS), or run `weft serve`, which asks for keys"))
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if port.is_empty() || port.starts_with(':') => name,
            _ => return false,
        },
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || matches!(name, "127.0.0.1" | "::1")
}

/// The text of a header; one that is no text is refused, not ignored, and so is one that is there twice.
pub fn header(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    let mut all = headers.get_all(name).iter();
    let Some(value) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(Problem::invalid(name.as_str(), "is given twice"));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.to_string())),
        Err(_) => Err(Problem::invalid(name.as_str(), "is not printable ASCII")),
    }
}

pub fn peer(extensions: &Extensions) -> IpAddr {
    extensions.get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_26_only_names_of_this_machine_are_local() {
        for host in ["localhost", "LocalHost", "localhost:7700", "127.0.0.1:1", "[::1]", "[::1]:7700"] {
            assert!(is_local(host), "{host}");
        }
        for host in ["", "example.org", "localhost.example.org", "127.0.0.1.nip.io", "[::1].example.org", "0.0.0.0"] {
            assert!(!is_local(host), "{host}");
        }
    }
}
