//! Notices for one worker process, as server-sent events.

use crate::app::App;
use crate::identify::{identify, namespace_of};
use crate::waiting::take_seat;
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
use weft_api::{Code, Problem, Scope};

pub const PATH: &str = "/v1/workers/{instance}/notices";
/// A line that says nothing, so that both ends know that the connection lives.
const BEAT: Duration = Duration::from_secs(15);
/// Events that wait for a slow reader; beyond that the notices themselves wait.
const AHEAD: usize = 16;

pub async fn serve(app: &App, path: Vec<String>, request: Request, name: &mut String) -> Result<Response, Problem> {
    let shared = &app.shared;
    let (parts, _) = request.into_parts();
    let (namespace, query) = namespace_of(&parts)?;
    let known = identify(shared, &parts, namespace).await?;
    *name = known.caller.name.to_string();
    if !known.caller.has(Scope::Work) {
        shared.metrics.refused("scope");
        let problem = Problem::new(Code::Forbidden, "this call needs the scope `work`");
        return Err(problem.field("needs", Scope::Work.names()));
    }
    known.caller.chosen()?;
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
    let seat = take_seat(shared, known.good.as_ref())?;
    let instance = path.into_iter().next().unwrap_or_default();
    let mut notices = shared.dispatch.notices(&known.caller, &instance)?;
    let (send, receive) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(AHEAD);
    let app = app.clone();
    let open = shared.metrics.stream("notices");
    tokio::spawn(async move {
        let _held = (seat, open);
        let say = async |text: String| send.send(Ok(Frame::data(Bytes::from(text)))).await.is_ok();
        let mut going = say("retry: 2000\n\n".to_string()).await;
        while going {
            going = tokio::select! {
                biased;
                notice = notices.next() => match notice {
                    Some(notice) => {
                        let text = serde_json::to_string(&notice).expect("notices: a notice is JSON");
                        say(format!("event: notice\ndata: {text}\n\n")).await
                    }
                    None => false,
                },
                () = app.shared.drain.begun() => {
                    say("event: bye\ndata: {}\n\n".to_string()).await;
                    false
                }
                () = tokio::time::sleep(BEAT) => say(":\n\n".to_string()).await,
                () = send.closed() => false,
            };
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
