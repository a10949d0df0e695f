//! Traces across processes. What a W3C `traceparent` means to a span only the exporter of the traces knows, and it says so
//! once for the whole process. Without one, contexts are handed through as they came.

use std::sync::OnceLock;
use tracing::Span;

/// The header that names a trace.
pub const TRACEPARENT: &str = "traceparent";

/// How the spans of this process take part in traces of others.
#[derive(Clone, Copy, Debug)]
pub struct Propagation {
    /// Makes a span that has not been entered part of the trace that a `traceparent` names.
    pub adopt: fn(&Span, &str),
    /// The `traceparent` of whatever continues a span elsewhere. None if the span is in no trace.
    pub context: fn(&Span) -> Option<String>,
}

static PROPAGATION: OnceLock<Propagation> = OnceLock::new();

/// From here on spans continue the traces they are given. Once in a process; a second call changes nothing.
pub fn propagate(with: Propagation) {
    let _ = PROPAGATION.set(with);
}

/// Makes `span` part of the trace, if traces are made here.
pub fn adopt(span: &Span, traceparent: &str) {
    if let Some(propagation) = PROPAGATION.get() {
        (propagation.adopt)(span, traceparent);
    }
}

/// The context of what goes on now, for another process; None if no traces are made here.
pub fn current() -> Option<String> {
    PROPAGATION.get().and_then(|propagation| (propagation.context)(&Span::current()))
}
