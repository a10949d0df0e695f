//! Networks in the notation `10.0.0.0/8`. A single address is a network of its own.

use std::fmt;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Reads `ADDRESS/BITS` or `ADDRESS`. An address with anything set behind its bits is refused: it would be unclear
    /// what was meant.
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
            None => width(address),
        };
        let network = Self { address, bits };
        (bits <= width(address) && network.first_bits(address) == as_number(address)).then_some(network)
    }

    /// An IPv4 address that came in over an IPv6 socket counts as what it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = if self.address.is_ipv4() { address.to_canonical() } else { address };
        address.is_ipv4() == self.address.is_ipv4() && self.first_bits(address) == as_number(self.address)
    }

    fn first_bits(&self, address: IpAddr) -> u128 {
        let rest = width(address) - self.bits;
        let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
        as_number(address) & mask
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn as_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(network: &str, address: &str) -> bool {
        Network::parse(network).unwrap().contains(address.parse().unwrap())
    }

    #[test]
    fn a_network_contains_its_addresses() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.1.2", "11.0.0.1"),
            ("192.168.1.128/25", "192.168.1.200", "192.168.1.127"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::1", "::1", "::2"),
        ] {
            assert!(contains(network, inside) && !contains(network, outside), "{network}");
        }
        assert!(contains("0.0.0.0/0", "255.255.255.255") && contains("::/0", "ffff::"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1") && !contains("::/0", "10.0.0.1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3"), "an IPv4 address over an IPv6 socket");
    }

    #[test]
    fn a_network_is_written_as_it_is_read() {
        for text in ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32", "::1/128", "0.0.0.0/0"] {
            assert_eq!(Network::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "10.0.0.0/33", "10.0.0.1/8", "10.0.0/8", "10.0.0.0/", "10.0.0.0/+8", "::/129", "example.com"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
