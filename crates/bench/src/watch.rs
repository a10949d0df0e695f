//! How a scenario tells that it gets on. It never decides anything by it.

/// Told of the progress of one run after the other.
pub trait Watch: Send + Sync {
    /// Something begins that has `total` items; 0 if they are not counted.
    fn begin(&self, what: &str, total: u64);

    /// So many more items are through.
    fn advance(&self, by: u64);

    fn end(&self);
}

/// For programs, which read the result only.
pub struct Silent;

impl Watch for Silent {
    fn begin(&self, _: &str, _: u64) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
}
