//! Recorded steps: what the verbs that carry them, claims and purges share. The first write of a name wins.

use super::submit::validate_content_type;
use crate::command;
use crate::error::Rejection;
use crate::id::ExecutionId;
use crate::limits::*;
use crate::record::dedup::{Body as DedupBody, What};
use crate::record::step::Body;
use crate::record::{Dedup, Execution, Key, Record, Step};
use crate::reply::{RecordedStep, StepValue};
use crate::schema::{PartMask, step as schema};
use crate::text::check_size;
use crate::tx::{Stop, Tx};

const WITH_VALUE: PartMask = PartMask::of(schema::VALUE);

/// `beside` are the bytes of the call that are not those of steps: all of it goes into one commit.
pub(super) fn validate(steps: &[command::Step], beside: usize, limits: &Limits) -> Result<(), Rejection> {
    if steps.len() > STEPS_PER_CALL_MAX {
        return Err(Rejection::invalid("steps", "has more than 256 entries"));
    }
    for step in steps {
        if step.name.is_empty() || step.name.len() > STEP_NAME_MAX {
            return Err(Rejection::invalid("name", "of a step must have 1 to 200 bytes"));
        }
        check_size("step", step.bytes.len(), limits.step_max)?;
        validate_content_type(&step.content_type, true)?;
    }
    let sum: usize = steps.iter().map(|step| step.bytes.len()).sum();
    check_size("steps", sum + beside, BATCH_BYTES_MAX)
}

/// Writes the steps whose names are free, for the attempt that runs, and counts them in `execution`, which the caller
/// writes. Answers in order what stands under each name now.
pub(super) fn record(
    tx: &mut Tx<'_>,
    execution: &mut Execution,
    steps: &[command::Step],
) -> Result<Vec<RecordedStep>, Stop> {
    look_up(tx, execution, steps)?;
    steps.iter().map(|step| record_one(tx, execution, step)).collect()
}

