//! What a program writes, as bytes and as lines.

use bytes::{Buf, BytesMut};
use std::fs::File;
use std::io::{self, Read};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;

const READ_BYTES: usize = 16 << 10;

/// The reading end of a pipe of a program.
///
/// Once the program has ended there is nobody left who writes, whoever may still hold the writing end. What is in the pipe
/// then is read, and that is the end of it.
pub struct Pipe {
    source: Source,
    ended: watch::Receiver<bool>,
}

enum Source {
    Open(Receiver),
    /// Not blocking: an empty pipe is the end.
    Rest(File),
    Closed,
}

impl Pipe {
    pub fn new(receiver: Receiver, ended: watch::Receiver<bool>) -> Pipe {
        Pipe { source: Source::Open(receiver), ended }
    }

    /// Adds what comes next to `buffer`; false at the end. A pipe that cannot be read is at its end.
    pub async fn read(&mut self, buffer: &mut BytesMut) -> bool {
        if let Source::Open(receiver) = &mut self.source {
            buffer.reserve(READ_BYTES);
            tokio::select! {
                read = receiver.read_buf(buffer) => return read.is_ok_and(|count| count > 0),
                _ = self.ended.wait_for(|ended| *ended) => self.source = rest(std::mem::replace(&mut self.source, Source::Closed)),
            }
        }
        match &mut self.source {
            Source::Rest(file) => read_now(file, buffer),
            Source::Open(_) | Source::Closed => false,
        }
    }
}

fn rest(source: Source) -> Source {
    match source {
        Source::Open(receiver) => {
            receiver.into_nonblocking_fd().map_or(Source::Closed, |fd| Source::Rest(File::from(fd)))
        }
        other => other,
    }
}

fn read_now(file: &mut File, buffer: &mut BytesMut) -> bool {
    let mut chunk = [0; READ_BYTES];
    loop {
        match file.read(&mut chunk) {
            Ok(count) => {
                buffer.extend_from_slice(&chunk[..count]);
                return count > 0;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// A line, without what ended it.
pub enum Line {
    Whole(BytesMut),
    /// As much of a line as is let through at once; more of the same line comes next.
    Part(BytesMut),
}

pub struct Lines {
    pipe: Pipe,
    bytes_max: usize,
    buffer: BytesMut,
    /// So many bytes of the buffer have no end of a line.
    searched: usize,
}

impl Lines {
    pub fn new(pipe: Pipe, bytes_max: usize) -> Lines {
        Lines { pipe, bytes_max, buffer: BytesMut::new(), searched: 0 }
    }

    /// None at the end. A last line that nothing ended is a line too.
    pub async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.take() {
                return Some(line);
            }
            if !self.pipe.read(&mut self.buffer).await {
                self.searched = 0;
                return (!self.buffer.is_empty()).then(|| Line::Whole(self.buffer.split()));
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n').map(|at| at + self.searched);
        if let Some(at) = found.filter(|at| *at <= self.bytes_max) {
            let line = self.buffer.split_to(at);
            self.buffer.advance(1);
            self.searched = 0;
            return Some(Line::Whole(line));
        }
        if self.buffer.len() > self.bytes_max {
            self.searched = 0;
            return Some(Line::Part(self.buffer.split_to(self.bytes_max)));
        }
        self.searched = self.buffer.len();
        None
    }
}
