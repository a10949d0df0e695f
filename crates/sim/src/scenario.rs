//! What a run is about: a named mix of faults, and the settings that a seed draws from it.
//!
//! Everything about a seed is decided here and in the generators that its number seeds; nothing comes from outside.

use crate::dice::Dice;
use std::collections::BTreeSet;
use std::fmt;
use weft_store::faulty::Faults;

/// A family of faults that can be switched off as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Trouble {
    /// Commits that are refused: conflicts and not applied.
    Refusals,
    /// Commits whose outcome is unknown, late or doubled.
    Unknowns,
    /// Reads, scans and resolves that fail, and pages cut short.
    Reads,
    /// Wake-ups that are lost, doubled or astray.
    Wakes,
    /// Nodes that crash, and stand still.
    Nodes,
    /// Clocks that are wrong.
    Clocks,
    /// Calls and replies that are lost, late or doubled.
    Calls,
    /// Workers that die, stall and lie.
    Workers,
    /// Operators who hold, revoke, force, purge and replay.
    Operators,
    /// One partition at a time that gives no answer.
    Outages,
}

impl Trouble {
    pub const ALL: [Trouble; 10] = [
        Trouble::Refusals,
        Trouble::Unknowns,
        Trouble::Reads,
        Trouble::Wakes,
        Trouble::Nodes,
        Trouble::Clocks,
        Trouble::Calls,
        Trouble::Workers,
        Trouble::Operators,
        Trouble::Outages,
    ];

    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A named mix of faults, with what a shrink has taken out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    pub name: &'static str,
    /// Families of faults that are off.
    pub off: BTreeSet<Trouble>,
    /// At most so many executions are submitted.
    pub executions_max: Option<u64>,
    /// Fewer nodes and longer leases than chance would give: what the name of the scenario is about happens often.
    focus: Focus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    Everything,
    Nodes,
    Commits,
    Leases,
    Alone,
    Losses,
}

impl Scenario {
    pub const NAMES: [&'static str; 7] = ["mixed", "calm", "crashes", "commits", "leases", "alone", "losses"];

    /// `None` if there is no scenario of that name.
    pub fn named(name: &str) -> Option<Self> {
        use Trouble::*;
        let (name, focus, off): (_, _, &[Trouble]) = match name {
            "mixed" => ("mixed", Focus::Everything, &[]),
            "calm" => ("calm", Focus::Everything, &[Refusals, Unknowns, Reads, Wakes, Nodes, Clocks, Calls, Outages]),
            "crashes" => ("crashes", Focus::Nodes, &[Refusals, Reads, Outages]),
            "commits" => ("commits", Focus::Commits, &[Nodes, Clocks, Outages]),
            "leases" => ("leases", Focus::Leases, &[Unknowns, Reads, Operators, Outages]),
            "alone" => ("alone", Focus::Alone, &[Unknowns, Wakes, Outages]),
            "losses" => ("losses", Focus::Losses, &[Outages]),
            _ => return None,
        };
        Some(Self { name, off: off.iter().copied().collect(), executions_max: None, focus })
    }

    pub fn has(&self, trouble: Trouble) -> bool {
        !self.off.contains(&trouble)
    }

    /// The same scenario without one more family of faults.
    pub fn without(&self, trouble: Trouble) -> Self {
        let mut less = self.clone();
        less.off.insert(trouble);
        less
    }

    /// The same scenario with fewer executions.
    pub fn with_at_most(&self, executions: u64) -> Self {
        Self { executions_max: Some(executions), ..self.clone() }
    }
}

/// How the commands of a seed are spread over time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Density {
    /// One submission in about ten seconds.
    Sparse,
    /// A hundred a second.
    Dense,
    /// Many at once, then silence.
    Bursts,
}

impl Density {
    pub const fn name(self) -> &'static str {
        match self {
            Density::Sparse => "sparse",
            Density::Dense => "dense",
            Density::Bursts => "bursts",
        }
    }
}

/// How calls between the outside and a node go wrong, in calls per thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CallFaults {
    /// The call never arrives.
    pub lost: u64,
    /// The call is carried out and its reply is lost.
    pub reply_lost: u64,
    /// The caller goes away in the middle of it.
    pub broken: u64,
    /// The call arrives twice.
    pub doubled: u64,
    /// Most time it takes one way.
    pub latency_ms: u64,
}

