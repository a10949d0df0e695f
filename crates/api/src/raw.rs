//! The raw form of a call: the body is the payload itself, with its own content type, and the other fields are query
//! parameters. A call that has a raw form is in it exactly if it has query parameters.

use crate::decode::mistake_of_json;
use crate::execution::{Policy, Submit};
use crate::operation::{Args, NoQuery, Reading, Schemas, Wire, schema_of};
use crate::payload::{Payload, TEXT};
use crate::problem::Problem;
use crate::reader::Reader;
use crate::time::Moment;
use crate::work::{CompleteItem, Completed, FailItem, Failed, RetryWish};
use crate::{Batch, Call};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::IntoParams;

#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct RawSubmit {
    /// Which handler it is for
    kind: String,
    /// `default` unless given
    lane: Option<String>,
    priority: Option<u32>,
    delay_ms: Option<u64>,
    start_at: Option<Moment>,
    deadline_in_ms: Option<u64>,
    deadline_at: Option<Moment>,
    /// One of the capabilities that its worker must have
    #[serde(default)]
    capability: Vec<String>,
    /// One tag, as `key=value`
    #[serde(default)]
    tag: Vec<String>,
    /// As in the other form, written as JSON
    policy: Option<String>,
    /// Executions with the same key are placed together
    concurrency_key: Option<String>,
    /// W3C trace context; the `traceparent` header unless given
    trace: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct RawComplete {
    /// The work that ends
    execution: String,
    lease: Option<String>,
    epoch: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct RawFail {
    /// The work that ends
    execution: String,
    lease: Option<String>,
    epoch: Option<u64>,
    /// `application` unless given
    category: Option<String>,
    #[serde(default)]
    message: String,
    /// `policy`, `never`, or milliseconds
    retry: Option<String>,
}

/// The raw form of an operation, for the document.
pub struct RawForm {
    /// The field that is the body
    pub payload: &'static str,
    /// The parameter that makes a repeat recognisable
    pub repeat_id: &'static str,
    parameters: fn() -> Vec<Value>,
    /// What it answers, if that is not what the other form does
    pub reply: Option<fn(&mut Schemas) -> Value>,
}

impl RawForm {
    const SUBMIT: RawForm =
        RawForm { payload: "input", repeat_id: "idempotency_key", parameters: RawSubmit::parameters, reply: None };
    const COMPLETE: RawForm = RawForm {
        payload: "result",
        repeat_id: "request_id",
        parameters: RawComplete::parameters,
        reply: Some(schema_of::<Completed>),
    };
    const FAIL: RawForm = RawForm {
        payload: "detail",
        repeat_id: "request_id",
        parameters: RawFail::parameters,
        reply: Some(schema_of::<Failed>),
    };

    /// That of the operation with this id, if it has one.
    pub const fn of(id: &str) -> Option<RawForm> {
        match id.as_bytes() {
            b"submit_execution" => Some(Self::SUBMIT),
            b"complete" => Some(Self::COMPLETE),
            b"fail" => Some(Self::FAIL),
            _ => None,
        }
    }

    /// Its parameters. None is required in the document, because the other form of the call has none.
    pub fn parameters(&self) -> Vec<Value> {
        let repeat_id = json!({
            "name": self.repeat_id, "in": "query", "schema": { "type": "string", "minLength": 1, "maxLength": 256 },
            "description": "The same as the header `Idempotency-Key`",
        });
        let mut all = (self.parameters)();
        all.push(repeat_id);
        for one in &mut all {
            let needed = if one["required"] == true { "; required in it" } else { "" };
            let about = one["description"].as_str().map_or_else(String::new, |text| format!("{text}. "));
            one["description"] = json!(format!("{about}Only in the raw form of the call{needed}"));
            one["required"] = json!(false);
        }
        all
    }
}

/// True if the operation has a raw form: its fields as parameters, its payload as the body.
pub fn has_raw_form(id: &str) -> bool {
    RawForm::of(id).is_some()
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
    Box::new(Args { idempotency_key, if_match: wire.if_match.clone(), ..Args::new([], NoQuery {}, body) })
}

fn submit(wire: &Wire, input: Option<Payload>) -> Result<Call, Problem> {
    let raw = RawSubmit::read(&wire.query)?;
    let mut tags = BTreeMap::new();
    for tag in raw.tag {
        let Some((key, value)) = tag.split_once('=') else {
            return Err(Problem::invalid("tag", format!("is `{tag}`; it looks like `key=value`")));
        };
        if tags.insert(key.to_string(), value.to_string()).is_some() {
            return Err(Problem::invalid("tag", format!("has the key `{key}` twice")));
        }
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
        policy: raw.policy.as_deref().map(policy).transpose()?,
        concurrency_key: raw.concurrency_key.map(|key| Payload::new(key, Some(TEXT.to_string()))),
        trace: raw.trace,
        ..Submit::default()
    };
    Ok(Call::SubmitExecution(args(wire, submit, wire.idempotency_key.clone())))
}

/// A policy that is written as JSON inside a parameter.
fn policy(text: &str) -> Result<Policy, Problem> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = serde_path_to_error::deserialize(Reader::new(&mut json, false)).map_err(mistake_of_json);
    read.map_err(|problem| Problem::invalid("policy", format!("cannot be read: {}", problem.detail)))
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
            query: "kind=mail&lane=bulk&tag=a%3Db&tag=c=d=e&priority=7&policy=%7B%22max_replays%22%3A4%7D".to_string(),
            body: Bytes::from_static(b"\x00\xff"),
            ..Wire::default()
        };
        let call = from_raw("submit_execution", &wire, Some("image/png".to_string())).unwrap().unwrap();
        let Call::SubmitExecution(args) = call else { panic!("{call:?}") };
        assert_eq!((args.body.kind.as_str(), args.body.priority), ("mail", Some(7)));
        assert_eq!(args.body.policy.unwrap().max_replays, Some(4));
        assert_eq!(args.body.tags, BTreeMap::from([("a".into(), "b".into()), ("c".into(), "d=e".into())]));
        assert_eq!(args.body.input, Some(Payload::new(&b"\x00\xff"[..], Some("image/png".into()))));
    }

    #[test]
    fn api_1_a_tag_that_is_given_twice_is_refused() {
        let wire = Wire { query: "kind=mail&tag=a=1&tag=a=2".to_string(), ..Wire::default() };
        let problem = from_raw("submit_execution", &wire, None).unwrap().unwrap_err();
        assert_eq!(problem.detail, "`tag` has the key `a` twice");
    }

    #[test]
    fn a_call_without_parameters_is_not_raw() {
        assert!(from_raw("submit_execution", &Wire::default(), None).is_none());
        let wire = Wire { query: "limit=1".to_string(), ..Wire::default() };
        assert!(from_raw("list_executions", &wire, None).is_none(), "nor is one without a raw form");
        assert!(from_raw("submit_execution", &wire, None).unwrap().is_err());
    }
}
