//! The store on real files.

mod disk;
mod large_parts;
mod opening;
mod records;
mod reopening;
mod yardstick;
