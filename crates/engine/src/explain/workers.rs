//! Which worker processes could take an execution, and what the others lack.

use super::NoWorker;
use crate::hub::Seen;
use crate::request::ClaimSpec;
use crate::worker::{Ability, Taker};
use std::cmp::Reverse;
use weft_core::Time;
use weft_core::execution::check::{self, NotTaken, Want};
use weft_core::record::Execution;
use weft_core::text::Text;

/// The process of a claim that names the execution, for which lanes do not count.
pub fn claimer(spec: &ClaimSpec, execution: &Execution, now: Time) -> Taker {
    let seen = Seen { lanes: vec![execution.spec.lane.clone()], ..Seen::of(spec, now) };
    Taker::claiming(spec.instance.clone(), seen)
}

/// Those that fit it, whether or not they take work now.
pub fn fitting<'a>(execution: &'a Execution, takers: &'a [Taker]) -> impl Iterator<Item = &'a Taker> {
    takers.iter().filter(|taker| asks_for(execution, taker) && fits(execution, taker).is_ok())
}

/// Removes dead processes that could not take the execution even if they lived.
pub fn leave_out_dead(execution: &Execution, takers: &mut Vec<Taker>) {
    let fits = |taker: &Taker| asks_for(execution, taker) && fits(execution, taker).is_ok();
    takers.retain(|taker| taker.ability != Ability::Dead || fits(taker));
}

/// The process most likely to take the execution: of equally able ones, the one that lives for sure and was seen last.
pub fn best<'a>(execution: &'a Execution, takers: &'a [Taker], now: Time) -> Option<&'a Taker> {
    let order = |taker: &&Taker| (taker.ability, taker.is_doubtful(now), Reverse(taker.seen.at));
    fitting(execution, takers).min_by_key(order)
}

/// Why no process can take it; none if one can.
pub fn none(execution: &Execution, takers: &[Taker], now: Time) -> Option<NoWorker> {
    let Some(best) = best(execution, takers, now) else {
        return Some(nearest(execution, takers));
    };
    match best.ability {
        Ability::Free => None,
        Ability::Full => {
            let silent = best.is_doubtful(now).then(|| (best.instance.clone(), best.seen.at));
            Some(NoWorker::AllFull { silent })
        }
        Ability::Draining => Some(NoWorker::AllDraining),
        Ability::Dead => {
            let (last, seen_at, lost_at) = (best.instance.clone(), best.seen.at, best.lost_at);
            Some(NoWorker::AllDead { last, seen_at, lost_at })
        }
    }
}

/// What is wrong with those that come nearest to fitting.
fn nearest(execution: &Execution, takers: &[Taker]) -> NoWorker {
    let mut worst = NoWorker::NoneOnLane;
    let mut nearest: Option<(usize, Text)> = None;
    for taker in takers.iter().filter(|taker| asks_for(execution, taker)) {
        match fits(execution, taker) {
            Err(NotTaken::Capabilities) => {
                let missing = execution.spec.capabilities.missing_from(&taker.seen.capabilities);
                let missing: Vec<Text> = missing.map(Text::from).collect();
                let place = (missing.len(), taker.instance.clone());
                if nearest.as_ref().is_none_or(|known| place < *known) {
                    nearest = Some(place);
                    worst = NoWorker::MissingCapabilities { nearest: taker.instance.clone(), missing };
                }
            }
            _ if nearest.is_none() => worst = NoWorker::NoneForKind,
            _ => {}
        }
    }
    worst
}

fn asks_for(execution: &Execution, taker: &Taker) -> bool {
    taker.seen.lanes.contains(&execution.spec.lane)
}

/// The claim's own check, as far as it is about the worker.
fn fits(execution: &Execution, taker: &Taker) -> Result<(), NotTaken> {
    let (kinds, capabilities) = (taker.seen.kinds.as_deref(), &taker.seen.capabilities);
    check::fits(execution, &Want { namespace: &execution.spec.namespace, kinds, capabilities })
}
