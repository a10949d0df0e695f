//! Answers of calls that take several commits, or none of whose commits knows the whole answer: kept as they went out,
//! by the last commit, so that a repeat gets the same bytes. Owns no rule about what the call does; a call that died
//! before its answer was kept is carried out again, and is made to bear that.

use crate::command::{Call, KeepAnswer};
use crate::digest;
use crate::error::Rejection;
use crate::record::dedup::{Body, What};
use crate::record::{Dedup, Key, Record};
use crate::reply::Reply;
use crate::schema::PartMask;
use crate::text::check_key;
use crate::tx::{Stop, Tx};

/// Answers what is kept under the request id of the call, if anything is and its body is the same. Otherwise keeps the
/// answer that comes along, if one does.
pub(crate) fn keep(tx: &mut Tx<'_>, call: &Call, cmd: &KeepAnswer) -> Result<Reply, Stop> {
    let Some(request_id) = &call.request_id else {
        return Err(Rejection::internal("an answer is kept under a request id").into());
    };
    check_key("request_id", request_id)?;
    let who = &call.principal;
    let digest = digest::request(&who.namespace, &who.name, &cmd.verb, request_id);
    if let Some(Record::Dedup(dedup)) = tx.get(Key::Dedup(cmd.partition, digest), PartMask::NONE)?
        && let What::Request { reply } = dedup.body.what
        && dedup.body.expires_at.is_none_or(|at| at > tx.now())
    {
        if dedup.body.fingerprint != cmd.fingerprint {
            return Err(Rejection::IdempotencyMismatch { existing: None }.into());
        }
        return Ok(reply);
    }
    let reply = Reply::Answer(cmd.answer.clone());
    if cmd.answer.is_some() {
        let expires_at = Some(tx.now() + tx.limits().request_ttl_ms);
        let what = What::Request { reply: reply.clone() };
        let namespace = who.namespace.clone();
        let body = Body { namespace, fingerprint: cmd.fingerprint, what, expires_at, home: None };
        tx.put(Record::Dedup(Box::new(Dedup { partition: cmd.partition, digest, body })));
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;
    use crate::id::PartitionId;
    use crate::kit::World;
    use crate::kit::calls::call;
    use crate::limits::Limits;
    use bytes::Bytes;

    fn asked(fingerprint: u8, answer: Option<&'static str>) -> Call {
        let cmd = KeepAnswer {
            partition: PartitionId(0),
            verb: "drain_workers".into(),
            fingerprint: [fingerprint; 32],
            answer: answer.map(Bytes::from),
        };
        Call { request_id: Some("a".into()), ..call(Command::KeepAnswer(cmd)) }
    }

    #[test]
    fn ex_76_the_first_answer_is_kept_with_the_fingerprint_of_its_body() {
        let mut world = World::new();
        assert_eq!(world.call(&asked(1, None)), Ok(Reply::Answer(None)));
        assert_eq!(world.commits, 0, "a look writes nothing");
        let first = Reply::Answer(Some("first".into()));
        assert_eq!(world.call(&asked(1, Some("first"))), Ok(first.clone()));
        assert_eq!(world.call(&asked(1, Some("second"))), Ok(first.clone()));
        assert_eq!(world.call(&asked(1, None)), Ok(first));
        assert_eq!(world.call(&asked(2, None)).unwrap_err().code(), "idempotency_mismatch");
        let nobody = Call { request_id: None, ..asked(1, None) };
        assert_eq!(world.call(&nobody).unwrap_err().code(), "internal");
        world.at(Limits::default().request_ttl_ms);
        assert_eq!(world.call(&asked(2, None)), Ok(Reply::Answer(None)), "it is kept for a while");
    }
}
