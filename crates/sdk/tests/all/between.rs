//! A client whose calls a test may answer itself, hold back or look at.

use std::future::Future;
use weft_sdk::api::{Call, Reply};
use weft_sdk::layer::Retry;
use weft_sdk::{Client, Error, Transport};

/// A client whose every call goes to `meddle`, with the client it would have gone to.
pub fn between<F, Fut>(client: &Client, meddle: F) -> Client
where
    F: Fn(Call, Client) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<Reply, Error>> + Send + 'static,
{
    let inner = client.clone().retry(Retry::default().times(0));
    Client::over(Transport::new(tower::service_fn(move |call: Call| meddle(call, inner.clone()))))
}
