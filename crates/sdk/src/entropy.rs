//! Where fresh keys and jitter come from. A value, so that a test has the same ones in every run.

use std::fmt;
use std::sync::Arc;

#[derive(Clone)]
pub struct Entropy(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Entropy {
    #[cfg_attr(not(feature = "test"), expect(dead_code, reason = "only the harness brings a source of its own"))]
    pub fn new(source: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    pub fn of_system() -> Self {
        Self(Arc::new(|| getrandom::u64().expect("entropy: the operating system gives it")))
    }

    pub fn next(&self) -> u64 {
        (self.0)()
    }

    /// Evenly from 0 to `max`, both included.
    pub fn up_to(&self, max: u64) -> u64 {
        match max.checked_add(1) {
            Some(bound) => self.next() % bound,
            None => self.next(),
        }
    }

    /// Text that nobody else has.
    pub fn fresh(&self) -> String {
        format!("{:016x}{:016x}", self.next(), self.next())
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}
