//! Weft over HTTP.
