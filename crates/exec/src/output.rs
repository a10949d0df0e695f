//! Stdout, which is the result, and stderr, which is the log.

use crate::lines::{Line, Lines, Pipe};
use crate::report::Report;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use tokio::sync::{Notify, mpsc};

/// How many of the last lines of stderr are kept for the message of a failure.
pub const TAIL_LINES: usize = 20;

/// The longest line of a log in bytes; what is longer comes in several.
pub const LOG_LINE_MAX: usize = 8 << 10;

pub enum Output {
    Whole(Bytes),
    TooLong { max: usize },
}

/// Reads all of stdout, and keeps it up to `max` bytes. What is beyond is read too, so that the program does not hang on
/// a full pipe while it is told to end.
pub async fn collect(mut stdout: Pipe, max: usize, too_long: &Notify) -> Output {
    let mut bytes = BytesMut::new();
    while stdout.read(&mut bytes).await {
        if bytes.len() > max {
            too_long.notify_one();
            while stdout.read(&mut bytes).await {
                bytes.clear();
            }
            return Output::TooLong { max };
        }
    }
    Output::Whole(bytes.freeze())
}

/// Reports every line of stderr, and answers the last of them.
pub async fn log(stderr: Pipe, reports: &mpsc::Sender<Report>) -> Tail {
    let mut lines = Lines::new(stderr, LOG_LINE_MAX);
    let mut tail = Tail::default();
    while let Some(Line::Whole(line) | Line::Part(line)) = lines.next().await {
        let line = String::from_utf8_lossy(&line).into_owned();
        tail.push(line.clone());
        // Nobody wants to know any more; the program still has to be read to its end.
        let _ = reports.send(Report::Log(line)).await;
    }
    tail
}

/// The last lines of stderr.
#[derive(Default)]
pub struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    fn push(&mut self, line: String) {
        if self.lines.len() == TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    pub fn last(&self) -> Option<&str> {
        self.lines.back().map(String::as_str)
    }

    /// Takes the last line away.
    pub fn pop(&mut self) {
        self.lines.pop_back();
    }

    /// The last bytes of the last lines; none if stderr had nothing to say.
    pub fn last_bytes(&self, bytes_max: usize) -> Option<String> {
        let text = Vec::from_iter(self.lines.iter().map(String::as_str)).join("\n");
        let text = text.trim_end();
        let mut from = text.len().saturating_sub(bytes_max);
        while !text.is_char_boundary(from) {
            from += 1;
        }
        (!text.is_empty()).then(|| text[from..].to_owned())
    }
}
