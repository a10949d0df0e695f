//! What happened, as lines that a person can read.

use super::virtual_time::Virtual;
use weft_core::event::{Event, Fact};

/// `1500ms refund execution.claimed attempt 0 by worker-1`
pub fn line(event: &Event) -> String {
    let at = Virtual::since_begin(event.at);
    let what = format!("{at}ms {} {}", event.kind, event.fact.name());
    match &event.fact {
        Fact::Submitted { public_state, .. } => format!("{what} {}", public_state.name()),
        Fact::Claimed { instance, attempt, resumed, .. } => {
            let again = if *resumed { " resumed" } else { "" };
            format!("{what} attempt {attempt}{again} by {instance}")
        }
        Fact::Delayed { until, .. } => format!("{what} until {}ms", Virtual::since_begin(*until)),
        Fact::WaitingChildren { waiting, .. } => format!("{what} {waiting}"),
        Fact::RetryScheduled { category, message, retry_at, .. } => {
            format!("{what} {category} `{message}` at {}ms", Virtual::since_begin(*retry_at))
        }
        Fact::LeaseLost { reclaims, .. } => format!("{what} reclaims {reclaims}"),
        Fact::CancelRequested { reason, .. } => format!("{what} `{reason}`"),
        Fact::Finished { outcome, category, message, .. } => {
            let why = match (category, message) {
                (Some(category), Some(message)) => format!(" {category} `{message}`"),
                _ => String::new(),
            };
            format!("{what} {}{why}", outcome.name())
        }
        _ => what,
    }
}
