//! How much memory the bodies of requests may take, from their first byte to the answer: of all connections together and
//! of each. What keeps leases alive or ends work has a share that nothing else can take.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weft_api::{Code, Problem};

/// Bodies are counted in pages.
const PAGE: usize = 4 << 10;
const RETRY_AFTER_MS: u64 = 1_000;

/// Bytes of bodies at a time.
#[derive(Clone, Copy, Debug)]
pub struct BodyMemory {
    pub total: usize,
    /// On top of it, for what keeps leases alive or ends work.
    pub reserved: usize,
    pub per_connection: usize,
}

impl Default for BodyMemory {
    fn default() -> Self {
        Self { total: 256 << 20, reserved: 64 << 20, per_connection: 64 << 20 }
    }
}

/// What a server may still take.
pub struct Budget {
    total: Arc<Semaphore>,
    reserved: Arc<Semaphore>,
    per_connection: usize,
}

/// What one connection may still take; put into the extensions of its requests.
#[derive(Clone)]
pub struct Connection(Arc<Semaphore>);

/// What one request has taken; given back when it is dropped.
pub struct Share<'a> {
    budget: &'a Budget,
    connection: Option<Connection>,
    is_urgent: bool,
    pages: usize,
    held: Vec<OwnedSemaphorePermit>,
}

impl Budget {
    pub fn new(memory: BodyMemory) -> Self {
        let pages = |bytes: usize| Arc::new(Semaphore::new(bytes.div_ceil(PAGE)));
        Self { total: pages(memory.total), reserved: pages(memory.reserved), per_connection: memory.per_connection }
    }

    pub fn connection(&self) -> Connection {
        Connection(Arc::new(Semaphore::new(self.per_connection.div_ceil(PAGE))))
    }

    /// For one request, which has taken nothing yet.
    pub fn share(&self, connection: Option<Connection>, is_urgent: bool) -> Share<'_> {
        Share { budget: self, connection, is_urgent, pages: 0, held: Vec::new() }
    }
}

impl Share<'_> {
    /// Takes as much as `bytes` need in all, or says that there is none left now.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        let more = bytes.div_ceil(PAGE).saturating_sub(self.pages);
        if more == 0 {
            return Ok(());
        }
        if let Some(Connection(own)) = &self.connection {
            self.held.push(take(own, more).ok_or_else(|| full("this connection has"))?);
        }
        let taken = take(&self.budget.total, more);
        let reserved = || if self.is_urgent { take(&self.budget.reserved, more) } else { None };
        let taken = taken.or_else(reserved);
        self.held.push(taken.ok_or_else(|| full("the server has"))?);
        self.pages += more;
        Ok(())
    }
}

fn take(from: &Arc<Semaphore>, pages: usize) -> Option<OwnedSemaphorePermit> {
    from.clone().try_acquire_many_owned(u32::try_from(pages).ok()?).ok()
}

fn full(who: &str) -> Problem {
    Problem::new(Code::Busy, format!("could not take the body: {who} as many on the way as fit into memory"))
        .retry_after(RETRY_AFTER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget::new(BodyMemory { total: 4 * PAGE, reserved: 2 * PAGE, per_connection: 3 * PAGE })
    }

    #[test]
    fn api_31_bodies_of_all_connections_share_a_bound_and_give_back_what_they_took() {
        let budget = budget();
        let mut one = budget.share(Some(budget.connection()), false);
        let mut other = budget.share(Some(budget.connection()), false);
        one.grow(1).unwrap();
        one.grow(3 * PAGE).unwrap();
        other.grow(PAGE).unwrap();
        assert_eq!(other.grow(PAGE + 1).unwrap_err().code, Code::Busy);
        drop(one);
        other.grow(2 * PAGE).unwrap();
    }

    #[test]
    fn api_31_one_connection_cannot_take_everything() {
        let budget = budget();
        let connection = budget.connection();
        let mut one = budget.share(Some(connection.clone()), false);
        one.grow(3 * PAGE).unwrap();
        let refused = budget.share(Some(connection), false).grow(1).unwrap_err();
        assert_eq!((refused.code, refused.retry_after_ms), (Code::Busy, Some(1_000)));
    }

    #[test]
    fn api_31_what_keeps_leases_alive_has_a_share_of_its_own() {
        let budget = budget();
        let mut load = budget.share(None, false);
        load.grow(4 * PAGE).unwrap();
        assert!(budget.share(None, false).grow(1).is_err());
        let mut renewal = budget.share(None, true);
        renewal.grow(2 * PAGE).unwrap();
        assert!(budget.share(None, true).grow(1).is_err(), "it is bounded too");
    }
}
