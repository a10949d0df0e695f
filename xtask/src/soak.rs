//! Long runs of the release build. Owns which ones there are; what they check belongs to the programs they run.

use crate::run::Line;

/// Many seeds through the simulator. Its own output tells how to repeat a red one.
pub fn sim(seeds: u64) -> anyhow::Result<bool> {
    let line = Line::cargo("run --release --locked --package weft -- sim --seeds").word(seeds.to_string());
    println!("== soak sim: {line}");
    line.run().map(|()| true)
}
