//! Calls that are more than one command of the engine, or answer more than a command knows: under one id they are
//! carried out once, and a repeat gets the first answer to the byte. A call that died before its answer was kept is
//! carried out again; the verbs bear that.

use crate::Answer;
use crate::rejection::problem;
use bytes::Bytes;
use serde::Serialize;
use weft_api::operation::{Carried, Spec};
use weft_api::{Args, Code, Problem, Reply};
use weft_core::digest;
use weft_core::error::Rejection;
use weft_engine::Client;

/// By what a repeat is known.
pub struct Repeat {
    verb: &'static str,
    id: Bytes,
    fingerprint: [u8; 32],
}

impl Repeat {
    /// Of a call that has an id: in its header, or in this field of its body, or both and equal. All else that it gives
    /// is compared.
    pub fn of<P: Serialize, Q: Serialize, B: Serialize>(
        spec: &'static Spec,
        args: &Args<P, Q, B>,
        field: Option<&String>,
    ) -> Result<Option<Self>, Problem> {
        let Some(id) = crate::request_id(args, field)? else { return Ok(None) };
        let value = |value: Result<serde_json::Value, serde_json::Error>| value.expect("once: wire types are JSON");
        let mut body = value(serde_json::to_value(&args.body));
        if let Some(fields) = body.as_object_mut() {
            fields.remove("request_id");
        }
        let given = [value(serde_json::to_value(&args.path)), value(serde_json::to_value(&args.query)), body];
        let given = given.map(|value| value.to_string());
        let parts = [given[0].as_bytes(), given[1].as_bytes(), given[2].as_bytes()];
        Ok(Some(Self { verb: spec.id, id, fingerprint: digest::digest(&parts) }))
    }

    pub fn id(&self) -> Bytes {
        self.id.clone()
    }
}

/// Carries the call out, unless it is a repeat.
pub async fn once(
    client: &Client,
    repeat: Option<Repeat>,
    carry_out: impl Future<Output = Result<Reply, Problem>>,
) -> Result<Answer, Problem> {
    let Some(Repeat { verb, id, fingerprint }) = repeat else { return Ok(carry_out.await?.into()) };
    if let Some(kept) = client.kept(verb, id.clone(), fingerprint).await.map_err(problem)? {
        return replayed(verb, kept);
    }
    let reply = carry_out.await?;
    let answer = reply.carry().bytes;
    match client.keep(verb, id, fingerprint, answer.clone()).await {
        // Another one with this id was faster.
        Ok(Some(kept)) if kept != answer => replayed(verb, kept),
        Ok(_) => Ok(reply.into()),
        Err(rejection @ Rejection::IdempotencyMismatch { .. }) => Err(problem(rejection)),
        // It was carried out, and that is the answer. A repeat is carried out again.
        Err(rejection) => {
            tracing::warn!(verb, %rejection, "could not keep the answer to a call for its repeats");
            Ok(reply.into())
        }
    }
}

fn replayed(verb: &str, kept: Bytes) -> Result<Answer, Problem> {
    let carried = Carried { bytes: kept, content_type: Some(weft_api::payload::JSON.to_string()) };
    let reply = Reply::uncarry(verb, carried).map_err(|error| {
        tracing::error!(verb, %error, "a kept answer does not read");
        Problem::new(Code::Internal, format!("the answer that was kept for this `{verb}` does not read"))
            .hint("give the call another id")
    })?;
    Ok(Answer { replayed: true, ..reply.into() })
}