/// Everything a seed decides before it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    pub density: Density,
    pub nodes: usize,
    pub workers: usize,
    pub partitions: u16,
    /// The store is inside the process of its only node: it is exclusive, and every commit has a known outcome.
    pub exclusive: bool,
    pub executions: u64,
    pub lanes: usize,
    /// Time with faults, in simulated milliseconds.
    pub active_ms: u64,
    pub faults: Faults,
    /// Wake-ups never arrive, not even after healing.
    pub deaf: bool,
    pub calls: CallFaults,
    /// Mean time between two crashes, and between two pauses, of any node; 0 for never.
    pub crash_every_ms: u64,
    pub pause_every_ms: u64,
    /// Mean time between two moments at which a partition goes back in time; 0 for never.
    pub loss_every_ms: u64,
    /// Mean time between two outages of a partition; 0 for never.
    pub outage_every_ms: u64,
    /// How wrong a node's clock may be, and how much it may drift, in thousandths.
    pub skew_ms: u64,
    pub drift_permille: u64,
    pub lease_ms: (u64, u64),
    /// Misbehaviour of workers, in executions per thousand.
    pub bad_worker: u64,
    /// Mean time between two acts of clients and operators; 0 for never.
    pub steer_every_ms: u64,
    /// Bytes of cache per node: small ones forget all the time.
    pub cache_bytes: usize,
}

impl Settings {
    /// Draws the settings of a seed.
    pub fn draw(scenario: &Scenario, seed: u64) -> Self {
        let mut dice = Dice::new(seed, "settings", 0);
        let density = [Density::Sparse, Density::Dense, Density::Bursts][(seed % 3) as usize];
        let focus = scenario.focus;
        let drawn = dice.between(1, 120);
        let executions = drawn.min(scenario.executions_max.unwrap_or(u64::MAX));
        let submit_ms = match density {
            Density::Sparse => executions * 10_000,
            Density::Dense => executions * 10,
            Density::Bursts => 60_000,
        };
        let least_nodes = if focus == Focus::Leases { 2 } else { 1 };
        let mut settings = Self {
            seed,
            density,
            nodes: dice.between(least_nodes, 4) as usize,
            workers: dice.between(1, 8) as usize,
            partitions: *dice.pick(&[1, 1, 2, 3, 4, 8]).unwrap_or(&1),
            exclusive: focus == Focus::Alone,
            executions,
            lanes: dice.between(1, 3) as usize,
            active_ms: submit_ms.min(240_000) + dice.between(20_000, 60_000),
            faults: Faults {
                before_ms: (0, dice.between(0, 8)),
                after_ms: (0, dice.between(0, 8)),
                ..Faults::default()
            },
            deaf: false,
            calls: CallFaults { latency_ms: dice.between(0, 20), ..CallFaults::default() },
            crash_every_ms: 0,
            pause_every_ms: 0,
            loss_every_ms: 0,
            outage_every_ms: 0,
            skew_ms: 0,
            drift_permille: 0,
            lease_ms: if focus == Focus::Leases { (100, 1_500) } else { (200, dice.between(400, 20_000)) },
            bad_worker: 0,
            steer_every_ms: 0,
            cache_bytes: if dice.chance(200) { 4 << 10 } else { 8 << 20 },
        };
        settings.draw_store_faults(scenario, &mut dice);
        settings.draw_world_faults(scenario, &mut dice);
        if settings.exclusive {
            settings.stay_alone();
        }
        if focus == Focus::Losses {
            settings.lose(&mut dice);
        }
        // With fewer partitions most calls of the seed would fail.
        if settings.partitions > 2 && scenario.has(Trouble::Outages) && dice.chance(500) {
            settings.outage_every_ms = dice.between(2_000, 30_000);
        }
        settings
    }

    fn draw_store_faults(&mut self, scenario: &Scenario, dice: &mut Dice) {
        let most = if scenario.focus == Focus::Commits { 120 } else { 60 };
        // In half of the seeds a kind of fault does not happen at all, so that kinds also meet alone.
        let mut rate = |trouble: Trouble, most: u64| {
            let (on, rate) = (dice.chance(500), dice.between(1, most));
            if on && scenario.has(trouble) { rate as u16 } else { 0 }
        };
        let faults = &mut self.faults;
        faults.commit_conflict = rate(Trouble::Refusals, most);
        faults.commit_not_applied = rate(Trouble::Refusals, most / 2);
        faults.commit_unknown_applied = rate(Trouble::Unknowns, 2 * most);
        faults.commit_unknown_lost = rate(Trouble::Unknowns, most);
        faults.commit_late = rate(Trouble::Unknowns, most);
        faults.commit_twice = rate(Trouble::Unknowns, most / 2);
        faults.resolve_error = rate(Trouble::Unknowns, 200);
        faults.resolve_unknown = rate(Trouble::Unknowns, 200);
        faults.read_error = rate(Trouble::Reads, most / 2);
        faults.page_cut = rate(Trouble::Reads, 200);
        faults.slow = rate(Trouble::Reads, most / 2);
        faults.wake_lost = rate(Trouble::Wakes, 500);
        faults.wake_doubled = rate(Trouble::Wakes, 100);
        faults.wake_astray = rate(Trouble::Wakes, 100);
        faults.slow_ms = (10, dice.between(20, 3_000));
        faults.late_ms = (1, dice.between(2, 4_000));
        self.deaf = dice.chance(150) && scenario.has(Trouble::Wakes);
        if self.deaf {
            (faults.wake_lost, faults.wake_doubled, faults.wake_astray) = (1000, 0, 0);
        }
    }

