//! Variables that Kubernetes and Docker add to every container beside a service or a linked container whose name begins
//! with `weft`: `WEFT_SERVICE_HOST`, `WEFT_PORT_7700_TCP_ADDR`. Recognised by name and value together, so that a value
//! of another form under such a name is still a setting, or a mistake.

use crate::variables::PREFIX;
use std::net::IpAddr;

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// Whether a cluster or a link made this variable. A setting of this name and form of value counts as made by it too: no
/// setting takes an address with such a protocol, or the path of a linked container.
pub(crate) fn is_injected(name: &str, value: &str) -> bool {
    if !name.starts_with(PREFIX) {
        return false;
    }
    let words: Vec<&str> = name.split('_').collect();
    (1..words.len()).any(|at| {
        let (service, rest) = words.split_at(at);
        match rest {
            ["SERVICE", "HOST"] => is_address(value),
            ["SERVICE", "PORT", ..] => is_port(value),
            ["PORT"] => is_link(value),
            ["PORT", port, protocol, rest @ ..] if is_port(port) && is_protocol(&protocol.to_ascii_lowercase()) => {
                match rest {
                    [] => is_link(value),
                    ["PROTO"] => is_protocol(value),
                    ["PORT"] | ["PORT", "START" | "END"] => is_port(value),
                    // Of ports in a row, Docker names the first and the last.
                    ["START" | "END"] => is_link(value),
                    ["ADDR"] => is_address(value),
                    _ => false,
                }
            }
            ["NAME"] => is_path_of(value, &service.join("_")),
            _ => false,
        }
    })
}

/// Whether a Docker link passed on a variable of the linked container: `WEFT_ENV_HOME`. The value may be anything.
pub(crate) fn is_passed_on(name: &str) -> bool {
    name.starts_with(PREFIX) && name.split_once("_ENV_").is_some_and(|(_, passed)| !passed.is_empty())
}

/// `tcp://10.0.0.1:7700`
fn is_link(value: &str) -> bool {
    let address = value.split_once("://").filter(|(protocol, _)| is_protocol(protocol)).map(|(_, address)| address);
    let parts = address.and_then(|address| address.rsplit_once(':'));
    parts.is_some_and(|(host, port)| is_address(host.trim_matches(['[', ']'])) && is_port(port))
}

fn is_protocol(text: &str) -> bool {
    PROTOCOLS.contains(&text)
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

/// `/shop/weft-node` for a link whose alias is written `WEFT_NODE` in variables.
fn is_path_of(value: &str, service: &str) -> bool {
    let alias = value.strip_prefix('/').and_then(|path| path.rsplit_once('/')).map(|(_, alias)| alias);
    alias.is_some_and(|alias| {
        alias.to_ascii_uppercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_") == service
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clusters_and_links_make_is_known_by_name_and_value() {
        for (name, value) in [
            ("WEFT_SERVICE_HOST", "10.96.0.17"),
            ("WEFT_SERVICE_HOST", "fd00::17"),
            ("WEFT_SERVICE_PORT", "7700"),
            ("WEFT_SERVICE_PORT_HTTP", "7700"),
            ("WEFT_PORT", "tcp://10.96.0.17:7700"),
            ("WEFT_PORT", "udp://[fd00::17]:7700"),
            ("WEFT_PORT_7700_TCP", "tcp://10.96.0.17:7700"),
            ("WEFT_PORT_7700_TCP_PROTO", "tcp"),
            ("WEFT_PORT_7700_TCP_PORT", "7700"),
            ("WEFT_PORT_7700_TCP_ADDR", "10.96.0.17"),
            ("WEFT_PORT_7700_TCP_START", "tcp://10.96.0.17:7700"),
            ("WEFT_PORT_7700_TCP_END", "tcp://10.96.0.17:7702"),
            ("WEFT_PORT_7700_TCP_PORT_START", "7700"),
            ("WEFT_PORT_7700_UDP_PORT_END", "7702"),
            ("WEFT_PORT_7700_SCTP_END", "sctp://10.96.0.17:7702"),
            ("WEFT_STORE_VALKEY_SERVICE_HOST", "10.96.0.18"),
            ("WEFT_STORE_VALKEY_PORT", "tcp://10.96.0.18:6379"),
            ("WEFT_NAME", "/shop/weft"),
            ("WEFT_NODE_NAME", "/shop/weft-node"),
        ] {
            assert!(is_injected(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("WEFT_PORT", "8080"),
            ("WEFT_PORT", "http://10.96.0.17:7700"),
            ("WEFT_SERVICE_HOST", "weft.example"),
            ("WEFT_PORT_HTTP_TCP_PORT", "7700"),
            ("WEFT_PORT_7700_TCP_NAME", "7700"),
            ("WEFT_PORT_7700_TCP_START", "7700"),
            ("WEFT_PORT_7700_TCP_PORT_END", "tcp://10.96.0.17:7702"),
            ("WEFT_NODE_NAME", "web-2"),
            ("WEFT_NODE_NAME", "/shop/web-2"),
            ("OTHER_SERVICE_HOST", "10.96.0.17"),
            ("WEFT_SERVICE", "7700"),
        ] {
            assert!(!is_injected(name, value), "{name}={value}");
        }
        assert!(is_passed_on("WEFT_ENV_HOME") && is_passed_on("WEFT_DB_ENV_HOME"));
        assert!(!is_passed_on("WEFT_ENV_") && !is_passed_on("WEFT_ENV") && !is_passed_on("A_ENV_B"));
    }
}
