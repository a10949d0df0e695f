//! Waiting for what a server says about itself. A look every few milliseconds up to a deadline that fails loudly: servers
//! offer no event for having come up.

use crate::error::{Error, Result};
use std::time::{Duration, Instant};

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// How long a server may take to come up or to go down. Generous: a loaded machine must not turn a test red.
pub const LONG: Duration = Duration::from_secs(60);

/// Looks until `look` is done. What it says instead while it is not, the error repeats if time runs out.
pub fn until<T>(
    what: &str,
    at_most: Duration,
    mut look: impl FnMut() -> Result<std::result::Result<T, String>>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        match look()? {
            Ok(done) => return Ok(done),
            Err(state) if started.elapsed() >= at_most => {
                return Err(Error::Deadline { what: what.to_owned(), waited_s: at_most.as_secs(), state });
            }
            Err(_) => std::thread::sleep(BETWEEN_LOOKS),
        }
    }
}