    /// One node and nobody else who commits. It compares its clock with the store's every 30 s, and both tick in one
    /// machine: what they drift apart in between stays below what a lease or a timer would notice.
    fn stay_alone(&mut self) {
        self.nodes = 1;
        self.faults.commit_conflict = 0;
        self.drift_permille = self.drift_permille.min(1);
    }

    /// A store that loses commits. No conflict is injected: a real store answers with one only if it still has the commit
    /// that the batch is built on. No node is paused either, so that none resumes with an answer from before the loss.
    fn lose(&mut self, dice: &mut Dice) {
        self.loss_every_ms = dice.between(500, 20_000);
        self.faults.commit_conflict = 0;
        self.pause_every_ms = 0;
    }

    fn draw_world_faults(&mut self, scenario: &Scenario, dice: &mut Dice) {
        let mut draw = |trouble: Trouble, chance: u64, least: u64, most: u64| {
            let (on, value) = (dice.chance(chance), dice.between(least, most));
            if on && scenario.has(trouble) { value } else { 0 }
        };
        let (chance, most) = match scenario.focus {
            Focus::Nodes => (1000, 15_000),
            // No other node answers while the only one is down.
            Focus::Alone => (1000, 60_000),
            _ => (400, 60_000),
        };
        self.crash_every_ms = draw(Trouble::Nodes, chance, 4_000, most);
        self.pause_every_ms = draw(Trouble::Nodes, chance / 2, 2_000, most);
        self.skew_ms = draw(Trouble::Clocks, 500, 1, 600_000);
        self.drift_permille = draw(Trouble::Clocks, 300, 1, 50);
        self.calls.lost = draw(Trouble::Calls, 500, 1, 60);
        self.calls.reply_lost = draw(Trouble::Calls, 700, 1, 120);
        self.calls.broken = draw(Trouble::Calls, 500, 1, 60);
        self.calls.doubled = draw(Trouble::Calls, 500, 1, 60);
        let least = if scenario.focus == Focus::Leases { 400 } else { 0 };
        self.bad_worker = draw(Trouble::Workers, 900, least, 600);
        let steer = match self.density {
            Density::Sparse => (1_000, 10_000),
            Density::Dense | Density::Bursts => (50, 1_500),
        };
        self.steer_every_ms = draw(Trouble::Operators, 850, steer.0, steer.1);
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} with {} nodes, {} workers, {} partitions, {} executions, {} lanes, {} s",
            self.density.name(),
            self.nodes,
            self.workers,
            self.partitions,
            self.executions,
            self.lanes,
            self.active_ms / 1000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_a_name_and_draws_within_bounds() {
        for name in Scenario::NAMES {
            let scenario = Scenario::named(name).expect("listed");
            for seed in 0..300 {
                let settings = Settings::draw(&scenario, seed);
                assert!((1..=4).contains(&settings.nodes) && (1..=8).contains(&settings.workers));
                assert!((1..=8).contains(&settings.partitions) && (1..=120).contains(&settings.executions));
            }
        }
        assert_eq!(Scenario::named("none"), None);
    }

    #[test]
    fn alone_has_one_node_and_no_fault_of_a_network_to_the_store() {
        let scenario = Scenario::named("alone").expect("listed");
        for seed in 0..100 {
            let settings = Settings::draw(&scenario, seed);
            let Faults { commit_conflict, commit_unknown_applied, commit_unknown_lost, .. } = settings.faults;
            let Faults { commit_late, commit_twice, resolve_error, resolve_unknown, wake_lost, .. } = settings.faults;
            assert_eq!((commit_conflict, commit_unknown_applied, commit_unknown_lost), (0, 0, 0));
            assert_eq!((commit_late, commit_twice, resolve_error, resolve_unknown, wake_lost), (0, 0, 0, 0, 0));
            assert!(settings.exclusive && settings.nodes == 1 && settings.drift_permille <= 1);
            assert!(settings.crash_every_ms > 0);
        }
    }

    #[test]
    fn calm_has_no_faults() {
        let scenario = Scenario::named("calm").expect("listed");
        for seed in 0..100 {
            let Settings { faults, calls, crash_every_ms, skew_ms, outage_every_ms, .. } =
                Settings::draw(&scenario, seed);
            assert_eq!((faults.commit_conflict, faults.commit_late, faults.read_error, faults.wake_lost), (0, 0, 0, 0));
            assert_eq!((calls.lost, calls.doubled, crash_every_ms, skew_ms, outage_every_ms), (0, 0, 0, 0, 0));
        }
    }
}
