//! Weft on PostgreSQL: one database, many nodes. An acknowledged commit has been flushed by the primary.
//!
//! A commit is one pipelined round trip on the connection of its partition: it takes the partition's row, which orders
//! commits, checks, writes sets of rows and adds its feed entry. No rule of the product is in here: tables come from the
//! schema that core declares, and what is written is what the batch says. No call is ever repeated by this crate or by
//! the library under it.

mod column;
mod commit;
mod connect;
mod ddl;
mod diagnosis;
mod doctor;
mod doorbell;
mod durability;
pub mod floor;
mod link;
mod migrations;
mod open_error;
mod options;
mod pool;
mod readers;
mod resolve;
mod scan;
mod sort;
mod sql;
mod stats;
mod store;
#[cfg(test)]
mod testing;
mod verdict;
mod wake;

pub use doctor::inspect;
pub use migrations::{Plan, drop_schema, migrate};
pub use open_error::OpenError;
pub use options::{Migrate, Options};
pub use stats::Stats;
pub use store::PostgresStore;
