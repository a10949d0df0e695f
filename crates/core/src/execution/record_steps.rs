//! Recording steps by themselves. The other verbs of a holder may carry steps too; the rule is the same.

use super::fence::{self, Verb};
use super::{steps, visible};
use crate::command::{Principal, RecordSteps};
use crate::error::Rejection;
use crate::limits::Limits;
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &RecordSteps, limits: &Limits) -> Result<(), Rejection> {
    if cmd.steps.is_empty() {
        return Err(Rejection::invalid("steps", "is empty"));
    }
    steps::validate(&cmd.steps, 0, limits)
}

/// All of them or none. Repeating it answers what was recorded first and changes nothing.
pub fn record_steps(tx: &mut Tx<'_>, who: &Principal, cmd: &RecordSteps) -> Result<Reply, Stop> {
    let mut execution = visible(tx, who, cmd.id, PartMask::NONE)?;
    fence::admit(tx, &execution, cmd.fence, Verb::RecordSteps)?;
    let recorded = steps::record(tx, &mut execution, &cmd.steps)?;
    if recorded.iter().any(|step| !step.existed) {
        tx.put_execution(execution);
    }
    Ok(Reply::StepsRecorded(recorded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, Complete, Purge, Step, Steps};
    use crate::kit::World;
    use crate::kit::calls::*;
    use crate::limits::*;
    use crate::record::Key;
    use crate::reply::Expired;

    fn held() -> (World, crate::ExecutionId, crate::command::Fence) {
        let mut world = World::new();
        let id = world.submit(|_| {});
        let fence = fence(&world.claim_as(id, "w", 3_600_000));
        (world, id, fence)
    }

    /// Steps named by the numbers, of so many bytes each.
    fn steps(numbers: std::ops::Range<usize>, bytes: usize) -> Vec<Step> {
        numbers.map(|number| step(&number.to_string(), &vec![b'x'; bytes])).collect()
    }

    #[test]
    fn sdk_22_names_and_sizes_are_checked() {
        let (mut world, id, fence) = held();
        let before = world.clone();
        let cases: [(Vec<Step>, &str); 6] = [
            (Vec::new(), "invalid_argument"),
            (vec![step("", b"")], "invalid_argument"),
            (vec![step(&"n".repeat(201), b"")], "invalid_argument"),
            (vec![step("a", &vec![0; STEP_MAX + 1])], "payload_too_large"),
            (steps(0..STEPS_PER_CALL_MAX + 1, 1), "invalid_argument"),
            (steps(0..65, STEP_MAX), "payload_too_large"),
        ];
        for (steps, code) in cases {
            assert_eq!(world.run(record(id, fence, steps)).unwrap_err().code(), code);
        }
        assert_eq!(world.records, before.records);
        let longest = vec![step(&"ü".repeat(100), b""), step("b", &vec![0; STEP_MAX])];
        assert!(world.run(record(id, fence, longest)).is_ok());
    }

    #[test]
    fn sdk_24_ten_thousand_steps_and_not_one_more() {
        let (mut world, id, fence) = held();
        let max = STEPS_MAX as usize;
        for from in (0..max).step_by(STEPS_PER_CALL_MAX) {
            world.run(record(id, fence, steps(from..max.min(from + STEPS_PER_CALL_MAX), 1))).unwrap();
        }
        let refused = world.run(record(id, fence, steps(max..max + 1, 1)));
        assert_eq!(refused, Err(Rejection::LimitExceeded { what: "recorded steps", max: max as u64 }));
        assert!(world.run(record(id, fence, steps(7..8, 1))).is_ok(), "what is recorded can still be asked for");
        world.run(complete(id, fence, None)).unwrap();
        world.run(Command::Replay(replay(id))).unwrap();
        let again = crate::kit::calls::fence(&world.claim(id));
        assert!(world.run(record(id, again, steps(max..max + 1, 1))).is_ok(), "a cleared run has room again");
    }

    #[test]
    fn sdk_24_steps_have_64_mib_in_sum() {
        let (mut world, id, fence) = held();
        for from in (0..256).step_by(32) {
            world.run(record(id, fence, steps(from..from + 32, STEP_MAX))).unwrap();
        }
        assert_eq!(world.execution(id).hot.steps.bytes, STEPS_BYTES_MAX);
        let cmd = Complete { id, fence: Some(fence), result: None, content_type: None, steps: steps(256..257, 1) };
        let refused = world.run(Command::Complete(cmd));
        assert_eq!(refused.unwrap_err().code(), "limit_exceeded", "also where it rides");
        assert!(world.execution(id).lease().is_some());
        assert!(world.run(record(id, fence, steps(256..257, 0))).is_ok());
    }

    #[test]
    fn sdk_24_a_claim_brings_the_first_thousand_in_order() {
        let (mut world, id, fence) = held();
        for from in (0..1024).step_by(256) {
            world.run(record(id, fence, steps(from..from + 256, 1))).unwrap();
        }
        world.run(delay(id, fence, 0)).unwrap();
        let claimed = world.claim(id);
        assert!(world.loads <= 2, "{} loads", world.loads);
        let names: Vec<String> = claimed.steps.iter().map(|step| step.name.to_string()).collect();
        let expected: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        assert_eq!((names, claimed.steps_more), (expected, true));
    }

    #[test]
    fn sdk_24_a_claim_brings_no_more_than_256_kib() {
        let (mut world, id, fence) = held();
        world.run(record(id, fence, steps(0..4, 64 << 10))).unwrap();
        world.run(delay(id, fence, 0)).unwrap();
        let claimed = world.claim(id);
        assert_eq!((claimed.steps.len(), claimed.steps_more), (4, false), "all of it fits");
        let held = crate::kit::calls::fence(&claimed);
        world.run(record(id, held, steps(4..5, 1))).unwrap();
        world.run(delay(id, held, 0)).unwrap();
        let claimed = world.claim(id);
        assert_eq!((claimed.steps.len(), claimed.steps_more), (4, true));
    }

    #[test]
    fn ex_34_an_execution_without_steps_is_claimed_with_one_load() {
        let (mut world, id, fence) = held();
        world.run(record(id, fence, steps(0..3, 1))).unwrap();
        world.run(complete(id, fence, None)).unwrap();
        world.run(Command::Replay(replay(id))).unwrap();
        assert_eq!((world.claim(id).steps.len(), world.loads), (0, 1), "cleared steps cost nothing");
    }

    #[test]
    fn ex_81_a_purge_removes_steps_of_all_runs_bit_by_bit() {
        let (mut world, id, mut held) = held();
        for run in 0..3 {
            for from in (0..512).step_by(256) {
                world.run(record(id, held, steps(from..from + 256, 1))).unwrap();
            }
            world.run(complete(id, held, None)).unwrap();
            if run < 2 {
                world.run(Command::Replay(crate::command::Replay { steps: Steps::Clear, ..replay(id) })).unwrap();
                held = fence(&world.claim(id));
            }
        }
        assert_eq!(world.execution(id).hot.steps.next, 3 * 512);
        world.run(Command::Purge(Purge { id, reason: "".into() })).unwrap();
        assert!(!world.records.contains_key(&Key::Execution(id)));
        let fired: Vec<_> = world.scan().into_iter().map(|(_, _, expired)| expired).collect();
        assert_eq!(fired, [Expired::More, Expired::More, Expired::More, Expired::Fired]);
        assert!(world.is_swept());
    }
}
