//! Weft on Valkey, standalone or Cluster.
//!
//! The usual commit is a transaction that does nothing if anybody else has written; one small function library decides
//! about all others and applies them. Reads are plain commands. Connections, slot map and redirects are the store's own,
//! because a commit must never be repeated by a client library and because `WAIT` counts only the writes of its own
//! connection. No rule of the product is in here: what is written is what the batch says.

mod batch;
mod check;
mod durability;
mod error;
pub mod floor;
mod groups;
mod info;
mod keys;
mod library;
mod link;
mod members;
mod meta;
mod options;
mod order;
mod primary;
mod reader;
mod route;
mod scan;
mod slots;
mod store;
mod verdict;
mod wake;
mod wipe;
mod writer;

pub use check::inspect;
pub use error::OpenError;
pub use floor::floor;
pub use meta::{Plan, migrate};
pub use options::{Address, Login, Migrate, Mode, Options};
pub use store::ValkeyStore;
pub use wipe::wipe;
