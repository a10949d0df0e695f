//! Seeded chance, one generator per concern, so that a change in one part of a run does not shift the others.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

pub struct Dice(ChaCha8Rng);

impl Dice {
    /// The generator of `concern` number `number` in the run of `seed`.
    pub fn new(seed: u64, concern: &str, number: u64) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(seed.to_be_bytes());
        hasher.update(number.to_be_bytes());
        hasher.update(concern.as_bytes());
        let digest: [u8; 32] = hasher.finalize().into();
        Self(ChaCha8Rng::from_seed(digest))
    }

    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 0 to `bound` - 1; 0 if there is nothing below the bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }

    /// `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// True `permille` times in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len() as u64) as usize)
    }

    /// One of the choices, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, choices: &[(u32, T)]) -> T {
        let total: u32 = choices.iter().map(|(weight, _)| weight).sum();
        let mut roll = self.below(u64::from(total)) as u32;
        for (weight, choice) in choices {
            if roll < *weight {
                return *choice;
            }
            roll -= weight;
        }
        choices[choices.len() - 1].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ri_18_same_seed_and_concern_give_the_same_numbers() {
        let draw = |seed, concern, number| {
            let mut dice = Dice::new(seed, concern, number);
            [dice.number(), dice.between(3, 9), dice.below(1)]
        };
        assert_eq!(draw(7, "worker", 1), draw(7, "worker", 1));
        assert_ne!(draw(7, "worker", 1), draw(7, "worker", 2));
        assert_ne!(draw(7, "worker", 1), draw(7, "client", 1));
        assert_ne!(draw(7, "worker", 1), draw(8, "worker", 1));
    }

    #[test]
    fn weights_are_kept() {
        let mut dice = Dice::new(1, "weights", 0);
        let hits = (0..1000).filter(|_| dice.weighted(&[(1, 'a'), (0, 'b'), (3, 'c')]) == 'a').count();
        assert!((200..300).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| dice.weighted(&[(1, 'a'), (0, 'b'), (3, 'c')]) != 'b'));
    }
}
