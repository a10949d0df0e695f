//! Calls to an engine in this process.

use super::{Answering, traceparent};
use crate::Error;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower::Service;
use weft_api::{Call, NAMESPACE_DEFAULT};
use weft_dispatch::{Around, Caller, Dispatch};
use weft_engine::Engine;

#[derive(Clone)]
pub struct Embedded {
    dispatch: Dispatch,
    namespace: String,
    principal: String,
    caller: Arc<Caller>,
}

impl Embedded {
    pub fn new(engine: Engine) -> Self {
        Self::of(Dispatch::new(engine), NAMESPACE_DEFAULT.to_string(), "service:embedded".to_string())
    }

    fn of(dispatch: Dispatch, namespace: String, principal: String) -> Self {
        let caller = Arc::new(Caller::all(namespace.as_str(), principal.as_str()));
        Self { dispatch, namespace, principal, caller }
    }

    pub fn notices(&self, instance: &str, last: Option<u64>) -> Result<weft_dispatch::Notices, Error> {
        Ok(self.dispatch.notices(&self.caller, instance, last)?)
    }

    pub fn in_namespace(self, namespace: String) -> Self {
        Self::of(self.dispatch, namespace, self.principal)
    }

    pub fn called_by(self, principal: String) -> Self {
        Self::of(self.dispatch, self.namespace, principal)
    }
}

impl Service<Call> for Embedded {
    type Response = weft_api::Reply;
    type Error = Error;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Answering {
        let (dispatch, caller) = (self.dispatch.clone(), self.caller.clone());
        let around = Around { trace: traceparent() };
        Box::pin(async move {
            let answer = dispatch.call(&caller, call, &around).await?;
            Ok(answer.reply)
        })
    }
}
