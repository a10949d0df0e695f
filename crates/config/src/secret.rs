//! A text that nobody may see. It has no `Display`, its `Debug` tells nothing, and it is erased when it is dropped.

use std::fmt;
use zeroize::Zeroizing;

/// What stands in place of a secret.
pub(crate) const HIDDEN: &str = "***";

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}
