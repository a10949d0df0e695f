//! The OpenAPI document, made from the table of operations and the types of their requests and replies.

use crate::flow::KINDED;
use crate::operation::{BodyMax, Schemas, Scope, Spec, schema_of};
use crate::problem::{Code, Problem};
use crate::raw::RawForm;
use crate::{Method, OPERATIONS};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The whole document.
pub fn document(version: &str) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for spec in OPERATIONS {
        let method = spec.method.name().to_lowercase();
        paths.entry(spec.path).or_default().insert(method, operation(spec, &mut schemas));
    }
    for (path, get) in beside() {
        paths.entry(path).or_default().insert("get".to_string(), get);
    }
    schema_of::<Problem>(&mut schemas);
    // Named only inside of pages, batches and parameters.
    schema_of::<crate::key::AuditEntry>(&mut schemas);
    schema_of::<crate::node::Namespace>(&mut schemas);
    schema_of::<crate::work::Settle>(&mut schemas);
    schema_of::<crate::work::CompleteItem>(&mut schemas);
    schema_of::<crate::work::FailItem>(&mut schemas);
    schema_of::<crate::work::RenewItem>(&mut schemas);
    schema_of::<crate::execution::CancelItem>(&mut schemas);
    schema_of::<crate::execution::Order>(&mut schemas);
    schema_of::<crate::flow::MemberOrder>(&mut schemas);
    schema_of::<crate::flow::Edge>(&mut schemas);
    schema_of::<crate::flow::Group>(&mut schemas);
    schema_of::<crate::scanner::ParkedItem>(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Weft",
            "version": version,
            "description": "Durable executions. Times are milliseconds since 1970 UTC, durations end in `_ms`; an unknown field is refused. With the header `Weft-Big: text` numbers beyond 2^53 are given and taken as text.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "key": [] }],
        "tags": TAGS.iter().map(|(name, description)| json!({ "name": name, "description": description })).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": with_words(schemas),
            "securitySchemes": {
                "key": { "type": "http", "scheme": "bearer", "description": "An API key: `weft_<id>_<secret>`" },
            },
        },
    })
}

/// Policies are objects with a `kind`. Where that is all that is needed, the word alone will do.
fn with_words(schemas: Schemas) -> Value {
    let mut schemas = json!(schemas);
    for name in KINDED {
        let forms = schemas.pointer_mut(&format!("/{name}/oneOf")).and_then(Value::as_array_mut);
        let forms = forms.expect("document: a policy is one of several objects");
        let alone = forms.iter().filter(|form| form["required"] == json!(["kind"]));
        let words: Vec<Value> = alone.map(|form| form["properties"]["kind"]["enum"][0].clone()).collect();
        forms.push(
            json!({ "type": "string", "enum": words, "description": "Short for an object with this `kind` alone" }),
        );
    }
    schemas
}

const TAGS: &[(&str, &str)] = &[
    ("executions", "Submit work, read it, steer it"),
    ("flows", "Graphs of executions"),
    ("work", "Claim work and end it"),
    ("workers", "The registry of workers"),
    ("bulk", "One verb for many executions"),
    ("keys", "API keys"),
    ("operation", "The deployment and its nodes"),
];

fn operation(spec: &Spec, schemas: &mut Schemas) -> Value {
    let mut parameters: Vec<Value> = spec.path_names().map(path_parameter).collect();
    parameters.extend((spec.parameters)());
    let raw = RawForm::of(spec.id);
    parameters.extend(raw.iter().flat_map(RawForm::parameters));
    parameters.push(namespace_parameter());
    if spec.changes() {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "schema": { "type": "string", "minLength": 1, "maxLength": 256 },
            "description": "A repeat of the call with the same key gets the first answer",
        }));
    }
    if spec.takes_revision() {
        parameters.push(json!({
            "name": "If-Match", "in": "header", "required": false, "schema": { "type": "string" },
            "description": "The `ETag` of a read; the call counts only if nothing has changed since",
        }));
    }
    let mut value = json!({
        "operationId": spec.id,
        "summary": spec.summary,
        "tags": [spec.tag],
        "parameters": parameters,
        "responses": responses(spec, schemas),
        "x-weft-scope": scope_text(spec.scope),
    });
    if let Some(body) = spec.body {
        value["requestBody"] = json!({
            "required": true,
            "content": { "application/json": { "schema": body(schemas) } },
            "description": format!("At most {}", body_max_text(spec.body_max)),
        });
    }
    if let Some(raw) = raw {
        let about = format!(
            "The raw form of the call: the body is the `{}` itself, with its own content type, and the other fields are \
             query parameters or headers (`Weft-Lane: mail` is `lane=mail`). A call with such parameters is in this form.",
            raw.payload
        );
        let body = &mut value["requestBody"];
        body["description"] = json!(format!("{}. {about}", body["description"].as_str().unwrap_or_default()));
        body["content"]["application/octet-stream"] = json!({ "schema": { "description": "Any bytes" } });
        if let Some(single) = raw.reply {
            let answer = &mut value["responses"]["200"];
            answer["description"] = json!("Done; to the raw form, which is one item, the answer to that item");
            let schema = &mut answer["content"]["application/json"]["schema"];
            *schema = json!({ "anyOf": [schema.clone(), single(schemas)] });
        }
    }
    value
}

