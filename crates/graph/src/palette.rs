//! A colour for every state, on light and on dark ground. Text in it can be read on the ground it is drawn on.

use crate::state::State;

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour(pub u32);

impl Colour {
    pub fn hex(self) -> String {
        format!("#{:06x}", self.0)
    }

    /// So many parts in a hundred of this colour on the ground.
    fn over(self, ground: Colour, percent: u32) -> Colour {
        let mix = |shift: u32| {
            let (own, under) = (self.0 >> shift & 0xff, ground.0 >> shift & 0xff);
            ((own * percent + under * (100 - percent) + 50) / 100) << shift
        };
        Colour(mix(16) | mix(8) | mix(0))
    }
}

/// The colours of a picture that do not depend on a state.
#[derive(Clone, Copy, Debug)]
pub struct Ground {
    pub card: Colour,
    pub border: Colour,
    pub text: Colour,
    pub muted: Colour,
    /// Lines of edges that are met and of those that are pending.
    pub line: Colour,
    pub faint: Colour,
    tint: u32,
}

pub const LIGHT: Ground = Ground {
    card: Colour(0xffffff),
    border: Colour(0xd0d7de),
    text: Colour(0x1f2328),
    muted: Colour(0x59636e),
    line: Colour(0x59636e),
    faint: Colour(0x818b98),
    tint: 7,
};

pub const DARK: Ground = Ground {
    card: Colour(0x0d1117),
    border: Colour(0x3d444d),
    text: Colour(0xf0f6fc),
    muted: Colour(0x9198a1),
    line: Colour(0x9198a1),
    faint: Colour(0x6e7681),
    tint: 14,
};

impl Ground {
    /// What is written and drawn in the colour of a state.
    pub fn ink(&self, state: State) -> Colour {
        let (light, dark) = inks(state);
        Colour(if self.card == LIGHT.card { light } else { dark })
    }

    /// What a box of a state is filled with.
    pub fn fill(&self, state: State) -> Colour {
        self.ink(state).over(self.card, self.tint)
    }
}

fn inks(state: State) -> (u32, u32) {
    match state {
        State::Waiting => (0x59636e, 0x9198a1),
        State::Delayed => (0x8a6100, 0xd29922),
        State::RateLimited => (0xb54700, 0xf0883e),
        State::WaitingChildren => (0x0e6d74, 0x39c5cf),
        State::Held => (0x7a4b1c, 0xd0a070),
        State::Active => (0x0860ca, 0x58a6ff),
        State::Suspended => (0x7a45d6, 0xbc8cff),
        State::Completed => (0x187733, 0x3fb950),
        State::Failed => (0xc21f2a, 0xff6a61),
        State::Cancelled => (0x454c54, 0xb1bac4),
        State::Expired => (0xb0307f, 0xf778ba),
        State::Skipped => (0x667080, 0x8b96a3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The contrast of two colours as WCAG defines it.
    fn contrast(one: Colour, other: Colour) -> f64 {
        let luminance = |colour: Colour| {
            let part = |shift: u32, weight: f64| {
                let part = f64::from(colour.0 >> shift & 0xff) / 255.0;
                weight * if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
            };
            part(16, 0.2126) + part(8, 0.7152) + part(0, 0.0722) + 0.05
        };
        let (one, other) = (luminance(one), luminance(other));
        one.max(other) / one.min(other)
    }

    #[test]
    fn text_can_be_read_on_light_and_on_dark_ground() {
        for ground in [LIGHT, DARK] {
            for state in State::ALL {
                let (ink, fill) = (ground.ink(state), ground.fill(state));
                for (text, under) in [(ink, fill), (ink, ground.card), (ground.text, fill), (ground.muted, fill)] {
                    let contrast = contrast(text, under);
                    assert!(contrast >= 4.5, "{state:?}: {} on {} is {contrast:.2}", text.hex(), under.hex());
                }
            }
        }
    }

    #[test]
    fn every_state_has_a_colour_of_its_own() {
        for ground in [LIGHT, DARK] {
            let inks: BTreeSet<u32> = State::ALL.map(|state| ground.ink(state).0).into();
            assert_eq!(inks.len(), State::ALL.len());
        }
    }
}
