//! Weft on one SQLite file: an embedded store for production. An acknowledged commit has been fsynced.
//!
//! One thread writes and checkpoints, a few threads read, and a lock file keeps other processes out. No rule of the
//! product is in here: tables come from the schema that core declares, and what is written is what the batch says.

mod backup;
mod check;
mod commit;
mod connection;
mod ddl;
mod doctor;
pub mod floor;
mod folder;
mod log;
mod migrations;
mod options;
mod reader;
mod scan;
mod sql;
mod stats;
mod store;
mod table;
mod verdict;
mod writer;

pub use backup::{Backup, BackupError};
pub use doctor::{Plan, inspect, plan};
pub use folder::resolve;
pub use options::{EXIT_IO, OnIoError, OpenError, Options};
pub use stats::Stats;
pub use store::SqliteStore;
