//! Layers around the one dispatch point. Each sees every call, and none makes a call unavailable that it lets through.

mod breaker;
mod meter;
mod rate;
mod retry;
mod timeout;
mod trace;

pub use breaker::CircuitBreaker;
pub use meter::{Measured, Meter};
pub use rate::RateLimit;
pub use retry::Retry;
pub use timeout::Timeout;
pub use trace::Trace;
