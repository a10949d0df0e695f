//! HTTP/2 beside HTTP/1.1, on one port.

use crate::kit::*;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};

#[tokio::test]
async fn api_52_http_2_is_spoken_to_those_who_begin_with_it() {
    let server = Server::dev().await;
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let url = |path: &str| format!("http://{}{path}", server.address);
    let submit =
        http::Request::post(url("/v1/executions")).body(Full::<bytes::Bytes>::from(r#"{"kind":"mail"}"#)).unwrap();
    let made = within(sender.send_request(submit)).await.unwrap();
    assert_eq!((made.status().as_u16(), made.version()), (201, http::Version::HTTP_2));
    let body = made.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8(body.to_vec()).unwrap().contains("\"waiting\""));
    let foreign = http::Request::get("http://evil.example/v1/executions").body(Full::<bytes::Bytes>::from("")).unwrap();
    assert_eq!(within(sender.send_request(foreign)).await.unwrap().status(), 403);
}
