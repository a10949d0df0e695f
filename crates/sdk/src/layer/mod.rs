//! Layers around the one dispatch point. Each sees every call.

mod retry;

pub use retry::Retry;
