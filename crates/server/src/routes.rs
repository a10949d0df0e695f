//! The router, made from the table of operations.

use crate::app::App;
use crate::around::around;
use crate::handle::{self, Incoming};
use crate::pages::{self, Page};
use crate::{docs, notices};
use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request};
use axum::routing::{MethodFilter, MethodRouter, on};
use std::collections::BTreeMap;
use weft_api::{Code, Method, OPERATIONS, Problem, Spec};

/// Everything the server answers, to be served or to be nested in an application's own router.
pub fn router(app: App) -> Router {
    let mut paths: BTreeMap<&str, MethodRouter> = BTreeMap::new();
    for spec in OPERATIONS.iter().copied() {
        let all = paths.remove(spec.path).unwrap_or_default();
        paths.insert(spec.path, all.merge(operation(app.clone(), spec)));
    }
    paths.insert(notices::PATH, told(app.clone()));
    for (path, page) in Page::ALL {
        paths.insert(path, shown(app.clone(), path, page));
    }
    finished(app, paths)
}

/// What a listener for metrics answers: nothing but how the node is, to whoever can reach it.
pub fn metrics_router(app: App) -> Router {
    let pages = [("/metrics", Page::OpenMetrics), ("/healthz", Page::Health), ("/readyz", Page::Ready)];
    let paths = pages.into_iter().map(|(path, page)| (path, shown(app.clone(), path, page)));
    finished(app.clone(), paths.collect())
}

/// Adds to every path the refusal of other methods, and to all of them that of other paths.
fn finished(app: App, paths: BTreeMap<&'static str, MethodRouter>) -> Router {
    let mut router = Router::new();
    for (path, methods) in paths {
        let app = app.clone();
        let refuse = move |request: Request| {
            let app = app.clone();
            async move {
                around(&app, path, request, async |request, _| Err(refusal(Code::MethodNotAllowed, &request))).await
            }
        };
        router = router.route(path, methods.fallback(refuse));
    }
    router.fallback(move |request: Request| {
        let app = app.clone();
        async move { around(&app, "unknown", request, async |request, _| Err(refusal(Code::RouteNotFound, &request))).await }
    })
}

fn operation(app: App, spec: &'static Spec) -> MethodRouter {
    on(filter(spec.method), move |params: PathParams, request: Request| {
        let app = app.clone();
        async move {
            around(&app, spec.path, request, async |request, name| {
                let incoming = Incoming { spec, path: values(params) };
                handle::call(&app, incoming, request, name).await
            })
            .await
        }
    })
}

fn told(app: App) -> MethodRouter {
    on(MethodFilter::GET, move |params: PathParams, request: Request| {
        let app = app.clone();
        async move {
            around(&app, notices::PATH, request, async |request, name| {
                // It ends by itself when the server stops; only its beginning counts.
                let _in_flight = app.shared.drain.enter()?;
                notices::serve(&app, values(params)?, request, name).await
            })
            .await
        }
    })
}

fn shown(app: App, path: &'static str, page: Page) -> MethodRouter {
    on(MethodFilter::GET, move |request: Request| {
        let app = app.clone();
        async move {
            around(&app, path, request, async |request, name| {
                let (parts, _) = request.into_parts();
                pages::show(&app, page, &parts, name).await
            })
            .await
        }
    })
}

type PathParams = Result<RawPathParams, RawPathParamsRejection>;

fn values(params: PathParams) -> Result<Vec<String>, Problem> {
    match params {
        Ok(params) => Ok(params.iter().map(|(_, value)| value.to_string()).collect()),
        Err(RawPathParamsRejection::InvalidUtf8InPathParam(_)) => Err(Problem::invalid("path", "is not UTF-8")),
        Err(_) => Err(Problem::new(Code::Internal, "the path could not be read")),
    }
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

/// What is not there, without a look at who asks: the table is public.
fn refusal(code: Code, request: &Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    match code {
        Code::MethodNotAllowed => Problem::new(code, format!("`{path}` has no `{method}`")).hint(docs::HINT),
        _ => Problem::new(code, format!("there is no `{path}`")).hint(docs::HINT),
    }
}
