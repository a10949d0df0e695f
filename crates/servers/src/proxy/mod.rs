//! A TCP proxy on loopback that breaks connections on purpose: now, at a byte of a request, or at a reply.
//!
//! Nothing here waits for time to pass: a fault happens at a byte or at a call. A cut reaches both ends in order: the
//! client gets what was passed on before and then the end of the stream, and the server gets every byte that was passed on and
//! then the end, so that what it was asked it does. A connection the proxy has not accepted yet is not cut.

mod fault;
mod pump;

use crate::error::{Error, Result};
use crate::{port, wait};
use fault::Fault;
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Runs until it is dropped, which cuts all connections.
pub struct Proxy {
    addr: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    target: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    dropped: bool,
    refusing: bool,
    /// On its way to the thread that accepts.
    listener: Option<TcpListener>,
    /// Somebody accepts, or is about to.
    listening: bool,
    paused: bool,
    fault: Option<Fault>,
    tripped: bool,
    connections: BTreeMap<u64, Pair>,
    accepted: u64,
}

/// Both ends of one connection.
struct Pair {
    client: TcpStream,
    server: TcpStream,
}

impl Proxy {
    /// Passes every connection to its address on to the target, which need not be up.
    pub fn start(target: SocketAddr) -> Result<Proxy> {
        let addr = port::loopback(port::free()?);
        let inner = Arc::new(Inner { target, state: Mutex::default(), changed: Condvar::new() });
        let proxy = Proxy { addr, inner };
        proxy.listen(&mut proxy.inner.state())?;
        let inner = Arc::clone(&proxy.inner);
        thread::spawn(move || inner.accept_all());
        Ok(proxy)
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Cuts all connections now, and disarms what was armed. Later connections are fine.
    pub fn cut(&self) {
        self.inner.state().cut();
        self.inner.changed.notify_all();
    }

    /// Lets so many bytes of requests through, counted over all connections from here on, and then cuts.
    pub fn cut_after_request(&self, bytes: usize) {
        self.arm(Fault::RequestBytes(bytes));
    }

    /// Cuts when a request contains these bytes, before they are passed on: it does not happen.
    pub fn cut_at_request(&self, marker: &[u8]) {
        self.arm(Fault::Request(marker.to_vec()));
    }

    /// Cuts at the first byte of a reply, which is not passed on: the request may have happened, and nobody knows.
    pub fn cut_replies(&self) {
        self.cut_at_reply(b"");
    }

    /// Cuts when a reply contains these bytes, before they are passed on. With the word of a commit, it has happened and
    /// nobody knows; replies before it are passed on.
    pub fn cut_at_reply(&self, marker: &[u8]) {
        self.arm(Fault::Reply(marker.to_vec()));
    }

    /// Passes requests on and throws replies away, until `cut`.
    pub fn swallow_replies(&self) {
        self.arm(Fault::Swallow);
    }

    /// Waits until what was armed last has happened: the cut, or the first reply thrown away.
    pub fn wait_tripped(&self, at_most: Duration) -> Result<()> {
        let started = Instant::now();
        let mut state = self.inner.state();
        while !state.tripped {
            let Some(left) = at_most.checked_sub(started.elapsed()) else {
                let state = "no byte has met it".to_owned();
                let what = "the armed fault of a proxy".to_owned();
                return Err(Error::Deadline { what, waited_s: at_most.as_secs(), state });
            };
            state = self.inner.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Whether connecting is refused, as by a host where nobody listens. Connections that are there stay.
    pub fn refuse(&self, refuse: bool) -> Result<()> {
        let mut state = self.inner.state();
        state.refusing = refuse;
        if !refuse {
            return if state.listening { Ok(()) } else { self.listen(&mut state) };
        }
        drop(state);
        self.wake();
        wait::until("a proxy to stop listening", wait::LONG, || {
            let listening = self.inner.state().listening;
            Ok(if listening { Err("it still does".to_owned()) } else { Ok(()) })
        })
    }

    /// Holds all bytes back until `resume`; connections stay open, and those that are made meanwhile wait too. What a
    /// thread was passing on at this moment may still arrive.
    pub fn pause(&self) {
        self.inner.state().paused = true;
    }

    pub fn resume(&self) {
        self.inner.state().paused = false;
        self.inner.changed.notify_all();
    }

    fn arm(&self, fault: Fault) {
        let mut state = self.inner.state();
        state.fault = Some(fault);
        state.tripped = false;
    }

    fn listen(&self, state: &mut State) -> Result<()> {
        let listener = TcpListener::bind(self.addr).map_err(|source| self.wire(source))?;
        state.listener = Some(listener);
        state.listening = true;
        self.inner.changed.notify_all();
        Ok(())
    }

    /// Makes the accepting thread look at the state.
    fn wake(&self) {
        // If nobody listens there is nobody to wake.
        drop(TcpStream::connect(self.addr));
    }

    fn wire(&self, source: io::Error) -> Error {
        Error::Wire { what: format!("the proxy on port {}", self.addr.port()), source }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        {
            let mut state = self.inner.state();
            state.dropped = true;
            state.cut();
        }
        self.inner.changed.notify_all();
        self.wake();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The accepting thread: as long as the proxy lives, with pauses in which connecting is refused.
    fn accept_all(self: Arc<Self>) {
        loop {
            let mut state = self.state();
            let waiting = |state: &mut State| !state.dropped && state.listener.is_none();
            state = self.changed.wait_while(state, waiting).unwrap_or_else(PoisonError::into_inner);
            let Some(listener) = state.listener.take().filter(|_| !state.dropped) else { return };
            drop(state);
            while let Ok((client, _)) = listener.accept() {
                if self.stops_listening() {
                    break;
                }
                // A target that is down ends the client's connection: it was made, and nobody is behind it.
                if let Ok(server) = TcpStream::connect(self.target) {
                    let _ = self.join(client, server);
                }
            }
            drop(listener);
            self.state().listening = false;
        }
    }

    fn stops_listening(&self) -> bool {
        let state = self.state();
        state.dropped || state.refusing
    }

    /// Starts a thread for each direction.
    fn join(self: &Arc<Self>, client: TcpStream, server: TcpStream) -> io::Result<()> {
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        let requests = (client.try_clone()?, server.try_clone()?);
        let replies = (server.try_clone()?, client.try_clone()?);
        let id = {
            let mut state = self.state();
            state.accepted += 1;
            let id = state.accepted;
            state.connections.insert(id, Pair { client, server });
            id
        };
        for (direction, (from, to)) in [(pump::Direction::Request, requests), (pump::Direction::Reply, replies)] {
            let inner = Arc::clone(self);
            thread::spawn(move || pump::pump(&inner, id, direction, from, to));
        }
        Ok(())
    }
}

impl State {
    fn cut(&mut self) {
        self.fault = None;
        for (_, pair) in std::mem::take(&mut self.connections) {
            // An end that is gone already needs no cut.
            let _ = pair.client.shutdown(Shutdown::Both);
            let _ = pair.server.shutdown(Shutdown::Write);
        }
    }
}
