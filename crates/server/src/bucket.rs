//! Token buckets: so many calls a second for each name, for a bounded number of names.

use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

/// How fast a bucket fills and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub per_s: u32,
    pub burst: u32,
}

/// Buckets by name. The names used longest ago are forgotten first, which fills their buckets.
pub struct Buckets {
    buckets: Mutex<LruCache<String, Bucket>>,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// In thousandths of a call.
    level: u64,
    at_ms: u64,
}

impl Buckets {
    pub fn new(names_max: usize) -> Self {
        let max = NonZeroUsize::new(names_max).unwrap_or(NonZeroUsize::MIN);
        Self { buckets: Mutex::new(LruCache::new(max)) }
    }

    /// Takes one call out of the bucket of `name`, or says in how many milliseconds there is one.
    pub fn take(&self, name: &str, rate: Rate, now_ms: u64) -> Result<(), u64> {
        self.look(name, rate, now_ms, 1_000)
    }

    /// The same without taking it.
    pub fn peek(&self, name: &str, rate: Rate, now_ms: u64) -> Result<(), u64> {
        self.look(name, rate, now_ms, 0)
    }

    fn look(&self, name: &str, rate: Rate, now_ms: u64, taken: u64) -> Result<(), u64> {
        let full = u64::from(rate.burst) * 1_000;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains(name) {
            // A full bucket needs no memory until something is taken from it.
            if taken == 0 {
                return Ok(());
            }
            buckets.put(name.to_string(), Bucket { level: full, at_ms: now_ms });
        }
        let bucket = buckets.get_mut(name).expect("bucket: it was put there");
        let elapsed = now_ms.saturating_sub(bucket.at_ms);
        // One call a second is one thousandth of a call a millisecond.
        bucket.level = full.min(bucket.level.saturating_add(elapsed.saturating_mul(u64::from(rate.per_s))));
        bucket.at_ms = bucket.at_ms.max(now_ms);
        if bucket.level >= 1_000 {
            bucket.level -= taken;
            return Ok(());
        }
        Err((1_000 - bucket.level).div_ceil(u64::from(rate.per_s.max(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let (buckets, rate) = (Buckets::new(2), Rate { per_s: 20, burst: 3 });
        assert!((0..3).all(|_| buckets.take("a", rate, 0).is_ok()));
        assert_eq!(buckets.take("a", rate, 0), Err(50));
        assert_eq!(buckets.take("a", rate, 49), Err(1));
        assert_eq!(buckets.take("a", rate, 50), Ok(()));
        assert_eq!(buckets.take("b", rate, 50), Ok(()), "names do not share");
        assert!((0..3).all(|_| buckets.take("a", rate, 1_000_000).is_ok()));
        assert!(buckets.take("a", rate, 1_000_000).is_err(), "it never holds more than its burst");
    }
}
