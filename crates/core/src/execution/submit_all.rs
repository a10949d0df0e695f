//! Submitting several executions, all of them or none.

use super::submit;
use crate::command::{Principal, SubmitAll};
use crate::error::Rejection;
use crate::limits::{BATCH_BYTES_MAX, BATCH_ITEMS_MAX, Limits};
use crate::reply::Reply;
use crate::text::{check_range, check_size};
use crate::time::Time;
use crate::tx::{Stop, Tx};

pub fn validate(cmd: &SubmitAll, limits: &Limits, now: Time) -> Result<(), Rejection> {
    check_range("items", cmd.items.len() as u64, 1, BATCH_ITEMS_MAX as u64)?;
    let bytes = cmd.items.iter().filter_map(|item| item.input.as_ref()).map(|input| input.len()).sum();
    check_size("items", bytes, BATCH_BYTES_MAX.max(limits.input_max))?;
    let refused = |(index, item)| submit::validate(item, limits, now).err().map(|rejection| at(index, rejection));
    cmd.items.iter().enumerate().find_map(refused).map_or(Ok(()), Err)
}

/// The first item that is refused refuses all, and is named.
pub fn submit_all(tx: &mut Tx<'_>, who: &Principal, cmd: &SubmitAll) -> Result<Reply, Stop> {
    let mut submitted = Vec::with_capacity(cmd.items.len());
    let mut missing = false;
    for (index, item) in cmd.items.iter().enumerate() {
        match submit::one(tx, who, item) {
            Ok(Reply::Submitted(done)) => submitted.push(done),
            Ok(_) => return Err(Rejection::internal("a submission was answered with something else").into()),
            // The others only say what they need too; what they answer now would not count.
            Err(Stop::Miss) => missing = true,
            Err(Stop::Rejected(_)) if missing => {}
            Err(Stop::Rejected(rejection)) => return Err(at(index, rejection).into()),
        }
    }
    if missing {
        return Err(Stop::Miss);
    }
    submit::tell_joined(tx, who)?;
    Ok(Reply::SubmittedAll(submitted))
}

fn at(index: usize, rejection: Rejection) -> Rejection {
    Rejection::AtItem { index: index as u32, rejection: Box::new(rejection) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Call, Command, Submit};
    use crate::kit::World;
    use crate::kit::calls::{call, submit as blank};
    use crate::limits::PRIORITY_MAX;

    fn items(world: &mut World, keys: &[&'static str]) -> Vec<Submit> {
        let item = |key: &&'static str| Submit {
            id: Some(world.fresh_id()),
            idempotency_key: Some(key.as_bytes().into()),
            ..blank()
        };
        keys.iter().map(item).collect()
    }

    #[test]
    fn ex_28_all_items_exist_afterwards_or_none() {
        let mut world = World::new();
        let mut some = items(&mut world, &["a", "b", "c"]);
        let before = world.clone();
        some[1].priority = Some(PRIORITY_MAX + 1);
        let refused = world.run(Command::SubmitAll(SubmitAll { items: some.clone() }));
        assert!(matches!(refused, Err(Rejection::AtItem { index: 1, .. })), "{refused:?}");
        assert_eq!(refused.unwrap_err().code(), "invalid_argument");
        assert_eq!(world.records, before.records);
        some[1].priority = None;
        let Ok(Reply::SubmittedAll(done)) = world.run(Command::SubmitAll(SubmitAll { items: some })) else {
            panic!("all are good");
        };
        assert_eq!((done.len(), world.executions().count(), world.commits), (3, 3, 1));
    }

    #[test]
    fn ex_28_an_item_whose_key_means_something_else_refuses_all() {
        let mut world = World::new();
        let bound = world.submit(|cmd| cmd.idempotency_key = Some("b".into()));
        let mut some = items(&mut world, &["a", "b"]);
        let before = world.records.clone();
        some[1].input = Some("another".into());
        let refused = world.run(Command::SubmitAll(SubmitAll { items: some.clone() }));
        let mismatch = Rejection::IdempotencyMismatch { existing: Some(bound) };
        assert_eq!(refused, Err(Rejection::AtItem { index: 1, rejection: Box::new(mismatch) }));
        assert_eq!(world.records, before);
        some[1].input = None;
        let Ok(Reply::SubmittedAll(done)) = world.run(Command::SubmitAll(SubmitAll { items: some })) else {
            panic!("the second is a duplicate");
        };
        assert_eq!((done[0].duplicate, done[1].duplicate, done[1].id), (false, true, bound));
    }

    #[test]
    fn ex_76_a_repeat_of_the_whole_call_is_recognised() {
        let mut world = World::new();
        let items: Vec<Submit> = (0..2).map(|_| Submit { id: Some(world.fresh_id()), ..blank() }).collect();
        let first =
            Call { request_id: Some("r".into()), ..call(Command::SubmitAll(SubmitAll { items: items.clone() })) };
        let reply = world.call(&first);
        let again: Vec<Submit> = items.into_iter().map(|item| Submit { id: Some(world.fresh_id()), ..item }).collect();
        let second = Call { command: Command::SubmitAll(SubmitAll { items: again }), ..first };
        assert_eq!(world.call(&second), reply);
        assert_eq!(world.executions().count(), 2);
    }
}
