//! Free ports on loopback.

use crate::error::{Error, Result};
use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// Below the ports that systems hand out by themselves (from 32768 on), the bus ports of a cluster too. A server that is
/// down keeps its port that way: no outgoing connection is given it, and no client that tries to reach the dead server
/// finds itself at the other end.
const FIRST: u16 = 10_000;
const COUNT: u16 = 12_000;

/// The cluster bus of a Valkey node listens this far above its port.
pub const BUS_OFFSET: u16 = 10_000;

const TRIES: u32 = 200;

/// A port nobody listens on, nor on its bus port. Somebody else may take it before it is used: start again then.
pub fn free() -> Result<u16> {
    let offer = || FIRST + u16::try_from(RandomState::new().hash_one(0_u8) % u64::from(COUNT)).unwrap_or(0);
    let free = |port: u16| TcpListener::bind(loopback(port)).is_ok();
    let offers = (0..TRIES).map(|_| offer());
    offers.into_iter().find(|port| free(*port) && free(*port + BUS_OFFSET)).ok_or(Error::Ports { tries: TRIES })
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Whether a server's log says that its port was taken.
pub fn clashed(log: &str) -> bool {
    log.contains("Address already in use")
}
