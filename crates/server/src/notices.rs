//! Notices for one worker process, as server-sent events.

use crate::app::App;
use crate::handle::{self, request_id};
use crate::reply;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use http_body_util::StreamBody;
use hyper::body::Frame;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;
use weft_api::{Code, Problem, Scope};

/// A line that says nothing, so that both ends know that the connection lives.
const BEAT: Duration = Duration::from_secs(15);

pub async fn serve(app: &App, path: Vec<String>, request: Request) -> Response {
    let id = request_id(request.headers());
    let mut response = match open(app, path, &request, &id).await {
        Ok(response) => response,
        Err(problem) => reply::problem(&Problem { request_id: Some(id.clone()), ..problem }),
    };
    reply::finish(&mut response, &id, app.engine().now().ms());
    response
}

async fn open(app: &App, path: Vec<String>, request: &Request, id: &str) -> Result<Response, Problem> {
    let shared = &app.shared;
    let known = handle::identify(shared, request.headers(), handle::peer(request.extensions()), id).await?;
    if !known.caller.has(Scope::Work) {
        return Err(Problem::new(Code::Forbidden, "this call needs the scope `work`"));
    }
    let instance = path.into_iter().next().unwrap_or_default();
    let mut notices = shared.dispatch.notices(&known.caller, &instance)?;
    let (send, receive) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(16);
    let app = app.clone();
    tokio::spawn(async move {
        let say = |text: String| {
            let send = send.clone();
            async move { send.send(Ok(Frame::data(Bytes::from(text)))).await.is_ok() }
        };
        let mut going = say("retry: 2000\n\n".to_string()).await;
        while going {
            going = tokio::select! {
                () = app.shared.drain.begun() => {
                    say("event: bye\ndata: {}\n\n".to_string()).await;
                    false
                }
                notice = notices.recv() => match notice {
                    Some(notice) => {
                        let text = serde_json::to_string(&notice).expect("notices: a notice is JSON");
                        say(format!("event: notice\ndata: {text}\n\n")).await
                    }
                    None => false,
                },
                () = tokio::time::sleep(BEAT) => say(":\n\n".to_string()).await,
                () = send.closed() => false,
            };
        }
    });
    let stream = futures_util::stream::unfold(receive, |mut receive| async move {
        receive.recv().await.map(|frame| (frame, receive))
    });
    let mut response = Response::new(Body::new(StreamBody::new(stream)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}
