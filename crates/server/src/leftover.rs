//! What is left of a body when its request has been answered: read to the end if that is cheap, so that the connection
//! can be used again, and said so if it is not.

use crate::connection::Activity;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Version};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// So much is read and thrown away, for so long. More would cost more than another connection.
const LEFT_MAX: u64 = 2 << 20;
const LEFT_TIME: Duration = Duration::from_secs(2);

/// The other end of a body that was given to somebody.
pub struct Leftover {
    rest: Arc<Mutex<Rest>>,
    /// The caller sends its body only when asked to, and is not asked to in order to throw it away.
    on_demand: bool,
    activity: Option<Arc<Activity>>,
}

/// The unread rest of a body.
#[derive(Default)]
enum Rest {
    #[default]
    Nothing,
    Unread(Body),
    /// Nobody can say where the next request begins.
    Broken,
}

/// Lets a request's body come back if it is not read to its end. None if there is nothing to come back.
pub fn lend(request: &mut Request) -> Option<Leftover> {
    // Streams of HTTP/2 end one by one.
    let one_after_the_other = matches!(request.version(), Version::HTTP_10 | Version::HTTP_11);
    if !one_after_the_other || request.body().is_end_stream() {
        return None;
    }
    let rest = Arc::default();
    let on_demand = request.headers().contains_key(EXPECT);
    let activity = request.extensions().get::<Arc<Activity>>().cloned();
    let body = std::mem::take(request.body_mut());
    *request.body_mut() = Body::new(Lent { body: Some(body), rest: Arc::clone(&rest) });
    Some(Leftover { rest, on_demand, activity })
}

impl Leftover {
    /// Sees to what was not read before `response` is sent. With `is_last` nothing is read any more: the server stops.
    pub async fn settle(self, response: &mut Response, is_last: bool) {
        let rest = std::mem::take(&mut *self.rest.lock().unwrap_or_else(PoisonError::into_inner));
        let is_read = match rest {
            Rest::Nothing => true,
            Rest::Unread(mut body) => {
                !is_last && !self.on_demand && body.size_hint().lower() <= LEFT_MAX && throw_away(&mut body).await
            }
            Rest::Broken => false,
        };
        if is_read {
            return;
        }
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        if let Some(activity) = self.activity {
            activity.leave_unread();
        }
    }
}

/// True if that was all.
async fn throw_away(body: &mut Body) -> bool {
    let all = async {
        let mut size = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            size += frame.data_ref().map_or(0, |data| data.len() as u64);
            if size > LEFT_MAX {
                return false;
            }
        }
        true
    };
    tokio::time::timeout(LEFT_TIME, all).await.unwrap_or(false)
}

struct Lent {
    /// None once it has ended.
    body: Option<Body>,
    rest: Arc<Mutex<Rest>>,
}

impl Lent {
    fn leave(&self, rest: Rest) {
        *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = rest;
    }
}

impl http_body::Body for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        if matches!(frame, Some(Err(_))) {
            self.leave(Rest::Broken);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(body) = self.body.take().filter(|body| !body.is_end_stream()) {
            self.leave(Rest::Unread(body));
        }
    }
}
