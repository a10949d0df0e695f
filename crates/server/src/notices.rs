//! Notices for one worker process, as server-sent events.

use crate::app::App;
use crate::identify::identify;
use crate::query::namespace_of;
use crate::reply;
use crate::waiting::{Open, key_lost, take_seat};
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::StreamBody;
use hyper::body::Frame;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;
use weft_api::{Code, Problem, Scope, with_big_as_text};
use weft_dispatch::{Notices, Tiding};

pub const PATH: &str = "/v1/workers/{instance}/notices";
/// A line that says nothing, so that both ends know that the connection lives.
const BEAT: Duration = Duration::from_secs(15);
/// Events that wait for a slow reader; beyond that the notices themselves wait.
const AHEAD: usize = 16;
const MISSED: Bytes = Bytes::from_static(b"event: missed\ndata: {\"missed\":true}\n\n");
const BYE: Bytes = Bytes::from_static(b"event: bye\ndata: {}\n\n");

type Event = Result<Frame<Bytes>, Infallible>;

pub async fn serve(app: &App, path: Vec<String>, request: Request, name: &mut String) -> Result<Response, Problem> {
    let shared = &app.shared;
    let (parts, _) = request.into_parts();
    let (namespace, query) = namespace_of(&parts)?;
    let known = identify(shared, &parts, namespace, name).await?;
    let may = known.caller.needs(Scope::Work).and_then(|()| known.caller.chosen());
    shared.allowed(&known.caller, "notices", path.first().map_or("", String::as_str), may)?;
    if let Some(unknown) = query.split('&').find(|pair| !pair.is_empty()) {
        let unknown = unknown.split('=').next().unwrap_or_default();
        return Err(Problem::invalid(unknown, "is not a field of this request"));
    }
    let accepts = |value: &HeaderValue| {
        value.to_str().is_ok_and(|value| value.contains("text/event-stream") || value.contains("*/*"))
    };
    if !parts.headers.get_all(ACCEPT).iter().all(accepts) {
        return Err(Problem::new(Code::NotAcceptable, "notices come as `text/event-stream` only"));
    }
    let big_as_text = reply::wants_big_as_text(&parts.headers)?;
    let seat = take_seat(shared, known.good.as_ref(), Open::Stream)?;
    let instance = path.into_iter().next().unwrap_or_default();
    // An id that is none of ours is one of which nothing is known: the stream begins with a gap.
    let last = parts.headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default().trim());
    let last = last.filter(|id| !id.is_empty()).map(|id| id.parse().unwrap_or(u64::MAX));
    let mut notices = shared.dispatch.notices(&known.caller, &instance, last)?;
    let (send, receive) = mpsc::channel::<Event>(AHEAD);
    let app = app.clone();
    let open = shared.metrics.stream("notices");
    tokio::spawn(async move {
        let _held = (seat, open);
        tokio::select! {
            biased;
            _ = key_lost(&app.shared, &known, |caller| caller.needs(Scope::Work)) => {
                // A reader who is slow is not waited for.
                let _ = send.try_send(Ok(Frame::data(BYE)));
            }
            () = tell(&app, &mut notices, &send, big_as_text) => {}
        }
    });
    let stream = futures_util::stream::unfold(receive, async |mut receive| {
        let frame = receive.recv().await?;
        Some((frame, receive))
    });
    let mut response = Response::new(Body::new(StreamBody::new(stream)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// Writes notices until the reader is gone, they end or the server stops.
async fn tell(app: &App, notices: &mut Notices, send: &mpsc::Sender<Event>, big_as_text: bool) {
    let say = async |text: Bytes| send.send(Ok(Frame::data(text))).await.is_ok();
    let mut going = say(Bytes::from_static(b"retry: 2000\n\n")).await;
    while going {
        going = tokio::select! {
            biased;
            notice = notices.next() => match notice {
                Some(Tiding::Notice(notice)) => {
                    let text = serde_json::to_vec(&notice).expect("notices: a notice is JSON");
                    let big = big_as_text.then(|| with_big_as_text(&text)).flatten();
                    let head = format!("event: notice\nid: {}\ndata: ", notice.no);
                    say([head.as_bytes(), &big.unwrap_or(text)[..], b"\n\n"].concat().into()).await
                }
                Some(Tiding::Missed) => say(MISSED).await,
                None => false,
            },
            () = app.shared.drain.begun() => {
                say(BYE).await;
                false
            }
            () = tokio::time::sleep(BEAT) => say(Bytes::from_static(b":\n\n")).await,
            () = send.closed() => false,
        };
    }
}
