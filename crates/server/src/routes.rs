//! The router, made from the table of operations.

use crate::app::App;
use crate::handle::{self, Incoming};
use crate::{docs, notices, reply};
use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use std::collections::BTreeMap;
use weft_api::{Code, Method, OPERATIONS, Problem, Spec};

/// Everything the server answers, to be served or to be nested in an application's own router.
pub fn router(app: App) -> Router {
    let mut paths: BTreeMap<&str, MethodRouter> = BTreeMap::new();
    for spec in OPERATIONS.iter().copied() {
        let route = operation(app.clone(), spec);
        let all = paths.remove(spec.path).unwrap_or_default();
        paths.insert(spec.path, all.merge(route));
    }
    let mut router = Router::new();
    for (path, methods) in paths {
        let refuse = refusal(app.clone(), Code::MethodNotAllowed);
        router = router.route(path, methods.fallback(refuse));
    }
    for (path, page) in [
        ("/healthz", handle::Page::Health),
        ("/readyz", handle::Page::Ready),
        ("/metrics", handle::Page::Metrics),
        ("/v1/openapi.json", handle::Page::Document),
        ("/docs", handle::Page::Docs),
        ("/docs/page.css", handle::Page::DocsStyle),
    ] {
        let (app, refused) = (app.clone(), app.clone());
        let methods = on(MethodFilter::GET, move |request: Request| {
            let app = app.clone();
            async move { handle::page(&app, page, request).await }
        });
        router = router.route(path, methods.fallback(refusal(refused, Code::MethodNotAllowed)));
    }
    let told = app.clone();
    let notices = on(MethodFilter::GET, move |params: RawPathParams, request: Request| {
        let app = told.clone();
        async move { notices::serve(&app, values(&params), request).await }
    });
    router = router.route("/v1/workers/{instance}/notices", notices);
    router.fallback(refusal(app, Code::RouteNotFound))
}

fn operation(app: App, spec: &'static Spec) -> MethodRouter {
    on(filter(spec.method), move |params: RawPathParams, request: Request| {
        let app = app.clone();
        async move {
            let incoming = Incoming { spec, path: values(&params) };
            handle::call(&app, incoming, request).await
        }
    })
}

fn values(params: &RawPathParams) -> Vec<String> {
    params.iter().map(|(_, value)| value.to_string()).collect()
}

const fn filter(method: Method) -> MethodFilter {
    match method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Patch => MethodFilter::PATCH,
        Method::Delete => MethodFilter::DELETE,
    }
}

/// Answers what is not there, without looking at who asks: the table is public.
fn refusal(app: App, code: Code) -> impl Fn(Request<Body>) -> std::future::Ready<Response> + Clone {
    move |request| {
        let (method, path) = (request.method(), request.uri().path());
        let problem = match code {
            Code::MethodNotAllowed => Problem::new(code, format!("`{path}` has no `{method}`")).hint(docs::HINT),
            _ => Problem::new(code, format!("there is no `{path}`")).hint(docs::HINT),
        };
        let id = handle::request_id(request.headers());
        let problem = Problem { request_id: Some(id.clone()), ..problem };
        let mut response = reply::problem(&problem);
        reply::finish(&mut response, &id, app.engine().now().ms());
        std::future::ready(response)
    }
}
