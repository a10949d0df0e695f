//! Keeps a store that is away from filling the log: one line a second, with the number of those it stands for.

use weft_core::Time;

const PAUSE_MS: u64 = 1_000;

#[derive(Default)]
pub struct Complaints {
    silent_until: Option<Time>,
    held_back: u64,
}

impl Complaints {
    /// For how many complaints to speak now; `None` if one was voiced a moment ago.
    pub fn voice(&mut self, clock: Time) -> Option<u64> {
        self.held_back += 1;
        if self.silent_until.is_some_and(|until| clock < until) {
            return None;
        }
        self.silent_until = Some(clock + PAUSE_MS);
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_stands_for_all_of_them() {
        let mut complaints = Complaints::default();
        let voiced: Vec<_> = [0, 10, 999, 1_000, 1_001, 5_000].map(|ms| complaints.voice(Time::from_ms(ms))).into();
        assert_eq!(voiced, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
