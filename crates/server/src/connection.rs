//! One connection: how long it may say nothing, and what is said on it about bytes that are no request. It knows how many
//! requests are being answered, because the service tells it, and never cuts one of those.

use crate::app::App;
use crate::around;
use bytes::Bytes;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// What HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// After the last word so much more is read and thrown away, for so long: whoever is still sending would otherwise be
/// told by the system that the connection broke, and never see the answer.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES: usize = 16 << 20;

/// How long a connection may say nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// From the first byte of a request, or from the beginning of a connection, to the end of the request's head.
    pub head: Duration,
    /// Between two requests.
    pub idle: Duration,
}

impl Default for Silence {
    fn default() -> Self {
        Self { head: Duration::from_secs(10), idle: Duration::from_secs(75) }
    }
}

/// What a connection is doing.
pub struct Activity(Mutex<State>);

struct State {
    /// Requests that are being answered. While there are any nothing runs out.
    answering: usize,
    doing: Doing,
    since: Instant,
    /// How much of the preface of HTTP/2 has come; none if something else came.
    preface: Option<usize>,
    /// The first line of the head has ended.
    line_ended: bool,
    /// More is on its way that nobody will read.
    unread: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// A request is awaited or has begun to arrive.
    Head,
    /// The last request has been answered.
    Nothing,
}

impl State {
    fn is_http2(&self) -> bool {
        self.preface == Some(PREFACE.len())
    }

    fn now_doing(&mut self, doing: Doing) {
        (self.doing, self.since, self.line_ended) = (doing, Instant::now(), false);
    }
}

impl Activity {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(State {
            answering: 0,
            doing: Doing::Head,
            since: Instant::now(),
            preface: Some(0),
            line_ended: false,
            unread: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request as being answered until its reply is gone.
    pub fn answering(self: &Arc<Self>) -> Answering {
        self.lock().answering += 1;
        Answering(self.clone())
    }

    /// More of a request is on its way than anybody will read: the connection cannot be used again.
    pub fn leave_unread(&self) {
        self.lock().unread = true;
    }

    fn has_unread(&self) -> bool {
        self.lock().unread
    }

    fn note_read(&self, bytes: &[u8]) {
        let mut state = self.lock();
        if state.answering > 0 || state.is_http2() || bytes.is_empty() {
            return;
        }
        if let Some(seen) = state.preface {
            let more = bytes.len().min(PREFACE.len() - seen);
            state.preface = (bytes[..more] == PREFACE[seen..seen + more]).then_some(seen + more);
            if state.is_http2() {
                // Its frames say nothing about requests, so that only these count from now on.
                return state.now_doing(Doing::Nothing);
            }
        }
        if state.doing == Doing::Nothing {
            state.now_doing(Doing::Head);
        }
        state.line_ended |= bytes.contains(&b'\n');
    }

    fn note_written(&self) {
        let mut state = self.lock();
        // A reply that is still on its way out is no silence. HTTP/2 writes by itself, which is none either way.
        if state.doing == Doing::Nothing && !state.is_http2() {
            state.since = Instant::now();
        }
    }

    /// Resolves when nothing has been said for too long.
    pub async fn is_silent(&self, silence: Silence) {
        // Whatever begins meanwhile runs out after this time at the earliest, so that nobody need wake this.
        let nap = silence.head.min(silence.idle);
        loop {
            let now = Instant::now();
            let wake = match self.runs_out(silence) {
                Some(at) if at <= now => return,
                Some(at) => at.min(now + nap),
                None => now + nap,
            };
            tokio::time::sleep_until(wake).await;
        }
    }

    fn runs_out(&self, silence: Silence) -> Option<Instant> {
        let state = self.lock();
        let time = if state.doing == Doing::Head { silence.head } else { silence.idle };
        (state.answering == 0).then(|| state.since + time)
    }

    /// What is wrong with a head, if `head` is the bare reply that the HTTP library makes by itself when it cannot read one.
    fn refusal(&self, head: &[u8]) -> Option<around::Unreadable> {
        if !head.starts_with(b"HTTP/1.1 4") || !head.ends_with(b"\r\n\r\n") {
            return None;
        }
        let mut state = self.lock();
        // Replies of ours all have an id, and there is none before there is a request.
        let ours = std::str::from_utf8(head).map_or(true, |text| text.contains("x-request-id:"));
        if ours || state.answering > 0 || state.doing != Doing::Head {
            return None;
        }
        state.unread = true;
        match (&head[9..12], state.line_ended) {
            (b"414", _) | (b"431", false) => Some(around::Unreadable::Line),
            (b"431", true) => Some(around::Unreadable::Headers),
            (b"400", _) => Some(around::Unreadable::Syntax),
            _ => None,
        }
    }
}

/// A request that is being answered.
pub struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.answering -= 1;
        if state.answering == 0 {
            state.now_doing(Doing::Nothing);
        }
    }
}

/// A stream whose bytes are noted.
pub struct Observed<S> {
    stream: S,
    app: App,
    activity: Arc<Activity>,
    /// What is to be written before anything else.
    instead: Bytes,
    lingering: Option<Lingering>,
}

struct Lingering {
    left: usize,
    until: Pin<Box<Sleep>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Observed<S> {
    pub fn new(stream: S, app: App, activity: Arc<Activity>) -> Self {
        Self { stream, app, activity, instead: Bytes::new(), lingering: None }
    }

    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.instead.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.instead))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.instead = self.instead.split_off(written);
        }
        Poll::Ready(Ok(()))
    }

    /// Puts words in the place of a bare refusal; true if `bytes` was one.
    fn replace(&mut self, bytes: &[u8]) -> bool {
        let Some(what) = self.activity.refusal(bytes) else { return false };
        self.instead = around::unreadable(&self.app, what);
        true
    }

    /// Throws away what still comes, within bounds.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(lingering) = &mut self.lingering else { return Poll::Ready(()) };
        let mut room = [0; 8 << 10];
        while lingering.until.as_mut().poll(cx).is_pending() {
            let mut buffer = ReadBuf::new(&mut room);
            match ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() && buffer.filled().len() <= lingering.left => {
                    lingering.left -= buffer.filled().len();
                }
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Observed<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        this.activity.note_read(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_instead(cx))?;
        if this.replace(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, bytes))?;
        this.activity.note_written();
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_instead(cx))?;
        let mut filled = parts.iter().filter(|part| !part.is_empty());
        if let (Some(only), None) = (filled.next(), filled.next())
            && this.replace(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        let written = ready!(Pin::new(&mut this.stream).poll_write_vectored(cx, parts))?;
        this.activity.note_written();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_instead(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.lingering.is_none() {
            ready!(this.poll_instead(cx))?;
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
            if !this.activity.has_unread() {
                return Poll::Ready(Ok(()));
            }
            let until = Box::pin(tokio::time::sleep(LINGER));
            this.lingering = Some(Lingering { left: LINGER_BYTES, until });
        }
        ready!(this.poll_linger(cx));
        Poll::Ready(Ok(()))
    }
}
