//! The store on a real server.

// The lint spares test functions, and what they call is a test as much.
#![allow(clippy::unwrap_used)]

mod broken;
mod doctor;
mod opening;
mod pool;
mod races;
mod records;
mod schema;
mod server;
mod tables;
mod tls;
mod wakes;
mod yardstick;
