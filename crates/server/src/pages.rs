//! What the server answers by itself, beside the calls of the API.

use crate::app::App;
use crate::identify::{check_local, identify};
use crate::{docs, reply};
use axum::response::Response;
use http::HeaderValue;
use http::header::LOCATION;
use http::request::Parts;
use weft_api::node::Readiness;
use weft_api::{Code, Problem, payload};

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

pub async fn show(app: &App, page: Page, parts: &Parts) -> Result<Response, Problem> {
    let shared = &app.shared;
    match page {
        Page::Health => Ok(match shared.health.is_alive() {
            true => reply::bytes(200, "ok\n".into(), Some(TEXT)),
            false => reply::bytes(503, "the process hangs\n".into(), Some(TEXT)),
        }),
        Page::Ready => {
            let mut why: Vec<String> = shared.health.not_ready().into_iter().map(str::to_string).collect();
            if shared.drain.has_begun() {
                why.push("draining".to_string());
            }
            let ready = why.is_empty();
            // Details are for operators; a bad key does not make the answer another one.
            if !ready && !shared.is_operator(parts).await.unwrap_or(false) {
                why.clear();
            }
            let body = serde_json::to_vec(&Readiness { ready, why }).expect("pages: readiness is JSON");
            Ok(reply::bytes(if ready { 200 } else { 503 }, body.into(), Some(payload::JSON)))
        }
        Page::Metrics => match shared.is_operator(parts).await? {
            true => Ok(reply::bytes(200, app.metrics_text().into(), Some(METRICS))),
            false => Err(Problem::new(Code::Forbidden, "this call needs the scope `operate`")),
        },
        Page::OpenMetrics => Ok(reply::bytes(200, app.metrics_text().into(), Some(METRICS))),
        Page::Document => {
            identify(shared, parts, None).await?;
            Ok(reply::bytes(200, docs::document_text().into(), Some(payload::JSON)))
        }
        Page::Root | Page::Docs | Page::DocsStyle => {
            // Static pages hold no data and need no key, but a server for this machine answers this machine only.
            if app.is_dev() {
                check_local(parts)?;
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
