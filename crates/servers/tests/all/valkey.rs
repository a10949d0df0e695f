use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weft_servers::{Reply, Valkey};

#[test]
fn what_valkey_acknowledged_survives_a_kill() {
    let valkey = Valkey::start(&[]).unwrap();
    let first = valkey.pid().unwrap();
    valkey.command(&["SET", "a", "1"]).unwrap();
    valkey.kill().unwrap();
    assert!(valkey.command(&["PING"]).is_err());
    assert!(valkey.pid().is_err());
    valkey.restart().unwrap();
    assert_ne!(valkey.pid().unwrap(), first);
    assert_eq!(valkey.command(&["GET", "a"]).unwrap(), Reply::Bytes(b"1".to_vec()));
}

#[test]
fn a_setting_replaces_the_default() {
    let valkey = Valkey::start(&[("appendfsync", "no")]).unwrap();
    let told = |name: &str| valkey.command(&["CONFIG", "GET", name]).unwrap();
    let pair = |name: &str, value: &str| Reply::Array(vec![bytes(name), bytes(value)]);
    assert_eq!(told("appendonly"), pair("appendonly", "yes"));
    assert_eq!(told("appendfsync"), pair("appendfsync", "no"));
}

#[test]
fn a_paused_valkey_answers_nobody_until_it_resumes() {
    let valkey = Valkey::start(&[]).unwrap();
    let mut stream = TcpStream::connect(valkey.addr()).unwrap();
    valkey.pause().unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut reply = [0; 7];
    assert!(stream.read_exact(&mut reply).is_err());
    valkey.resume().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let error = Valkey::start(&[("appendfsync", "sometimes")]).map(drop).unwrap_err().to_string();
    assert!(error.contains("appendfsync"), "{error}");
    let error = Valkey::start(&[]).unwrap().command(&["NONSENSE"]).unwrap_err().to_string();
    assert!(error.starts_with("`NONSENSE` was refused by Valkey on port "), "{error}");
}

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}
