//! How high each slot stands. Every slot is drawn to the mean height of its neighbours, and a layer is solved as a whole:
//! slots that would overlap move together as a block, which is the best place for all of them in the sense of least
//! squares. Whole pixels throughout, so that it comes out the same everywhere.

use super::rows::{Rows, Slot};
use std::collections::BTreeMap;

/// Sweeps to the right and to the left. More change nothing that an eye sees.
const SWEEPS: usize = 10;
/// How much a long wire wants to be straight, and two boxes to be level, beside a box that wants to be level with a bend.
const STRAIGHT: i64 = 8;
const LEVEL: i64 = 4;

/// The middle of each slot. `heights` says how much room each takes, with the room around it.
pub fn levels(rows: &Rows, heights: &[i64]) -> Vec<i64> {
    let mut levels = vec![0; rows.slots.len()];
    for layer in &rows.order {
        let mut top = 0;
        for slot in layer {
            levels[*slot] = top + heights[*slot] / 2;
            top += heights[*slot];
        }
    }
    for sweep in 0..SWEEPS {
        // The last two look to both sides, so that neither end of a wire has the last word.
        let both = sweep + 2 >= SWEEPS;
        for layer in &rows.order {
            settle(rows, layer, heights, &mut levels, true, both);
        }
        for layer in rows.order.iter().rev() {
            settle(rows, layer, heights, &mut levels, both, true);
        }
    }
    close_up(rows, heights, &mut levels);
    levels
}

/// Moves every island up as far as it can go as a whole, the topmost first: nothing drew them to each other, so there may
/// be gaps between them. The topmost ends at the top of the page.
fn close_up(rows: &Rows, heights: &[i64], levels: &mut [i64]) {
    let mut islands: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (slot, island) in rows.islands().into_iter().enumerate() {
        islands.entry(island).or_default().push(slot);
    }
    let mut taken = vec![0; rows.order.len()];
    for slots in islands.into_values() {
        let gap = |slot: &usize| levels[*slot] - heights[*slot] / 2 - taken[rows.layer[*slot]];
        let gap = slots.iter().map(gap).min().unwrap_or(0);
        for slot in slots {
            levels[slot] -= gap;
            let bottom = &mut taken[rows.layer[slot]];
            *bottom = (*bottom).max(levels[slot] - heights[slot] / 2 + heights[slot]);
        }
    }
}

/// A run of slots that touch. `sum` is of where each member would have the first one be, by weight.
struct Block {
    first: usize,
    sum: i64,
    weight: i64,
}

impl Block {
    fn level(&self) -> i64 {
        self.sum.div_euclid(self.weight)
    }
}

fn settle(rows: &Rows, layer: &[usize], heights: &[i64], levels: &mut [i64], before: bool, after: bool) {
    // Measured from where each slot would be if all stood as close as they may: then they only must not go down in order.
    let mut offsets = Vec::with_capacity(layer.len());
    let mut blocks: Vec<Block> = Vec::new();
    let mut offset = 0;
    for (at, slot) in layer.iter().enumerate() {
        if at > 0 {
            offset += heights[layer[at - 1]] - heights[layer[at - 1]] / 2 + heights[*slot] / 2;
        }
        offsets.push(offset);
        let (sum, weight) = wish(rows, *slot, levels, before, after);
        blocks.push(Block { first: at, sum: sum - offset * weight, weight });
        while let [.., upper, lower] = blocks.as_slice()
            && lower.level() <= upper.level()
        {
            let lower = blocks.pop().expect("level: a block was just compared");
            let upper = blocks.last_mut().expect("level: a block was just compared");
            upper.sum += lower.sum;
            upper.weight += lower.weight;
        }
    }
    let ends: Vec<usize> = blocks.iter().skip(1).map(|block| block.first).chain([layer.len()]).collect();
    for (block, end) in blocks.iter().zip(ends) {
        for at in block.first..end {
            levels[layer[at]] = block.level() + offsets[at];
        }
    }
}

/// Where a slot would like to be, as a weighted sum. One without neighbours on that side would like to stay.
fn wish(rows: &Rows, slot: usize, levels: &[i64], before: bool, after: bool) -> (i64, i64) {
    let bend = |slot: usize| matches!(rows.slots[slot], Slot::Bend(_));
    let sides = [before.then_some(&rows.before[slot]), after.then_some(&rows.after[slot])];
    let (mut sum, mut weight) = (0, 0);
    for other in sides.into_iter().flatten().flatten() {
        let pull = match (bend(slot), bend(*other)) {
            (true, true) => STRAIGHT,
            (false, false) => LEVEL,
            _ => 1,
        };
        sum += levels[*other] * pull;
        weight += pull;
    }
    if weight == 0 { (levels[slot], 1) } else { (sum, weight) }
}
