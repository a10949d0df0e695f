//! One direction of one connection: a thread that reads, asks what becomes of it, and writes.

use super::fault::Verdict;
use super::{Inner, State};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::PoisonError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Request,
    Reply,
}

const CHUNK_BYTES: usize = 16 * 1024;
/// How much of what has passed is kept, for markers over the bound of two chunks.
const BEFORE_BYTES: usize = 256;

pub fn pump(inner: &Inner, id: u64, direction: Direction, mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; CHUNK_BYTES];
    let mut before = Vec::new();
    loop {
        // A reset is an end too; what the other side is told is the same.
        let count = from.read(&mut buffer).unwrap_or(0);
        let chunk = &buffer[..count];
        if count == 0 {
            break;
        }
        match judge(inner, id, direction, &before, chunk) {
            None => {
                if direction == Direction::Reply {
                    drain(&mut from);
                }
                return;
            }
            Some(Verdict::Swallow) => continue,
            Some(Verdict::Pass) => {
                if to.write_all(chunk).is_err() {
                    break;
                }
            }
            Some(Verdict::Cut(passed)) => {
                // Whether these arrive is not known to the one who sent them, cut or not.
                let _ = to.write_all(&chunk[..passed]);
                trip(inner);
                if direction == Direction::Reply {
                    drain(&mut from);
                }
                return;
            }
        }
        before.extend_from_slice(chunk);
        before.drain(..before.len().saturating_sub(BEFORE_BYTES));
    }
    end(inner, id, direction, &to);
}

/// Nothing if the connection was cut meanwhile. Waits while the proxy is paused.
fn judge(inner: &Inner, id: u64, direction: Direction, before: &[u8], chunk: &[u8]) -> Option<Verdict> {
    let held = |state: &mut State| state.paused && state.connections.contains_key(&id);
    let mut state = inner.changed.wait_while(inner.state(), held).unwrap_or_else(PoisonError::into_inner);
    if !state.connections.contains_key(&id) {
        return None;
    }
    let verdict = state.fault.as_mut().map_or(Verdict::Pass, |fault| fault.judge(direction, before, chunk));
    match verdict {
        Verdict::Pass => {}
        // Disarmed here, so that no second connection meets it while this one carries it out.
        Verdict::Cut(_) => state.fault = None,
        Verdict::Swallow => {
            state.tripped = true;
            inner.changed.notify_all();
        }
    }
    Some(verdict)
}

fn trip(inner: &Inner) {
    let mut state = inner.state();
    state.cut();
    state.tripped = true;
    inner.changed.notify_all();
}

/// Reads a cut server's replies to their end. Closing with unread bytes would reset the connection, and the server could
/// lose requests that had been passed on to it.
fn drain(from: &mut TcpStream) {
    let _ = std::io::copy(from, &mut std::io::sink());
}

/// One side has ended: the other is told, and may still finish what it says.
fn end(inner: &Inner, id: u64, direction: Direction, to: &TcpStream) {
    let _ = to.shutdown(Shutdown::Write);
    if direction == Direction::Reply {
        // Without a server nobody reads requests: the client has been told, and a cut has nothing left to do here.
        inner.state().connections.remove(&id);
    }
}
