//! Traces that come from outside. A request whose `traceparent` names one belongs to it; how a span is made part of a
//! trace only the exporter of the traces knows, and it says so once for the whole process.

use http::{HeaderMap, HeaderName};
use std::sync::OnceLock;
use tracing::Span;

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Makes a span that has not been entered part of the trace that a `traceparent` names.
pub type Continue = fn(&Span, &str);

static CONTINUE: OnceLock<Continue> = OnceLock::new();

/// From here on requests continue the traces they name. Once in a process; a second call changes nothing.
pub fn continue_traces(with: Continue) {
    let _ = CONTINUE.set(with);
}

pub(crate) fn begin(span: &Span, headers: &HeaderMap) {
    if let Some(with) = CONTINUE.get()
        && let Some(traceparent) = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok())
    {
        with(span, traceparent);
    }
}
