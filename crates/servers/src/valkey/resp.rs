//! As much of Valkey's protocol as setting up and looking at a server needs. One command at a time, no pipelines.

use crate::error::{Error, Result};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A server that is paused or gone is an error after this long.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A line such as `OK`.
    Status(String),
    /// Only inside of an array, or from `Connection::ask`.
    Error(String),
    Integer(i64),
    Bytes(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
}

impl Reply {
    /// What is text, as text; nothing for the other kinds.
    pub fn text(&self) -> Option<String> {
        match self {
            Reply::Status(text) => Some(text.clone()),
            Reply::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }
}

pub struct Connection {
    addr: SocketAddr,
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(addr: SocketAddr) -> Result<Connection> {
        let open = || {
            let stream = TcpStream::connect_timeout(&addr, ANSWER_MAX)?;
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = open().map_err(|source| wire(addr, source))?;
        Ok(Connection { addr, stream: BufReader::new(stream) })
    }

    /// Sends a command and reads its reply. An error reply is an error.
    pub fn command<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        match self.ask(words)? {
            Reply::Error(message) => {
                let command: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word.as_ref())).collect();
                Err(Error::Refused { what: what(self.addr), command: command.join(" "), message })
            }
            reply => Ok(reply),
        }
    }

    /// Sends a command and reads its reply, which may be an error.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Reply> {
        let sent = self.stream.get_mut().write_all(&encode(words));
        sent.and_then(|()| decode(&mut self.stream)).map_err(|source| wire(self.addr, source))
    }
}

fn what(addr: SocketAddr) -> String {
    format!("Valkey on port {}", addr.port())
}

fn wire(addr: SocketAddr, source: io::Error) -> Error {
    Error::Wire { what: what(addr), source }
}

fn encode<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn decode(stream: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("`{}` begins no reply", line.trim_end()));
    let (kind, rest) = line.trim_end().split_at_checked(1).ok_or_else(bad)?;
    let number = || rest.parse::<i64>().map_err(|_| bad());
    Ok(match kind {
        "+" => Reply::Status(rest.to_owned()),
        "-" => Reply::Error(rest.to_owned()),
        ":" => Reply::Integer(number()?),
        "$" | "*" => match (kind, usize::try_from(number()?)) {
            (_, Err(_)) => Reply::Nil,
            ("$", Ok(length)) => Reply::Bytes(bulk(stream, length)?),
            (_, Ok(count)) => Reply::Array((0..count).map(|_| decode(stream)).collect::<io::Result<_>>()?),
        },
        _ => return Err(bad()),
    })
}

fn bulk(stream: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_reply_is_read() {
        let text = "*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$4\r\na\r\nb\r\n$-1\r\n*-1\r\n";
        let read = decode(&mut text.as_bytes()).expect("it is well formed");
        let ok = Reply::Status("OK".to_owned());
        let no = Reply::Error("ERR no".to_owned());
        let bytes = Reply::Bytes(b"a\r\nb".to_vec());
        assert_eq!(read, Reply::Array(vec![ok, no, Reply::Integer(-7), bytes, Reply::Nil, Reply::Nil]));
    }

    #[test]
    fn a_reply_that_ends_early_or_is_none_is_an_error() {
        for text in ["", "*2\r\n+OK\r\n", "$4\r\nab", "?\r\n", "\r\n", ":x\r\n"] {
            assert!(decode(&mut text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn words_are_sent_with_their_length() {
        assert_eq!(encode(&["GET", "é"]), "*2\r\n$3\r\nGET\r\n$2\r\né\r\n".as_bytes());
    }
}
