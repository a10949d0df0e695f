//! The raw form of a call: the body is the payload itself, with its own content type, and the other fields are query
//! parameters. A call that has a raw form is in it exactly if it has query parameters.

use crate::execution::Submit;
use crate::operation::{Args, NoQuery, Reading, Wire};
use crate::payload::Payload;
use crate::problem::Problem;
use crate::time::Moment;
use crate::work::{CompleteItem, FailItem, RetryWish};
use crate::{Batch, Call};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::IntoParams;

#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct RawSubmit {
    kind: String,
    lane: Option<String>,
    priority: Option<u32>,
    delay_ms: Option<u64>,
    start_at: Option<Moment>,
    deadline_in_ms: Option<u64>,
    deadline_at: Option<Moment>,
    #[serde(default)]
    capability: Vec<String>,
    #[serde(default)]
    tag: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct RawComplete {
    execution: String,
    lease: Option<String>,
    epoch: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct RawFail {
    execution: String,
    lease: Option<String>,
    epoch: Option<u64>,
    category: Option<String>,
    #[serde(default)]
    message: String,
    /// `policy`, `never`, or milliseconds
    retry: Option<String>,
}

/// True if the operation has a raw form: its fields as parameters, its payload as the body.
pub fn has_raw_form(id: &str) -> bool {
    matches!(id, "submit_execution" | "complete" | "fail")
}

/// The call, if the operation has a raw form and this is it.
pub fn from_raw(id: &str, wire: &Wire, content_type: Option<String>) -> Option<Result<Call, Problem>> {
    if wire.query.is_empty() || !has_raw_form(id) {
        return None;
    }
    // No body at all is no payload; a body of no bytes would need a content type to be told apart.
    let payload =
        (content_type.is_some() || !wire.body.is_empty()).then(|| Payload::new(wire.body.clone(), content_type));
    match id {
        "submit_execution" => Some(submit(wire, payload)),
        "complete" => Some(complete(wire, payload)),
        "fail" => Some(fail(wire, payload)),
        _ => None,
    }
}

fn args<B>(wire: &Wire, body: B, idempotency_key: Option<String>) -> Box<Args<[String; 0], NoQuery, B>> {
    Box::new(Args { path: [], query: NoQuery {}, body, idempotency_key, if_match: wire.if_match.clone() })
}

fn submit(wire: &Wire, input: Option<Payload>) -> Result<Call, Problem> {
    let raw = RawSubmit::read(&wire.query)?;
    let mut tags = BTreeMap::new();
    for tag in raw.tag {
        let Some((key, value)) = tag.split_once('=') else {
            return Err(Problem::invalid("tag", format!("is `{tag}`; it looks like `key=value`")));
        };
        tags.insert(key.to_string(), value.to_string());
    }
    let submit = Submit {
        kind: raw.kind,
        lane: raw.lane,
        input,
        priority: raw.priority,
        capabilities: raw.capability,
        tags,
        delay_ms: raw.delay_ms,
        start_at: raw.start_at,
        deadline_in_ms: raw.deadline_in_ms,
        deadline_at: raw.deadline_at,
        ..Submit::default()
    };
    Ok(Call::SubmitExecution(args(wire, submit, wire.idempotency_key.clone())))
}

fn complete(wire: &Wire, result: Option<Payload>) -> Result<Call, Problem> {
    let RawComplete { execution, lease, epoch } = RawComplete::read(&wire.query)?;
    let request_id = wire.idempotency_key.clone();
    let item = CompleteItem { execution, lease, epoch, result, request_id, ..CompleteItem::default() };
    Ok(Call::Complete(args(wire, Batch { items: vec![item] }, None)))
}

fn fail(wire: &Wire, detail: Option<Payload>) -> Result<Call, Problem> {
    let raw = RawFail::read(&wire.query)?;
    let retry = match raw.retry.as_deref() {
        None => None,
        Some("policy") => Some(RetryWish::Policy),
        Some("never") => Some(RetryWish::Never),
        Some(ms) => match ms.parse() {
            Ok(ms) => Some(RetryWish::AfterMs(ms)),
            Err(_) => {
                return Err(Problem::invalid(
                    "retry",
                    format!("is `{ms}`, allowed are `policy`, `never` and milliseconds"),
                ));
            }
        },
    };
    let item = FailItem {
        execution: raw.execution,
        lease: raw.lease,
        epoch: raw.epoch,
        category: raw.category,
        message: raw.message,
        detail,
        retry,
        request_id: wire.idempotency_key.clone(),
        ..FailItem::default()
    };
    Ok(Call::Fail(args(wire, Batch { items: vec![item] }, None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn api_6_a_raw_submit_takes_the_body_as_its_input() {
        let wire = Wire {
            query: "kind=mail&lane=bulk&tag=a%3Db&tag=c=d=e&priority=7".to_string(),
            body: Bytes::from_static(b"\x00\xff"),
            ..Wire::default()
        };
        let call = from_raw("submit_execution", &wire, Some("image/png".to_string())).unwrap().unwrap();
        let Call::SubmitExecution(args) = call else { panic!("{call:?}") };
        assert_eq!((args.body.kind.as_str(), args.body.priority), ("mail", Some(7)));
        assert_eq!(args.body.tags, BTreeMap::from([("a".into(), "b".into()), ("c".into(), "d=e".into())]));
        assert_eq!(args.body.input, Some(Payload::new(&b"\x00\xff"[..], Some("image/png".into()))));
    }

    #[test]
    fn a_call_without_parameters_is_not_raw() {
        assert!(from_raw("submit_execution", &Wire::default(), None).is_none());
        let wire = Wire { query: "limit=1".to_string(), ..Wire::default() };
        assert!(from_raw("list_executions", &wire, None).is_none(), "nor is one without a raw form");
        assert!(from_raw("submit_execution", &wire, None).unwrap().is_err());
    }
}
