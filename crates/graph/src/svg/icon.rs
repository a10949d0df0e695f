//! The sign of a state, drawn and not written, so that it looks the same with every font.

use crate::state::State;

/// A disc with a sign in it, around a point; 16 pixels wide.
pub fn icon(state: State, x: i64, y: i64) -> String {
    let disc = match state {
        // What has not begun and what never will are outlines, the rest is filled.
        State::Waiting | State::Skipped => "<circle class=\"wg-rim\" r=\"7\"/>",
        _ => "<circle class=\"wg-ink\" r=\"8\"/>",
    };
    let sign = match state {
        State::Waiting => "",
        State::Delayed => "<path class=\"wg-sign\" d=\"M0-4.5V0L3 2\"/>",
        State::RateLimited => "<path class=\"wg-sign\" d=\"M-3.5 3.5V1M0 3.5V-1M3.5 3.5V-3.5\"/>",
        State::WaitingChildren => "<path class=\"wg-sign\" d=\"M-4 0h.01M0 0h.01M4 0h.01\"/>",
        State::Held => "<path class=\"wg-sign\" d=\"M-2.5-.5V-2a2.5 2.5 0 0 1 5 0V-.5M-3.5 0h7v3.5h-7z\"/>",
        State::Active => "<path class=\"wg-sign wg-full\" d=\"M-1.8-3.2L3.2 0L-1.8 3.2z\"/>",
        State::Suspended => "<path class=\"wg-sign\" d=\"M-2.2-3V3M2.2-3V3\"/>",
        State::Completed => "<path class=\"wg-sign\" d=\"M-3.6 0.2L-1 2.8L3.8-2.6\"/>",
        State::Failed => "<path class=\"wg-sign\" d=\"M-2.8-2.8L2.8 2.8M2.8-2.8L-2.8 2.8\"/>",
        State::Cancelled => "<path class=\"wg-sign\" d=\"M-3.4 3.4L3.4-3.4\"/>",
        State::Expired => "<path class=\"wg-sign\" d=\"M0-4V.8M0 4h.01\"/>",
        State::Skipped => "<path class=\"wg-rim\" d=\"M-3.2-2.6L-.6 0L-3.2 2.6M.8-2.6L3.4 0L.8 2.6\"/>",
    };
    format!("<g transform=\"translate({x} {y})\">{disc}{sign}</g>\n")
}
