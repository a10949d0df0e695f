//! Why a worker has broken down, if one has. As a layer around the client of a test it lets the test fail, which would wait
//! in vain otherwise.

use crate::Error;
use crate::transport::{Answering, Transport};
use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tower::{Layer, Service};
use weft_api::{Call, Reply};

#[derive(Clone, Default)]
pub struct Broken(Arc<Mutex<Option<String>>>);

impl Broken {
    pub fn set(&self, panic: &(dyn Any + Send)) {
        let said = panic.downcast_ref::<&str>().map(|said| (*said).to_string());
        let said = said.or_else(|| panic.downcast_ref::<String>().cloned());
        let said = said.unwrap_or_else(|| "it panicked".to_string());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(said);
    }

    fn check(&self) {
        let broken = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(said) = broken {
            panic!("the worker of the harness broke down: {said}");
        }
    }
}

impl Layer<Transport> for Broken {
    type Service = Checked;

    fn layer(&self, inner: Transport) -> Checked {
        Checked { broken: self.clone(), inner }
    }
}

#[derive(Clone)]
pub struct Checked {
    broken: Broken,
    inner: Transport,
}

impl Service<Call> for Checked {
    type Response = Reply;
    type Error = Error;
    type Future = Answering;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Answering {
        self.broken.check();
        let (broken, answer) = (self.broken.clone(), self.inner.call(call));
        Box::pin(async move {
            let answer = answer.await;
            broken.check();
            answer
        })
    }
}
