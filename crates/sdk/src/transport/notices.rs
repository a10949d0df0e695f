//! Notices for a worker process as they come. They are hints: who misses one learns by the refusal of the next call.

use super::Origin;
use crate::Error;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use weft_api::work::Notice;

/// What a stream of notices brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tiding {
    Notice(Notice),
    /// Some were dropped on the way
    Missed,
}

/// A notice has a few hundred bytes; a stream of something else is given up.
const EVENT_MAX: usize = 64 << 10;

/// A stream of notices.
pub struct Notices(Source);

enum Source {
    Http(Box<Events>),
    #[cfg(feature = "embedded")]
    Embedded(weft_dispatch::Notices),
}

impl Notices {
    /// The next one; none if the stream has ended. Nothing is lost if it is dropped while it waits.
    pub async fn next(&mut self) -> Option<Tiding> {
        match &mut self.0 {
            Source::Http(events) => events.next().await,
            #[cfg(feature = "embedded")]
            Source::Embedded(notices) => Some(match notices.next().await? {
                weft_dispatch::Tiding::Notice(notice) => Tiding::Notice(notice),
                weft_dispatch::Tiding::Missed => Tiding::Missed,
            }),
        }
    }
}

impl Origin {
    /// The notices of an instance, after the number that was heard last; none if what carries out the calls has no such
    /// thing.
    pub async fn notices(&self, instance: &str, last: Option<u64>) -> Result<Option<Notices>, Error> {
        let source = match self {
            Origin::Http(http) => Source::Http(Box::new(Events::of(http.notices(instance, last).await?))),
            #[cfg(feature = "embedded")]
            Origin::Embedded(embedded) => Source::Embedded(embedded.notices(instance, last)?),
            Origin::Other(_) => return Ok(None),
        };
        Ok(Some(Notices(source)))
    }
}

/// A server says something every 15 seconds; after three times that a connection is dead that looks open.
const IDLE: Duration = Duration::from_secs(45);

/// Server-sent events out of the body of a reply.
struct Events<B = Incoming> {
    body: B,
    buffer: BytesMut,
    heard_at: Instant,
}

impl<B: Body<Data = Bytes> + Unpin> Events<B> {
    fn of(body: B) -> Self {
        Self { body, buffer: BytesMut::new(), heard_at: Instant::now() }
    }

    async fn next(&mut self) -> Option<Tiding> {
        loop {
            while let Some(event) = split(&mut self.buffer) {
                if let Some(tiding) = read(&event) {
                    return Some(tiding);
                }
            }
            if self.buffer.len() > EVENT_MAX {
                return None;
            }
            let frame = timeout_at(self.heard_at + IDLE, self.body.frame()).await.ok()?;
            self.heard_at = Instant::now();
            if let Ok(data) = frame?.ok()?.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}

/// The first whole event.
fn split(buffer: &mut BytesMut) -> Option<Bytes> {
    let end = buffer.windows(2).position(|pair| pair == b"\n\n")?;
    Some(buffer.split_to(end + 2).freeze())
}

/// What an event says, if it is one that this client knows.
fn read(event: &[u8]) -> Option<Tiding> {
    let text = std::str::from_utf8(event).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    match field("event")? {
        "notice" => serde_json::from_str(field("data")?).ok().map(Tiding::Notice),
        "missed" => Some(Tiding::Missed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use weft_api::work::NoticeKind;

    #[tokio::test(start_paused = true)]
    async fn sdk_34_a_stream_that_has_fallen_silent_is_given_up() {
        // A comment every 15 seconds for a while, and then nothing, not even an end.
        let frames = futures_util::stream::unfold(0, |no| async move {
            match no {
                0..8 => tokio::time::sleep(Duration::from_secs(15)).await,
                _ => std::future::pending().await,
            }
            Some((Ok::<_, std::convert::Infallible>(Frame::data(Bytes::from_static(b":\n\n"))), no + 1))
        });
        let began = Instant::now();
        let mut events = Events::of(StreamBody::new(Box::pin(frames)));
        // The loop of a worker drops the wait whenever something else happens.
        loop {
            tokio::select! {
                heard = events.next() => break assert_eq!(heard, None),
                () = tokio::time::sleep(Duration::from_secs(4)) => {}
            }
        }
        assert_eq!(began.elapsed(), Duration::from_secs(8 * 15 + 45));
    }

    #[test]
    fn sdk_34_notices_are_found_in_a_stream_that_comes_in_pieces() {
        let mut buffer =
            BytesMut::from("retry: 2000\n\n:\n\nevent: notice\nid: 7\ndata: {\"no\":7,\"kind\":\"node_stopping\"}\n");
        let mut found = Vec::new();
        while let Some(event) = split(&mut buffer) {
            found.extend(read(&event));
        }
        assert_eq!(found, []);
        buffer.extend_from_slice(b"\nevent: notice\ndata: {\"no\":8,\"kind\":\"of the future\"}\n\nevent: missed\ndata: {\"missed\":true}\n\nevent: bye\ndata: {}\n\n");
        while let Some(event) = split(&mut buffer) {
            found.extend(read(&event));
        }
        let notice = Notice { no: 7, what: NoticeKind::NodeStopping };
        assert_eq!(found, [Tiding::Notice(notice), Tiding::Missed]);
        assert!(buffer.is_empty());
    }
}