fn namespace_parameter() -> Value {
    json!({
        "name": "Weft-Namespace", "in": "header", "required": false, "schema": { "type": "string" },
        "description": "Chooses among the namespaces of the key; the parameter `namespace` says the same",
    })
}

fn path_parameter(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
}

fn scope_text(scope: Scope) -> String {
    match scope.names() {
        [] => "any key".to_string(),
        names => names.join(" or "),
    }
}

fn body_max_text(max: BodyMax) -> &'static str {
    match max {
        BodyMax::Small => "64 KiB",
        BodyMax::Payload => "the limit of one payload and 64 KiB",
        BodyMax::Batch => "16 MiB",
    }
}

fn responses(spec: &Spec, schemas: &mut Schemas) -> Value {
    let mut responses = Map::new();
    match spec.reply {
        Some(reply) => {
            let schema = reply(schemas);
            let answer = json!({ "description": "Done", "content": { "application/json": { "schema": schema } } });
            if spec.status == 201 {
                let mut again = answer.clone();
                again["description"] = json!("It was there already");
                responses.insert("200".to_string(), again);
            }
            responses.insert(spec.status.to_string(), answer);
        }
        None => {
            let bytes = json!({ "description": "The bytes, with their own content type", "content": { "*/*": {} } });
            responses.insert("200".to_string(), bytes);
            responses.insert("204".to_string(), json!({ "description": "There are none" }));
        }
    }
    if spec.method == Method::Get {
        responses.insert("304".to_string(), json!({ "description": "It is still what `If-None-Match` names" }));
    }
    responses.extend(refusals(&spec.all_codes()));
    Value::Object(responses)
}

fn refusals(codes: &[Code]) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for code in codes {
        by_status.entry(code.status()).or_default().push(code.name());
    }
    let refusal = |(status, names): (u16, Vec<&str>)| {
        let schema = json!({ "$ref": "#/components/schemas/Problem" });
        let answer = json!({
            "description": format!("`{}`", names.join("`, `")),
            "content": { "application/problem+json": { "schema": schema } },
        });
        (status.to_string(), answer)
    };
    by_status.into_iter().map(refusal).collect()
}

/// What answers without being a call of the engine.
fn beside() -> Vec<(&'static str, Value)> {
    let text = |kind: &str| json!({ "description": "Done", "content": { kind: { "schema": { "type": "string" } } } });
    let get = |id: &str, summary: &str, open: bool, responses: Value| {
        let mut value = json!({ "operationId": id, "summary": summary, "tags": ["operation"], "responses": responses });
        if open {
            value["security"] = json!([]);
        }
        for (status, refusal) in refusals(crate::operation::COMMON) {
            value["responses"]
                .as_object_mut()
                .expect("document: responses are an object")
                .entry(status)
                .or_insert(refusal);
        }
        value
    };
    let mut notices = get(
        "notices",
        "What a worker should know about leases it holds, as server-sent events",
        false,
        json!({ "200": { "description": "Events `notice` with a `Notice` each and its number as `id`; `missed` where some were dropped; `bye` before the server ends it",
            "content": { "text/event-stream": { "schema": { "$ref": "#/components/schemas/Notice" } } } } }),
    );
    notices["tags"] = json!(["workers"]);
    let last = json!({ "name": "Last-Event-ID", "in": "header", "schema": { "type": "string" },
        "description": "The `id` that was heard last; the stream goes on after it" });
    notices["parameters"] = json!([path_parameter("instance"), namespace_parameter(), last]);
    notices["x-weft-scope"] = json!(scope_text(Scope::Work));
    let ready = json!({ "type": "object", "required": ["ready"], "properties": {
        "ready": { "type": "boolean" }, "why": { "type": "array", "items": { "type": "string" } } } });
    let ready = |description: &str| json!({ "description": description, "content": { "application/json": { "schema": ready } } });
    vec![
        ("/v1/workers/{instance}/notices", notices),
        ("/healthz", get("healthz", "The process lives", true, json!({ "200": text("text/plain") }))),
        ("/readyz", get("readyz", "The node takes work", true, json!({ "200": ready("Yes"), "503": ready("No") }))),
        (
            "/metrics",
            get(
                "metrics",
                "Metrics, as OpenMetrics text",
                false,
                json!({ "200": text("application/openmetrics-text") }),
            ),
        ),
        (
            "/v1/openapi.json",
            get(
                "openapi",
                "This document",
                false,
                json!({ "200": { "description": "Done", "content": {
                "application/json": { "schema": { "type": "object" } } } } }),
            ),
        ),
    ]
}
