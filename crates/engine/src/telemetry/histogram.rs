//! How long things took, in buckets that double: half a millisecond to a minute. Integers only, and no memory but the
//! buckets.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets with an upper bound; one more takes what is beyond the last.
pub const BUCKETS: usize = 18;
/// The upper bound of the first bucket.
const FIRST_US: u64 = 500;

/// The upper bound of a bucket in microseconds.
pub const fn bound_us(bucket: usize) -> u64 {
    FIRST_US << bucket
}

/// The bucket of a time; `BUCKETS` if it is beyond all bounds.
fn bucket_of(us: u64) -> usize {
    let doublings = us.saturating_sub(1) / FIRST_US;
    ((u64::BITS - doublings.leading_zeros()) as usize).min(BUCKETS)
}

/// A histogram of times, for one thread or behind a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BUCKETS + 1],
    sum_us: u64,
}

impl Histogram {
    pub fn add_us(&mut self, us: u64) {
        self.buckets[bucket_of(us)] += 1;
        self.sum_us = self.sum_us.saturating_add(us);
    }

    pub fn add_ms(&mut self, ms: u64) {
        self.add_us(ms.saturating_mul(1_000));
    }

    /// How many there are in each bucket; the last is beyond all bounds.
    pub fn buckets(&self) -> &[u64; BUCKETS + 1] {
        &self.buckets
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// A time in microseconds that `percent` of the values do not exceed: the bound of the bucket of the slowest of
    /// them, or the last bound. `None` for an empty histogram.
    pub fn percentile_us(&self, percent: u64) -> Option<u64> {
        let wanted = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        let bucket = self.buckets.iter().position(reaches).filter(|_| wanted > 0)?;
        Some(bound_us(bucket.min(BUCKETS - 1)))
    }
}

/// The same for many threads.
#[derive(Default)]
pub struct Shared {
    buckets: [AtomicU64; BUCKETS + 1],
    sum_us: AtomicU64,
}

impl Shared {
    pub fn add_us(&self, us: u64) {
        self.buckets[bucket_of(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub fn read(&self) -> Histogram {
        let mut histogram = Histogram { sum_us: self.sum_us.load(Ordering::Relaxed), ..Histogram::default() };
        for (to, from) in histogram.buckets.iter_mut().zip(&self.buckets) {
            *to = from.load(Ordering::Relaxed);
        }
        histogram
    }
}

/// Buckets of the sizes of batches: 1, 2, 4 and so on.
pub const SIZES: usize = 13;

/// How many of something there were at a time.
#[derive(Default)]
pub struct Sizes {
    buckets: [AtomicU64; SIZES + 1],
    sum: AtomicU64,
}

impl Sizes {
    pub fn add(&self, size: u64) {
        let doublings = (u64::BITS - size.saturating_sub(1).leading_zeros()) as usize;
        self.buckets[doublings.min(SIZES)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(size, Ordering::Relaxed);
    }

    /// The buckets, the last beyond all bounds, and the sum.
    pub fn read(&self) -> ([u64; SIZES + 1], u64) {
        let buckets = std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed));
        (buckets, self.sum.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_10_a_time_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        for us in (0..3_000).chain([65_536_000, 65_536_001, u64::MAX]) {
            let expected = (0..BUCKETS).find(|bucket| us <= bound_us(*bucket)).unwrap_or(BUCKETS);
            assert_eq!(bucket_of(us), expected, "{us} us");
        }
        assert!(bound_us(0) == 500 && bound_us(BUCKETS - 1) >= 60_000_000, "half a millisecond to a minute");
    }

    #[test]
    fn sr_82_a_percentile_is_the_bound_of_the_bucket_that_holds_it() {
        let mut times = Histogram::default();
        assert_eq!(times.percentile_us(99), None);
        for _ in 0..99 {
            times.add_us(400);
        }
        times.add_us(3_900);
        assert_eq!((times.percentile_us(99), times.percentile_us(100)), (Some(500), Some(4_000)));
        let beyond = std::iter::repeat_n(u64::MAX, 200);
        beyond.for_each(|us| times.add_us(us));
        assert_eq!(times.percentile_us(99), Some(bound_us(BUCKETS - 1)));
    }

    #[test]
    fn ops_10_a_histogram_shared_by_threads_reads_like_one_that_is_not() {
        let (shared, mut own) = (Shared::default(), Histogram::default());
        for us in [0, 499, 500, 501, 70_000_000] {
            shared.add_us(us);
            own.add_us(us);
        }
        assert_eq!(shared.read(), own);
        assert_eq!((own.count(), own.sum_us(), own.buckets()[BUCKETS]), (5, 70_001_500, 1));
    }

    #[test]
    fn ops_10_batches_are_counted_by_powers_of_two() {
        let sizes = Sizes::default();
        for size in [1, 2, 3, 4, 5, 1 << 20] {
            sizes.add(size);
        }
        let (buckets, sum) = sizes.read();
        assert_eq!(buckets[..4], [1, 1, 2, 1]);
        assert_eq!((buckets[SIZES], sum), (1, 15 + (1 << 20)));
    }
}
