//! Times of one stretch, fine enough for percentiles: exact below eight milliseconds, then four buckets per doubling, so
//! that a percentile is off by an eighth at most.

/// Doublings that are told apart: more than a day and a half.
const DOUBLINGS: usize = 27;
const EXACT: usize = 8;
const PER_DOUBLING: usize = 4;
const BUCKETS: usize = EXACT + (DOUBLINGS - 3) * PER_DOUBLING;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    buckets: [u32; BUCKETS],
}

impl Default for Spread {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS] }
    }
}

/// Count and percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    pub count: u64,
    pub p50_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
}

fn bucket_of(ms: u64) -> usize {
    if ms < EXACT as u64 {
        return ms as usize;
    }
    let doubling = ms.ilog2() as usize;
    let quarter = (ms >> (doubling - 2)) as usize & (PER_DOUBLING - 1);
    (EXACT + (doubling - 3) * PER_DOUBLING + quarter).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn middle_ms(bucket: usize) -> f64 {
    if bucket < EXACT {
        return bucket as f64;
    }
    let (doubling, quarter) = ((bucket - EXACT) / PER_DOUBLING + 3, (bucket - EXACT) % PER_DOUBLING);
    let width = (1u64 << (doubling - 2)) as f64;
    (PER_DOUBLING + quarter) as f64 * width + (width - 1.0) / 2.0
}

impl Spread {
    pub fn add_ms(&mut self, ms: u64) {
        self.buckets[bucket_of(ms)] += 1;
    }

    pub fn join(&mut self, other: &Spread) {
        for (to, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *to = to.saturating_add(*from);
        }
    }

    pub fn latency(&self) -> Latency {
        let count = self.buckets.iter().map(|count| u64::from(*count)).sum();
        let at = |percent: u64| self.percentile(count, percent);
        Latency { count, p50_ms: at(50), p95_ms: at(95), p99_ms: at(99) }
    }

    fn percentile(&self, count: u64, percent: u64) -> f64 {
        let wanted = (count * percent).div_ceil(100).max(1);
        let mut passed = 0;
        for (bucket, inside) in self.buckets.iter().enumerate() {
            passed += u64::from(*inside);
            if passed >= wanted {
                return middle_ms(bucket);
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_off_by_an_eighth_at_most() {
        for ms in (0..5_000).chain([86_400_000]) {
            let mut spread = Spread::default();
            spread.add_ms(ms);
            let told = spread.latency().p50_ms;
            assert!((told - ms as f64).abs() <= ms as f64 / 8.0, "{ms} ms is told as {told}");
        }
    }

    #[test]
    fn percentiles_of_a_hundred_times_are_those_of_the_list() {
        let mut spread = Spread::default();
        (1..=100).for_each(|ms| spread.add_ms(ms / 14));
        let latency = spread.latency();
        assert_eq!((latency.count, latency.p50_ms, latency.p95_ms, latency.p99_ms), (100, 3.0, 6.0, 7.0));
        assert_eq!(Spread::default().latency(), Latency::default());
    }
}
