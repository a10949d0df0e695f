//! The store on real files.

// The lint spares test functions, and what they call is a test as much.
#![allow(clippy::unwrap_used)]

mod disk;
mod large_parts;
mod opening;
mod records;
mod reopening;
mod yardstick;
