//! Handlers: async functions of what they need. One place routes every task to its own.

use super::extract::FromTask;
use super::failure::Failure;
use super::outcome::{IntoResult, Outcome};
use super::state::States;
use super::task::Task;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Service;

pub(crate) type Handling = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// An async function of up to eight parameters, each made from the task, that answers a result or a failure. `Args` only
/// tells the shapes apart.
pub trait Handler<Args>: Send + Sync + 'static {
    fn call(&self, task: Task) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

    /// What is missing for its parameters.
    fn missing(states: &States) -> Option<String>;
}

macro_rules! handlers {
    ($($($arg:ident)*;)+) => {
        $(
            impl<F, Fut, R, E, $($arg),*> Handler<($($arg,)*)> for F
            where
                F: Fn($($arg),*) -> Fut + Send + Sync + 'static,
                Fut: Future<Output = Result<R, E>> + Send + 'static,
                R: IntoResult,
                E: Into<Failure>,
                $($arg: FromTask,)*
            {
                #[allow(non_snake_case, unused_variables)]
                fn call(&self, task: Task) -> Handling {
                    $(
                        let $arg = match $arg::from_task(&task) {
                            Ok(value) => value,
                            Err(failure) => return Box::pin(std::future::ready(Outcome::Failed(failure))),
                        };
                    )*
                    let running = self($($arg),*);
                    Box::pin(async move { Outcome::of(running.await) })
                }

                #[allow(unused_variables)]
                fn missing(states: &States) -> Option<String> {
                    $(
                        if let Some(missing) = $arg::missing(states) {
                            return Some(missing);
                        }
                    )*
                    None
                }
            }
        )+
    };
}

handlers! {
    ;
    A;
    A B;
    A B C;
    A B C D;
    A B C D G;
    A B C D G H;
    A B C D G H I;
    A B C D G H I J;
}

type Run = Arc<dyn Fn(Task) -> Handling + Send + Sync>;

struct Route {
    run: Run,
    missing: fn(&States) -> Option<String>,
}

/// Which handler has which kind.
#[derive(Default)]
pub(crate) struct Router {
    kinds: BTreeMap<String, Route>,
    any: Option<Route>,
}

impl Router {
    pub fn put<A, H: Handler<A>>(&mut self, kind: Option<String>, handler: H) {
        let route = Route { run: Arc::new(move |task| handler.call(task)), missing: H::missing };
        match kind {
            Some(kind) => drop(self.kinds.insert(kind, route)),
            None => self.any = Some(route),
        }
    }

    /// The kinds to claim; none means any.
    pub fn kinds(&self) -> Option<Vec<String>> {
        match self.any {
            Some(_) => None,
            None => Some(self.kinds.keys().cloned().collect()),
        }
    }

    /// What some handler lacks.
    pub fn missing(&self, states: &States) -> Option<String> {
        if self.kinds.is_empty() && self.any.is_none() {
            return Some("the worker has no handler; give it one by `.handle(kind, function)`".to_string());
        }
        let any = self.any.iter().map(|route| ("any kind", route));
        let mut all = self.kinds.iter().map(|(kind, route)| (kind.as_str(), route)).chain(any);
        all.find_map(|(kind, route)| {
            (route.missing)(states).map(|missing| format!("the handler of `{kind}` needs {missing}"))
        })
    }

    pub fn call(&self, task: Task) -> Handling {
        match self.kinds.get(task.kind()).or(self.any.as_ref()) {
            Some(route) => (route.run)(task),
            // Only kinds with a handler are claimed, so that this is a server that gives what was not asked for.
            None => {
                let failure = Failure::retry(format!("this worker has no handler of `{}`", task.kind()));
                Box::pin(std::future::ready(Outcome::Failed(failure)))
            }
        }
    }
}

/// The one dispatch point of tasks, innermost of all layers.
#[derive(Clone)]
pub struct Handlers(pub(crate) Arc<Router>);

impl Service<Task> for Handlers {
    type Response = Outcome;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, task: Task) -> Self::Future {
        let handling = self.0.call(task);
        Box::pin(async move { Ok(handling.await) })
    }
}
