//! Calls of the API on an engine in memory.

mod keys;
