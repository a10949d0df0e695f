//! Listening for notices. A worker that hears none works all the same: renewals and heartbeats tell the same, later.

use super::{Flight, Running};
use crate::Error;
use crate::transport::Notices;
use tokio::time::Instant;
use weft_api::Class;
use weft_api::work::Notice;

#[derive(Default)]
pub struct Listening {
    opening: Option<Flight<Option<Notices>>>,
    open: Option<Notices>,
    /// There are no notices where the calls go.
    absent: bool,
    failures: u32,
    /// No new stream before
    pub after: Option<Instant>,
}

pub enum Heard {
    Opened(Result<Option<Notices>, Error>),
    Notice(Notice),
    Closed,
}

impl Listening {
    /// What comes next. Never ready while nothing is open or being opened.
    pub async fn heard(&mut self) -> Heard {
        if let Some(opening) = &mut self.opening {
            let opened = opening.await;
            self.opening = None;
            return Heard::Opened(opened);
        }
        match &mut self.open {
            Some(notices) => notices.next().await.map_or(Heard::Closed, Heard::Notice),
            None => std::future::pending().await,
        }
    }
}

impl Running {
    pub fn listen(&mut self, now: Instant) {
        let listening = &mut self.listening;
        let is_busy = listening.absent || listening.open.is_some() || listening.opening.is_some();
        if is_busy || listening.after.is_some_and(|after| after > now) || !self.registration.is_known() {
            return;
        }
        listening.after = None;
        let (client, instance) = (self.once.clone(), self.instance.clone());
        listening.opening = Some(Box::pin(async move { client.notices(&instance).await }));
    }

    pub fn heard(&mut self, heard: Heard) -> Result<(), Error> {
        match heard {
            Heard::Opened(Ok(None)) => self.listening.absent = true,
            Heard::Opened(Ok(notices)) => {
                self.listening.failures = 0;
                self.listening.open = notices;
            }
            // Without the right to listen, or on a server that has no notices, there is nothing to wait for.
            Heard::Opened(Err(error)) if matches!(error.class(), Some(Class::Fix | Class::Conflict)) => {
                self.listening.absent = true;
            }
            Heard::Opened(Err(error)) => {
                tracing::debug!(%error, "could not listen for notices");
                self.listen_later();
            }
            Heard::Closed => {
                self.listening.open = None;
                self.listen_later();
            }
            Heard::Notice(notice) => return self.noticed(notice),
        }
        Ok(())
    }

    fn listen_later(&mut self) {
        self.listening.failures += 1;
        self.listening.after = Some(Instant::now() + self.back_off(self.listening.failures + 4));
    }
}
