//! The access log: one line per request, without bodies, keys or queries.

use std::time::Duration;

pub struct Line<'a> {
    pub method: &'a str,
    pub route: &'a str,
    pub status: u16,
    pub took: Duration,
    /// Of the reply, if they are known beforehand.
    pub bytes: Option<u64>,
    pub principal: &'a str,
    pub request_id: &'a str,
}

impl Line<'_> {
    pub fn write(&self) {
        let ms = self.took.as_secs_f64() * 1_000.0;
        tracing::info!(
            target: "weft::access",
            method = self.method,
            route = self.route,
            status = self.status,
            ms = format_args!("{ms:.1}"),
            bytes = self.bytes,
            principal = self.principal,
            request_id = self.request_id,
            "request"
        );
    }
}
