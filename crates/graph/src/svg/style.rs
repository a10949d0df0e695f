//! The style sheet of a picture: sizes once, colours for the grounds that it may be shown on.

use super::Theme;
use crate::palette::{DARK, Ground, LIGHT};
use crate::state::State;

/// A `<style>` with the colours of these states only. Every rule is about classes that begin with `wg`, so that it changes
/// nothing else in a page that the picture stands in.
pub fn style(states: &[State], tone: State, theme: Theme) -> String {
    let mut states = states.to_vec();
    if !states.contains(&tone) {
        states.push(tone);
    }
    states.sort_unstable();
    let colours = match theme {
        Theme::Light => colours(&LIGHT, &states),
        Theme::Dark => colours(&DARK, &states),
        Theme::Auto => {
            let dark = colours(&DARK, &states);
            format!("{}@media (prefers-color-scheme: dark) {{\n{dark}}}\n", colours(&LIGHT, &states))
        }
    };
    format!("<style>\n{SHAPES}{colours}</style>\n")
}

/// The line of a child is the only one that is thin, of those that are not solid each has dashes of its own.
const SHAPES: &str = "\
.wg text { font-size: 11px; }
.wg .wg-title { font-size: 17px; font-weight: 600; }
.wg .wg-key { font-size: 13px; font-weight: 600; }
.wg .wg-tiny, .wg .wg-label { font-size: 10px; }
.wg .wg-middle, .wg .wg-label { text-anchor: middle; }
.wg .wg-label { stroke-width: 4px; stroke-linejoin: round; paint-order: stroke; }
.wg .wg-box, .wg .wg-many, .wg .wg-mark { stroke-width: 1.3px; }
.wg .wg-active .wg-box { stroke-width: 2px; }
.wg .wg-cancelled .wg-box, .wg .wg-skipped .wg-box { stroke-dasharray: 5 3; }
.wg .wg-rim { fill: none; stroke-width: 1.5px; stroke-linecap: round; stroke-linejoin: round; }
.wg .wg-sign { fill: none; stroke-width: 1.8px; stroke-linecap: round; stroke-linejoin: round; }
.wg .wg-line { fill: none; stroke-width: 1.6px; }
.wg .wg-unmet .wg-line { stroke-dasharray: 6 4; }
.wg .wg-pending .wg-line { stroke-dasharray: 0.1 4.5; stroke-linecap: round; stroke-width: 2px; }
.wg .wg-back .wg-line { stroke-dasharray: 12 4; }
.wg .wg-child .wg-line, .wg .wg-tail { stroke-width: 1.1px; }
";

fn colours(ground: &Ground, states: &[State]) -> String {
    let [card, border, text, muted, line, faint] =
        [ground.card, ground.border, ground.text, ground.muted, ground.line, ground.faint].map(|colour| colour.hex());
    let [wrong, back] = [State::Failed, State::Suspended].map(|state| ground.ink(state).hex());
    let mut rules = format!(
        "\
.wg .wg-card {{ fill: {card}; stroke: {border}; }}
.wg text {{ fill: {text}; }}
.wg .wg-muted {{ fill: {muted}; }}
.wg .wg-label {{ fill: {muted}; stroke: {card}; }}
.wg .wg-many {{ fill: {card}; stroke: {faint}; }}
.wg .wg-mark, .wg .wg-tail {{ fill: {card}; }}
.wg .wg-sign {{ stroke: {card}; }}
.wg .wg-full {{ fill: {card}; }}
"
    );
    for (look, ink) in [("met", &line), ("unmet", &wrong), ("pending", &faint), ("child", &faint), ("back", &back)] {
        rules.push_str(&format!(
            ".wg .wg-{look} .wg-line, .wg .wg-{look} .wg-mark, .wg .wg-{look} .wg-tail {{ stroke: {ink}; }}\n\
             .wg .wg-{look} .wg-head {{ fill: {ink}; }}\n"
        ));
    }
    for state in states {
        let (word, ink, fill) = (state.word(), ground.ink(*state).hex(), ground.fill(*state).hex());
        rules.push_str(&format!(
            ".wg .wg-{word} .wg-box {{ fill: {fill}; stroke: {ink}; }}\n\
             .wg .wg-{word} .wg-ink {{ fill: {ink}; }}\n\
             .wg .wg-{word} .wg-rim {{ stroke: {ink}; }}\n"
        ));
    }
    rules
}
