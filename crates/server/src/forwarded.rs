//! Where a request really came from, if a proxy says so whose word counts. Anybody else's word is passed over: who could
//! name any address would have a rate of its own for each.

use http::HeaderMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Proxies whose word counts; none unless given.
#[derive(Clone)]
pub struct Proxies(Arc<dyn Fn(IpAddr) -> bool + Send + Sync>);

impl Default for Proxies {
    fn default() -> Self {
        Self::new(|_| false)
    }
}

impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proxies(…)")
    }
}

impl Proxies {
    pub fn new(trusted: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(trusted))
    }

    /// The nearest address that is no trusted proxy. Each proxy adds the one it heard from at the end, so that is read
    /// backwards, and only as far as trust goes.
    pub fn client(&self, peer: SocketAddr, headers: &HeaderMap) -> SocketAddr {
        let trusted = |address: IpAddr| (self.0)(address);
        let mut client = peer.ip();
        let lines = headers.get_all(FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
        let hops: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
        for hop in hops.into_iter().rev() {
            let (true, Some(address)) = (trusted(client), address(hop)) else { break };
            client = address;
        }
        SocketAddr::new(client, peer.port())
    }
}

/// Some proxies write the port too.
fn address(hop: &str) -> Option<IpAddr> {
    hop.parse().ok().or_else(|| hop.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_word_of_a_trusted_proxy_counts_and_only_as_far_as_trust_goes() {
        let proxies = Proxies::new(|address| address.to_string().starts_with("10."));
        for (peer, lines, wanted) in [
            ("10.0.0.1:9", vec!["192.0.2.7"], "192.0.2.7:9"),
            ("10.0.0.1:9", vec!["203.0.113.1, 192.0.2.7, 10.0.0.2"], "192.0.2.7:9"),
            ("10.0.0.1:9", vec!["203.0.113.1", "192.0.2.7:1234"], "192.0.2.7:9"),
            ("10.0.0.1:9", vec!["192.0.2.7, nonsense"], "10.0.0.1:9"),
            ("10.0.0.1:9", vec![], "10.0.0.1:9"),
            ("192.0.2.9:9", vec!["203.0.113.1"], "192.0.2.9:9"),
        ] {
            let mut headers = HeaderMap::new();
            for line in &lines {
                headers.append(FORWARDED_FOR, line.parse().unwrap());
            }
            assert_eq!(proxies.client(peer.parse().unwrap(), &headers).to_string(), wanted, "{peer} {lines:?}");
        }
    }
}
