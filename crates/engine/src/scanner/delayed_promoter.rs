//! Due work becomes ready, or blocked if it has holds.

crate::scanner::due_scanner!(
    /// Finds delayed executions whose time has come.
    DelayedPromoter, "delayed_promoter", 750, 200, [Until]
);
