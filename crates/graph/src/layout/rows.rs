//! What stands in each layer: the cells, and a bend for every wire that passes. Owns who is whose neighbour.

use super::fold::Folded;

/// Something that takes up room in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Cell(usize),
    /// A place where this wire passes a layer that it does not end in.
    Bend(usize),
}

#[derive(Debug)]
pub struct Rows {
    /// The cells first, by their places; then the bends.
    pub slots: Vec<Slot>,
    pub layer: Vec<usize>,
    /// Neighbours in the layer before and in the layer after.
    pub before: Vec<Vec<usize>>,
    pub after: Vec<Vec<usize>>,
    /// The bends of each wire, from left to right. A wire without a bend in some layer between its ends passes behind what
    /// stands there.
    pub bends: Vec<Vec<usize>>,
    /// The slots of each layer, from top to bottom.
    pub order: Vec<Vec<usize>>,
}

impl Rows {
    /// Short wires get their bends first, and no more than `bends_max` are made: a picture that needs more is a tangle
    /// whatever is done, and must not take all day.
    pub fn of(folded: &Folded, bends_max: usize) -> Self {
        let cells = folded.cells.len();
        let mut rows = Rows {
            slots: (0..cells).map(Slot::Cell).collect(),
            layer: folded.cells.iter().map(|cell| cell.layer).collect(),
            before: vec![Vec::new(); cells],
            after: vec![Vec::new(); cells],
            bends: vec![Vec::new(); folded.wires.len()],
            order: Vec::new(),
        };
        let length = |wire: usize| rows.layer[folded.wires[wire].to] - rows.layer[folded.wires[wire].from];
        let mut by_length: Vec<(usize, usize)> = (0..folded.wires.len()).map(|wire| (length(wire), wire)).collect();
        by_length.sort_unstable();
        let mut left = bends_max;
        for (length, wire) in by_length {
            let bends = length.saturating_sub(1);
            if length > 0 && bends <= left {
                left -= bends;
                rows.run(folded, wire);
            }
        }
        rows.order = rows.first_order(folded);
        rows
    }

    fn run(&mut self, folded: &Folded, wire: usize) {
        let (from, to) = (folded.wires[wire].from, folded.wires[wire].to);
        let mut last = from;
        for layer in self.layer[from] + 1..self.layer[to] {
            let bend = self.slots.len();
            self.slots.push(Slot::Bend(wire));
            self.layer.push(layer);
            self.before.push(Vec::new());
            self.after.push(Vec::new());
            self.bends[wire].push(bend);
            self.join(last, bend);
            last = bend;
        }
        self.join(last, to);
    }

    fn join(&mut self, from: usize, to: usize) {
        self.after[from].push(to);
        self.before[to].push(from);
    }

    /// Walks in depth from the cells in their order, so that what belongs together begins together, and follows wires in the
    /// order of the cells that they lead to: a box of many stands below those it stands with.
    fn first_order(&self, folded: &Folded) -> Vec<Vec<usize>> {
        let target = |slot: &usize| match self.slots[*slot] {
            Slot::Cell(cell) => cell,
            Slot::Bend(wire) => folded.wires[wire].to,
        };
        let mut order = vec![Vec::new(); folded.layers];
        let mut seen = vec![false; self.slots.len()];
        for start in 0..self.slots.len() {
            let mut next = vec![start];
            while let Some(slot) = next.pop() {
                if !std::mem::replace(&mut seen[slot], true) {
                    order[self.layer[slot]].push(slot);
                    let mut after = self.after[slot].clone();
                    after.sort_by_key(|slot| std::cmp::Reverse(target(slot)));
                    next.extend(after);
                }
            }
        }
        order
    }

    /// A number for each slot that those share which wires join, the smallest for the topmost.
    pub fn islands(&self) -> Vec<usize> {
        let mut islands = vec![usize::MAX; self.slots.len()];
        for start in 0..self.slots.len() {
            let mut next = vec![start];
            while let Some(slot) = next.pop() {
                if islands[slot] == usize::MAX {
                    islands[slot] = start;
                    next.extend(self.after[slot].iter().chain(&self.before[slot]));
                }
            }
        }
        islands
    }
}
