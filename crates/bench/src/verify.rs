//! Whether the outcome is right: each execution once, with its own result, and nothing besides.

use crate::load::Ids;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::task::JoinSet;
use weft_core::record::execution::{Outcome, PublicState};
use weft_core::record::flow::PublicFlowState;
use weft_core::reply::Claimed;
use weft_engine::flow::FlowFilter;
use weft_engine::{Client, Counts, ListFilter};

/// Reads at a time while outcomes are compared.
const READERS: usize = 8;

/// Which numbers workers have got, one bit each, so that a million of them weigh little.
pub struct Seen {
    bits: Vec<AtomicU64>,
}

impl Seen {
    pub fn new(n: u64) -> Arc<Self> {
        Arc::new(Self { bits: (0..n.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() })
    }

    /// Notes that a worker got this execution, for the first time; answers its number.
    pub fn claimed(&self, work: &Claimed) -> Result<u64> {
        self.got(&work.id, work.input.as_ref())
    }

    /// The same for work whose id is known as text.
    pub fn got(&self, id: &impl Display, input: Option<&Bytes>) -> Result<u64> {
        let input = input.with_context(|| format!("check failed: `{id}` came without its input"))?;
        let number = input.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let number = number.with_context(|| format!("check failed: `{id}` came with a cut input"))?;
        let word = self.bits.get((number / 64) as usize);
        let word = word.with_context(|| format!("check failed: `{id}` came with the input of no submission"))?;
        let bit = 1 << (number % 64);
        ensure!(word.fetch_or(bit, Ordering::Relaxed) & bit == 0, "check failed: execution {number} was claimed twice");
        Ok(number)
    }

    pub fn count(&self) -> u64 {
        self.bits.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }
}

/// The result of an execution: its number, and another that follows from it.
pub fn result_of(number: u64) -> [u8; 16] {
    let mut result = [0; 16];
    result[..8].copy_from_slice(&number.to_le_bytes());
    result[8..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).to_le_bytes());
    result
}

/// Compares the numbers of executions by state with what they must be.
pub async fn counts(client: &Client, expected: &[(PublicState, u64)]) -> Result<()> {
    let counts = client.count(ListFilter::default()).await.context("executions could not be counted")?;
    for state in PublicState::ALL {
        let wanted = expected.iter().find(|(name, _)| *name == state).map_or(0, |(_, count)| *count);
        let found = of_state(&counts, state);
        ensure!(found == wanted, "check failed: {found} executions are {}, expected are {wanted}", state.name());
    }
    Ok(())
}

/// Compares the number of flows in a state, which all of them must be in.
pub async fn flows(client: &Client, state: PublicFlowState, expected: u64) -> Result<()> {
    let (mut found, mut cursor) = (0, None);
    loop {
        let filter = FlowFilter { cursor, limit: Some(1_000), ..FlowFilter::default() };
        let page = client.flows(filter).await.context("flows could not be listed")?;
        for (flow, _) in &page.flows {
            let seen = flow.public_state();
            ensure!(seen == state, "check failed: `{}` is {}, not {}", flow.id, seen.name(), state.name());
            found += 1;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    ensure!(found == expected, "check failed: {found} flows are there, expected are {expected}");
    Ok(())
}

fn of_state(counts: &Counts, wanted: PublicState) -> u64 {
    counts.iter().filter(|((_, _, state), _)| *state == wanted).map(|(_, count)| count).sum()
}

/// Reads every execution back: completed, in one attempt, with its own result.
pub async fn results(client: &Client, ids: Ids) -> Result<()> {
    let ids = Arc::new(ids);
    let mut readers = JoinSet::new();
    for reader in 0..READERS {
        let (client, ids) = (client.clone(), ids.clone());
        readers.spawn(async move {
            for (number, id) in ids.iter().skip(reader).step_by(READERS) {
                let view = client.result(*id, 0).await.with_context(|| format!("`{id}` could not be read"))?;
                ensure!(view.outcome == Outcome::Success, "check failed: `{id}` ended as {:?}", view.outcome);
                let right = view.bytes.as_deref() == Some(&result_of(*number)[..]);
                ensure!(right, "check failed: `{id}` has the result of another execution");
            }
            Ok(())
        });
    }
    while let Some(read) = readers.join_next().await {
        read.context("a reader stopped")??;
    }
    Ok(())
}
