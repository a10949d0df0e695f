//! What an acknowledged commit survives, as the live settings of the servers have it.

use crate::options::{Address, Options};
use crate::primary::Wait;
use std::collections::BTreeMap;
use weft_store::{Durability, Level};

/// What commits have to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The level that holds, which is lower than the one asked for if loss was accepted.
    pub level: Level,
    pub verified: bool,
    /// Per primary, where all replicas of its shard are meant.
    replicas: BTreeMap<Address, u32>,
    /// For all of them if a number was given; else for a primary that was not there at the start.
    otherwise: u32,
    all: bool,
}

impl Needs {
    /// `counted` is how many replicas each primary has.
    pub fn new(options: &Options, level: Level, verified: bool, counted: BTreeMap<Address, u32>) -> Self {
        let most = counted.values().copied().max().unwrap_or(0).max(1);
        let least = counted.values().copied().min().unwrap_or(0);
        match options.replicas {
            Some(number) => {
                let all = number >= least;
                Self { level, verified, replicas: BTreeMap::new(), otherwise: number, all }
            }
            None => Self { level, verified, replicas: counted, otherwise: most, all: true },
        }
    }

    pub fn wait(&self, primary: &Address) -> Wait {
        let replicas = self.replicas.get(primary).copied().unwrap_or(self.otherwise).max(1);
        match self.level {
            Level::Memory | Level::Local => Wait::Nothing,
            Level::Replicated => Wait::Received(replicas),
            Level::Strict => Wait::Fsynced(replicas),
        }
    }

    pub fn waits(&self) -> bool {
        self.level >= Level::Replicated
    }

    pub fn describe(&self) -> Durability {
        let fsynced = "it is in the append-only file of its primary and fsynced";
        let failover = "what a promoted replica had not received, when the primary is lost for good";
        let own = |sentences: &[&str]| sentences.iter().map(|sentence| (*sentence).to_owned()).collect();
        let (acknowledged, can_lose) = match self.level {
            Level::Memory => (
                "it is in the memory of its primary".to_owned(),
                own(&["everything since the last snapshot, when the server stops"]),
            ),
            Level::Local => (fsynced.to_owned(), own(&[failover])),
            Level::Replicated => {
                let mut can_lose: Vec<String> = own(&[
                    "what replicas had not fsynced, if all servers of a shard lose power and a replica is promoted",
                ]);
                if !self.all {
                    can_lose.push(
                        "what the promoted replica had not received, if it is not one of those that had".to_owned(),
                    );
                }
                (format!("{fsynced}, and {} received it", self.how_many()), can_lose)
            }
            Level::Strict => (format!("{fsynced}, and {} fsynced it", self.how_many()), Vec::new()),
        };
        Durability { level: self.level, acknowledged, can_lose, verified: self.verified }
    }

    fn how_many(&self) -> String {
        match self.replicas.is_empty() {
            true if self.otherwise == 1 => "1 replica has".to_owned(),
            true => format!("{} replicas have", self.otherwise),
            false => "all replicas of the shard have".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Mode;

    #[test]
    fn rl_32_all_replicas_of_the_shard_unless_a_number_was_given() {
        let [a, b, c] = [1, 2, 3].map(|port| Address::new("localhost", port));
        let counted = BTreeMap::from([(a.clone(), 2), (b.clone(), 1)]);
        let mut options = Options::new(Mode::Cluster, vec![a.clone()]);
        let needs = Needs::new(&options, Level::Replicated, true, counted.clone());
        let waits = [&a, &b, &c].map(|address| needs.wait(address));
        assert_eq!(waits, [2, 1, 2].map(Wait::Received), "a primary that came later needs what the largest shard has");
        assert_eq!(needs.describe().can_lose.len(), 1);

        options.replicas = Some(1);
        let needs = Needs::new(&options, Level::Strict, true, counted);
        assert_eq!(needs.wait(&a), Wait::Fsynced(1));
        let two_each = BTreeMap::from([(a.clone(), 2)]);
        let needs = Needs::new(&options, Level::Replicated, true, two_each);
        assert_eq!(needs.describe().can_lose.len(), 2, "fewer than all are named in what can be lost");
        assert_eq!(Needs::new(&options, Level::Local, true, BTreeMap::new()).wait(&a), Wait::Nothing);
    }
}
