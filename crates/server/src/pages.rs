//! What the server answers by itself, beside the calls of the API.

use crate::app::{App, Shared};
use crate::identify::{check_local, identify};
use crate::{docs, reply};
use axum::response::Response;
use http::HeaderValue;
use http::header::{AUTHORIZATION, LOCATION, RETRY_AFTER};
use http::request::Parts;
use weft_api::node::Readiness;
use weft_api::{Code, Problem, Scope, payload};
use weft_dispatch::{Caller, Reach};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    Root,
    Health,
    Ready,
    Metrics,
    /// On a listener of its own, which needs no key.
    OpenMetrics,
    Document,
    Docs,
    DocsStyle,
}

impl Page {
    pub const ALL: [(&'static str, Page); 7] = [
        ("/", Page::Root),
        ("/healthz", Page::Health),
        ("/readyz", Page::Ready),
        ("/metrics", Page::Metrics),
        ("/v1/openapi.json", Page::Document),
        ("/docs", Page::Docs),
        ("/docs/page.css", Page::DocsStyle),
    ];
}

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers a page; `name` is told who asks if that is looked at.
pub async fn show(app: &App, page: Page, parts: &Parts, name: &mut String) -> Result<Response, Problem> {
    let shared = &app.shared;
    match page {
        Page::Health => Ok(match shared.health.is_alive() {
            true => reply::bytes(200, "ok\n".into(), Some(TEXT)),
            false => reply::bytes(503, "the process hangs\n".into(), Some(TEXT)),
        }),
        Page::Ready => {
            let mut why: Vec<&str> = shared.health.not_ready().into_iter().collect();
            if shared.drain.has_begun() && why != ["draining"] {
                why.push("draining");
            }
            let ready = why.is_empty();
            if !ready && !wants_details(shared, parts, name).await {
                why = why.into_iter().map(in_a_word).collect();
            }
            let why = why.into_iter().map(str::to_string).collect();
            let body = serde_json::to_vec(&Readiness { ready, why }).expect("pages: readiness is JSON");
            let mut response = reply::bytes(if ready { 200 } else { 503 }, body.into(), Some(payload::JSON));
            if !ready {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Ok(response)
        }
        Page::Metrics => {
            let caller = identify(shared, parts, None, name).await?.caller;
            shared.allowed(&caller, "metrics", "", may_see_all(&caller))?;
            Ok(reply::bytes(200, app.metrics_text().into(), Some(METRICS)))
        }
        Page::OpenMetrics => Ok(reply::bytes(200, app.metrics_text().into(), Some(METRICS))),
        Page::Document => {
            identify(shared, parts, None, name).await?;
            Ok(reply::bytes(200, docs::document_text().into(), Some(payload::JSON)))
        }
        Page::Root | Page::Docs | Page::DocsStyle => {
            // Static pages hold no data and need no key, but a server for this machine answers this machine only.
            if app.is_dev() {
                check_local(parts, &shared.origins())?;
            }
            Ok(match page {
                Page::Docs => docs::page(),
                Page::DocsStyle => reply::bytes(200, docs::STYLE.into(), Some("text/css; charset=utf-8")),
                _ => {
                    let mut response = reply::bytes(307, "".into(), None);
                    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/docs"));
                    response
                }
            })
        }
    }
}

/// Metrics are of the whole node, with lanes of every namespace.
fn may_see_all(caller: &Caller) -> Result<(), Problem> {
    caller.needs(Scope::Operate)?;
    match caller.reach {
        Reach::All => Ok(()),
        Reach::Some(_) => Err(Problem::new(Code::Forbidden, "metrics are of all namespaces, and the key is not")
            .hint("use a key on `*`, or the listener of `metrics.listen`")),
    }
}

/// True if an operator asks. A bad key does not make the answer another one, and none is not looked for.
async fn wants_details(shared: &Shared, parts: &Parts, name: &mut String) -> bool {
    let may_have_one = shared.keyring.is_none() || parts.headers.contains_key(AUTHORIZATION);
    may_have_one && identify(shared, parts, None, name).await.is_ok_and(|known| known.caller.has(Scope::Operate))
}

/// What everybody may know of the reason.
fn in_a_word(why: &'static str) -> &'static str {
    match why {
        "starting" | "draining" => why,
        _ if why.starts_with("clock") => "clock",
        _ if why.starts_with("partition") || why.starts_with("scanners") => "engine",
        _ => "store",
    }
}
