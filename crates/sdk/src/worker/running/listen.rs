//! Listening for notices. A worker that hears none works all the same: renewals and heartbeats tell the same, later.

use super::{Flight, Running};
use crate::Error;
use crate::client::back_off;
use crate::transport::{Notices, Tiding};
use std::collections::BTreeSet;
use tokio::time::Instant;
use weft_api::work::Notice;
use weft_api::{Class, Code};

/// Numbers of notices that are remembered, so that one that comes again is known.
const HEARD_MAX: usize = 1_000;

#[derive(Default)]
pub struct Listening {
    opening: Option<Flight<Option<Notices>>>,
    open: Option<Notices>,
    /// There are no notices where the calls go.
    absent: bool,
    failures: u32,
    /// The number that came last down a stream
    last: Option<u64>,
    /// What was heard, on whichever way it came first
    heard: Numbers,
    /// No new stream before
    pub after: Option<Instant>,
}

pub enum Heard {
    Opened(Result<Option<Notices>, Error>),
    Tiding(Tiding),
    Closed,
}

impl Listening {
    /// Hears no more of a session that is over.
    pub fn stop(&mut self) {
        self.open = None;
        self.opening = None;
    }

    /// What comes next. Never ready while nothing is open or being opened.
    pub async fn heard(&mut self) -> Heard {
        if let Some(opening) = &mut self.opening {
            let opened = opening.await;
            self.opening = None;
            return Heard::Opened(opened);
        }
        match &mut self.open {
            Some(notices) => notices.next().await.map_or(Heard::Closed, Heard::Tiding),
            None => std::future::pending().await,
        }
    }
}

impl Running {
    pub fn listen(&mut self, now: Instant) {
        let listening = &mut self.listening;
        if listening.after.is_some_and(|after| after > now) {
            return;
        }
        listening.after = None;
        let is_busy = listening.absent || listening.open.is_some() || listening.opening.is_some();
        if is_busy || !self.registration.is_known() {
            return;
        }
        let (client, instance, last) = (self.once.clone(), self.instance.clone(), listening.last);
        listening.opening = Some(Box::pin(async move { client.notices(&instance, last).await }));
    }

    pub fn heard(&mut self, heard: Heard) -> Result<(), Error> {
        match heard {
            Heard::Opened(Ok(None)) => self.listening.absent = true,
            Heard::Opened(Ok(notices)) => {
                self.listening.failures = 0;
                self.listening.open = notices;
            }
            Heard::Opened(Err(error)) => {
                tracing::debug!(%error, "could not listen for notices");
                match again(&error) {
                    Again::Never => self.listening.absent = true,
                    Again::After(at_least_ms) => self.listen_later(at_least_ms),
                }
            }
            Heard::Closed => {
                self.listening.open = None;
                self.listen_later(None);
            }
            Heard::Tiding(Tiding::Notice(notice)) => {
                self.listening.last = Some(notice.no);
                return self.told(vec![notice], false);
            }
            Heard::Tiding(Tiding::Missed) => return self.told(Vec::new(), true),
        }
        Ok(())
    }

    /// Notices, on whichever way they came. What came before is passed; after a gap a heartbeat tells all.
    pub fn told(&mut self, notices: Vec<Notice>, missed: bool) -> Result<(), Error> {
        if missed {
            self.beat_now();
        }
        for notice in notices {
            if self.listening.heard.is_new(notice.no) {
                self.noticed(notice.what)?;
            }
        }
        Ok(())
    }

    fn listen_later(&mut self, at_least_ms: Option<u64>) {
        self.listening.failures += 1;
        let pause = back_off(self.listening.failures + 4, at_least_ms, self.once.world());
        self.listening.after = Some(Instant::now() + pause);
    }
}

/// How long to wait at least before a stream that was refused is asked for again.
const REFUSED_MS: u64 = 60_000;

#[derive(Debug, PartialEq, Eq)]
enum Again {
    Never,
    After(Option<u64>),
}

/// When to ask again for a stream that could not be opened. Without the right to listen there is nothing to wait for; a
/// server that has no notices, or a defect, may be another one tomorrow.
fn again(error: &Error) -> Again {
    match error.code() {
        Some(Code::Forbidden | Code::Unauthorized | Code::NotAcceptable) => Again::Never,
        _ if error.class().is_some_and(|class| class != Class::Later) => Again::After(Some(REFUSED_MS)),
        _ => Again::After(error.retry_after_ms()),
    }
}

/// Numbers of notices that were heard. Not only the largest: those of another node may be smaller and are no repeats.
#[derive(Default)]
struct Numbers(BTreeSet<u64>);

impl Numbers {
    /// False for one that came before.
    fn is_new(&mut self, no: u64) -> bool {
        let is_new = self.0.insert(no);
        if self.0.len() > HEARD_MAX {
            self.0.pop_first();
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sdk_34_only_who_may_not_listen_gives_it_up() {
        let refused = |code| Error::from(weft_api::Problem::new(code, "no"));
        for code in [Code::Forbidden, Code::Unauthorized, Code::NotAcceptable] {
            assert_eq!(again(&refused(code)), Again::Never);
        }
        for code in [Code::Internal, Code::RouteNotFound, Code::InvalidArgument] {
            assert_eq!(again(&refused(code)), Again::After(Some(REFUSED_MS)));
        }
        assert_eq!(again(&refused(Code::Unavailable)), Again::After(None));
        assert_eq!(again(&Error::no_answer("gone")), Again::After(None));
    }

    #[test]
    fn sd_59_a_notice_that_comes_twice_is_heard_once_and_little_is_remembered() {
        let mut numbers = Numbers::default();
        let heard: Vec<bool> = [7, 8, 7, 3, 8, 3].map(|no| numbers.is_new(no)).to_vec();
        assert_eq!(heard, [true, true, false, true, false, false]);
        for no in 100..100 + 2 * HEARD_MAX as u64 {
            assert!(numbers.is_new(no));
        }
        assert_eq!(numbers.0.len(), HEARD_MAX);
    }
}
