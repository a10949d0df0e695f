//! Notices for a worker process as they come. They are hints: who misses one learns by the refusal of the next call.

use super::Origin;
use crate::Error;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use weft_api::work::Notice;

/// A notice has a few hundred bytes; a stream of something else is given up.
const EVENT_MAX: usize = 64 << 10;

pub enum Notices {
    Http(Box<Events>),
    #[cfg(feature = "embedded")]
    Embedded(weft_dispatch::Notices),
}

impl Notices {
    /// The next one; none if the stream has ended. Nothing is lost if it is dropped while it waits.
    pub async fn next(&mut self) -> Option<Notice> {
        match self {
            Notices::Http(events) => events.next().await,
            #[cfg(feature = "embedded")]
            Notices::Embedded(notices) => notices.next().await,
        }
    }
}

impl Origin {
    /// The notices of an instance; none if what carries out the calls has no such thing.
    pub async fn notices(&self, instance: &str) -> Result<Option<Notices>, Error> {
        match self {
            Origin::Http(http) => Ok(Some(Notices::Http(Box::new(Events::of(http.notices(instance).await?))))),
            #[cfg(feature = "embedded")]
            Origin::Embedded(embedded) => Ok(Some(Notices::Embedded(embedded.notices(instance)?))),
            Origin::Other(_) => Ok(None),
        }
    }
}

/// Server-sent events out of the body of a reply.
pub struct Events {
    body: Incoming,
    buffer: BytesMut,
}

impl Events {
    fn of(body: Incoming) -> Self {
        Self { body, buffer: BytesMut::new() }
    }

    async fn next(&mut self) -> Option<Notice> {
        loop {
            while let Some(event) = split(&mut self.buffer) {
                if let Some(notice) = read(&event) {
                    return Some(notice);
                }
            }
            if self.buffer.len() > EVENT_MAX {
                return None;
            }
            if let Ok(data) = self.body.frame().await?.ok()?.into_data() {
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

/// The notice of an event, if it is one that this client knows.
fn read(event: &[u8]) -> Option<Notice> {
    let text = std::str::from_utf8(event).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    (field("event")? == "notice").then(|| serde_json::from_str(field("data")?).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdk_34_notices_are_found_in_a_stream_that_comes_in_pieces() {
        let mut buffer = BytesMut::from("retry: 2000\n\n:\n\nevent: notice\ndata: {\"kind\":\"node_stopping\"}\n");
        let mut found = Vec::new();
        while let Some(event) = split(&mut buffer) {
            found.extend(read(&event));
        }
        assert_eq!(found, []);
        buffer.extend_from_slice(b"\nevent: notice\ndata: {\"kind\":\"of the future\"}\n\nevent: bye\ndata: {}\n\n");
        while let Some(event) = split(&mut buffer) {
            found.extend(read(&event));
        }
        assert_eq!(found, [Notice::NodeStopping]);
        assert!(buffer.is_empty());
    }
}