/// Asks for everything at once that `record` reads.
fn look_up(tx: &mut Tx<'_>, execution: &Execution, steps: &[command::Step]) -> Result<(), Stop> {
    let mut missing = false;
    for step in steps {
        match number_of(tx, execution, &step.name) {
            Ok(Some(number)) => missing |= tx.prefetch(Key::Step(execution.id, number), WITH_VALUE),
            Ok(None) => {}
            Err(Stop::Miss) => missing = true,
            Err(stop) => return Err(stop),
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(()) }
}

/// The number of the step that has this name in the current run.
fn number_of(tx: &mut Tx<'_>, execution: &Execution, name: &str) -> Result<Option<u32>, Stop> {
    let key = Step::name_key(execution.id, execution.hot.steps.from, name);
    Ok(match tx.get(key, PartMask::NONE)? {
        Some(Record::Dedup(dedup)) => match dedup.body.what {
            What::Step { number } => Some(number),
            What::Request { .. } | What::Key { .. } | What::Flow { .. } => None,
        },
        _ => None,
    })
}

fn record_one(tx: &mut Tx<'_>, execution: &mut Execution, given: &command::Step) -> Result<RecordedStep, Stop> {
    if let Some(number) = number_of(tx, execution, &given.name)? {
        return Ok(RecordedStep { existed: true, step: StepValue::of(&find(tx, execution.id, number, WITH_VALUE)?) });
    }
    let now = tx.now();
    let Some(attempt) = execution.hot.open.as_ref().map(|open| open.index) else {
        return Err(Rejection::internal("E6 a fence passes on a running attempt only").into());
    };
    let steps = &mut execution.hot.steps;
    if steps.count() >= STEPS_MAX {
        return Err(Rejection::LimitExceeded { what: "recorded steps", max: STEPS_MAX.into() }.into());
    }
    if steps.bytes + given.bytes.len() as u64 > STEPS_BYTES_MAX {
        return Err(Rejection::LimitExceeded { what: "bytes of recorded steps", max: STEPS_BYTES_MAX }.into());
    }
    let (number, since) = (steps.next, steps.from);
    steps.next += 1;
    steps.bytes += given.bytes.len() as u64;
    let body = Body {
        name: given.name.clone(),
        since,
        content_type: given.content_type.clone(),
        attempt,
        at: now,
        bytes: given.bytes.len() as u32,
    };
    let step = Step::new(execution.id, number, body, given.bytes.clone());
    let recorded = RecordedStep { existed: false, step: StepValue::of(&step) };
    // Its number was never given before, so it needs no look.
    tx.insert(Record::Step(Box::new(step)));
    put_name(tx, execution, since, number, &given.name);
    Ok(recorded)
}

fn put_name(tx: &mut Tx<'_>, execution: &Execution, since: u32, number: u32, name: &str) {
    let Key::Dedup(partition, digest) = Step::name_key(execution.id, since, name) else { return };
    let body = DedupBody {
        namespace: execution.spec.namespace.clone(),
        fingerprint: [0; 32],
        what: What::Step { number },
        expires_at: None,
        home: None,
    };
    tx.put(Record::Dedup(Box::new(Dedup { partition, digest, body })));
}

fn find(tx: &mut Tx<'_>, id: ExecutionId, number: u32, parts: PartMask) -> Result<Step, Stop> {
    match tx.get(Key::Step(id, number), parts)? {
        Some(Record::Step(step)) => Ok(*step),
        _ => Err(Rejection::internal("E25 steps are numbered without gaps").into()),
    }
}

/// The steps with these numbers; what is not loaded is asked for together.
fn find_all(
    tx: &mut Tx<'_>,
    id: ExecutionId,
    numbers: std::ops::Range<u32>,
    parts: PartMask,
) -> Result<Vec<Step>, Stop> {
    let mut missing = false;
    let mut found = Vec::with_capacity(numbers.len());
    for number in numbers {
        match find(tx, id, number, parts) {
            Ok(step) => found.push(step),
            Err(Stop::Miss) => missing = true,
            Err(stop) => return Err(stop),
        }
    }
    if missing { Err(Stop::Miss) } else { Ok(found) }
}

/// What a claim brings of the recorded steps, and whether there are more.
#[derive(Default)]
pub(super) struct Handed {
    pub steps: Vec<StepValue>,
    pub more: bool,
}

/// The first steps of this run, as many as a claim may bring. An execution without steps costs nothing.
pub(super) fn handed(tx: &mut Tx<'_>, execution: &Execution) -> Result<Handed, Stop> {
    let steps = execution.hot.steps;
    if steps.count() == 0 {
        return Ok(Handed::default());
    }
    let mut end = steps.next.min(steps.from + CLAIM_STEPS_MAX);
    if steps.bytes > CLAIM_STEPS_BYTES {
        // Sizes first, so that no value is loaded that does not fit.
        let mut bytes = 0;
        let fitting = find_all(tx, execution.id, steps.from..end, PartMask::NONE)?.into_iter().take_while(|step| {
            bytes += u64::from(step.body.bytes);
            bytes <= CLAIM_STEPS_BYTES
        });
        end = steps.from + fitting.count() as u32;
    }
    let found = find_all(tx, execution.id, steps.from..end, WITH_VALUE)?;
    Ok(Handed { steps: found.iter().map(StepValue::of).collect(), more: end < steps.next })
}

/// Notes what `handed` will read first.
pub(super) fn prefetch(tx: &mut Tx<'_>, execution: &Execution) {
    let steps = execution.hot.steps;
    let parts = if steps.bytes > CLAIM_STEPS_BYTES { PartMask::NONE } else { WITH_VALUE };
    for number in steps.from..steps.next.min(steps.from + CLAIM_STEPS_MAX) {
        tx.prefetch(Key::Step(execution.id, number), parts);
    }
}

/// Removes the steps with these numbers, and their names.
pub(super) fn delete(tx: &mut Tx<'_>, id: ExecutionId, numbers: std::ops::Range<u32>) -> Result<(), Stop> {
    for step in find_all(tx, id, numbers, PartMask::NONE)? {
        tx.delete_blind(Step::name_key(id, step.body.since, &step.body.name));
        tx.delete(step.key());
    }
    Ok(())
}
