//! What is submitted in a seed, and when: drawn before it starts.

use crate::dice::Dice;
use crate::scenario::{Density, Settings};
use weft_core::limits::IDEMPOTENCY_TTL_MS_MIN;
use weft_core::record::execution::{Backoff, Jitter, Policy, Retry};
use weft_core::text::{Capabilities, Text};
use weft_engine::Submission;

use crate::checker::Offer;

/// Tag of an execution whose worker spawns children; the value says how many.
pub const CHILDREN_TAG: &str = "children";

const KINDS: [&str; 3] = ["mail", "report", "sync"];
const CAPABILITIES: [&str; 2] = ["eu", "gpu"];

/// A submission to be.
pub struct Planned {
    /// After the start of the seed.
    pub at_ms: u64,
    pub submission: Submission,
    /// It is sent again after so long, to be recognised as a duplicate.
    pub again_after_ms: Option<u64>,
}

/// Everything that clients submit, in order of time.
pub fn plan(settings: &Settings) -> Vec<Planned> {
    let mut dice = Dice::new(settings.seed, "workload", 0);
    let bursts: Vec<u64> = (0..dice.between(1, 4)).map(|_| dice.below(settings.active_ms / 2)).collect();
    let mut planned: Vec<Planned> = (0..settings.executions)
        .map(|number| {
            let at_ms = match settings.density {
                Density::Sparse => (number * 10_000 + dice.below(10_000)).min(settings.active_ms - 5_000),
                Density::Dense => number * 10 + dice.below(20),
                Density::Bursts => *dice.pick(&bursts).unwrap_or(&0) + dice.below(20),
            };
            let submission = submission(settings, &mut dice, number);
            let again_after_ms = (submission.idempotency_key.is_some() && dice.chance(250)).then(|| dice.below(20_000));
            Planned { at_ms, submission, again_after_ms }
        })
        .collect();
    planned.sort_by_key(|planned| planned.at_ms);
    planned
}

pub fn lane(number: usize) -> Text {
    format!("lane{number}").into()
}

fn submission(settings: &Settings, dice: &mut Dice, number: u64) -> Submission {
    let mut submission = bare(settings, dice);
    if dice.chance(300) {
        let longest = if dice.chance(300) { 60_000 } else { 3_000 };
        submission = submission.delay_ms(dice.below(longest));
    }
    if dice.chance(200) {
        let start_ms = match submission.start {
            Some(weft_core::command::When::InMs(ms)) => ms,
            _ => 0,
        };
        submission = submission.deadline_in_ms(start_ms + dice.between(200, 20_000));
    }
    match dice.weighted(&[(4, 0), (3, 1), (2, 2), (1, 3)]) {
        0 => submission = submission.idempotency_key(format!("key {number}").into_bytes()),
        1 => submission = submission.request_id(format!("request {number}").into_bytes()),
        2 => {
            let key = format!("both {number}").into_bytes();
            submission = submission.idempotency_key(key.clone()).request_id(key);
        }
        _ => {}
    }
    if dice.chance(120) {
        submission = submission.tag(CHILDREN_TAG, dice.between(1, 4).to_string());
    }
    if dice.chance(100) {
        submission = submission.concurrency_key(format!("ck {}", dice.below(3)).into_bytes());
    }
    submission
}

/// A submission as a worker spawns it: nothing but work to do.
pub fn child(settings: &Settings, dice: &mut Dice) -> Submission {
    bare(settings, dice)
}

fn bare(settings: &Settings, dice: &mut Dice) -> Submission {
    let kind = *dice.pick(&KINDS).unwrap_or(&KINDS[0]);
    let mut submission = Submission::new(kind)
        .lane(lane(dice.below(settings.lanes as u64) as usize))
        .priority(dice.weighted(&[(3, 0), (1, 1), (1, 9)]))
        .policy(policy(dice));
    for capability in CAPABILITIES {
        if dice.chance(150) {
            submission = submission.needs(capability);
        }
    }
    submission
}

fn policy(dice: &mut Dice) -> Policy {
    let backoff = match dice.chance(500) {
        true => Backoff::Fixed { delay_ms: dice.below(3_000) },
        false => Backoff::Exponential {
            initial_ms: dice.between(1, 1_000),
            max_ms: dice.between(1_000, 10_000),
            multiplier_thousandths: dice.between(1_000, 3_000) as u32,
        },
    };
    let retry = Retry {
        max_retries: dice.below(4) as u32,
        backoff,
        jitter: [Jitter::None, Jitter::Equal, Jitter::Full][dice.below(3) as usize],
        retry_on: Vec::new(),
        never_on: if dice.chance(100) { vec!["fatal".into()] } else { Vec::new() },
    };
    Policy {
        retry,
        attempt_timeout_ms: dice.chance(250).then(|| dice.between(200, 8_000)),
        max_reclaims: dice.weighted(&[(1, 0), (1, 1), (2, 5), (4, 100)]),
        max_replays: dice.below(4) as u32,
        retention_ms: dice.weighted(&[
            (1, Some(0)),
            (1, Some(2_000)),
            (2, Some(60_000)),
            (4, Some(24 * 3_600_000)),
            (1, None),
        ]),
        idempotency_ttl_ms: dice.between(IDEMPOTENCY_TTL_MS_MIN, 600_000),
    }
}

/// What worker number `number` asks for in every claim.
pub fn offer(settings: &Settings, dice: &mut Dice) -> Offer {
    let all = lanes(settings);
    let mut some: Vec<Text> = all.iter().filter(|_| dice.chance(700)).cloned().collect();
    if some.is_empty() {
        some.push(all[0].clone());
    }
    let kinds =
        dice.chance(250).then(|| KINDS[..dice.between(1, 3) as usize].iter().map(|kind| Text::from(*kind)).collect());
    let tokens: Vec<&str> = CAPABILITIES.into_iter().filter(|_| dice.chance(600)).collect();
    Offer { lanes: some, kinds, capabilities: capabilities(&tokens) }
}

/// Takes whatever there is.
pub fn offer_everything(settings: &Settings) -> Offer {
    Offer { lanes: lanes(settings), kinds: None, capabilities: capabilities(&CAPABILITIES) }
}

fn lanes(settings: &Settings) -> Vec<Text> {
    (0..settings.lanes).map(lane).collect()
}

fn capabilities(tokens: &[&str]) -> Capabilities {
    Capabilities::new(tokens).expect("workload: the tokens are short printable words")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn ri_18_the_same_seed_plans_the_same() {
        let scenario = Scenario::named("mixed").expect("listed");
        for seed in 0..30 {
            let settings = Settings::draw(&scenario, seed);
            let text = |planned: Vec<Planned>| -> Vec<String> {
                planned.iter().map(|planned| format!("{} {:?}", planned.at_ms, planned.submission)).collect()
            };
            assert_eq!(text(plan(&settings)), text(plan(&settings)));
            assert!(plan(&settings).iter().all(|planned| planned.at_ms < settings.active_ms));
        }
    }
}
