use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use weft_servers::{Connection, Proxy, Reply, Valkey};

const DEADLINE: Duration = Duration::from_secs(30);

/// A server for one connection that answers every byte with two of the same, and tells what it got when that ends.
fn doubling() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, tell) = (stream.unwrap(), tell.clone());
            thread::spawn(move || {
                let (mut got, mut byte) = (Vec::new(), [0]);
                while stream.read(&mut byte).is_ok_and(|count| count == 1) {
                    got.push(byte[0]);
                    // The proxy may have cut the way back.
                    let _ = stream.write_all(&[byte[0], byte[0]]);
                }
                // A test that has seen enough does not listen any more.
                let _ = tell.send(got);
            });
        }
    });
    (addr, told)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.addr()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

fn exchange(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    stream.write_all(request).unwrap();
    let mut reply = vec![0; request.len() * 2];
    stream.read_exact(&mut reply).unwrap();
    reply
}

fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    // A cut may show as an end or as a reset.
    let _ = stream.read_to_end(&mut rest);
    rest
}

#[test]
fn a_cut_ends_both_sides_and_later_connections_are_fine() {
    let (target, told) = doubling();
    let proxy = Proxy::start(target).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(exchange(&mut stream, b"ab"), b"aabb");
    proxy.cut();
    assert_eq!(rest(&mut stream), b"");
    assert_eq!(told.recv_timeout(DEADLINE).unwrap(), b"ab");
    assert_eq!(exchange(&mut connect(&proxy), b"c"), b"cc");
}

#[test]
fn exactly_so_many_bytes_of_a_request_arrive() {
    let (target, told) = doubling();
    let proxy = Proxy::start(target).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(exchange(&mut stream, b"ab"), b"aabb");
    proxy.cut_after_request(3);
    stream.write_all(b"cdefgh").unwrap();
    proxy.wait_tripped(DEADLINE).unwrap();
    assert_eq!(told.recv_timeout(DEADLINE).unwrap(), b"abcde");
    assert!(b"ccddee".starts_with(&rest(&mut stream)));
}

#[test]
fn a_marked_request_does_not_arrive() {
    let (target, told) = doubling();
    let proxy = Proxy::start(target).unwrap();
    let mut stream = connect(&proxy);
    proxy.cut_at_request(b"yz");
    assert_eq!(exchange(&mut stream, b"xy"), b"xxyy");
    stream.write_all(b"z").unwrap();
    proxy.wait_tripped(DEADLINE).unwrap();
    assert_eq!(told.recv_timeout(DEADLINE).unwrap(), b"xy");
    assert_eq!(rest(&mut stream), b"");
}

#[test]
fn a_marked_reply_is_not_told_and_its_request_has_happened() {
    let valkey = Valkey::start(&[]).unwrap();
    let proxy = Proxy::start(valkey.addr()).unwrap();
    let mut client = Connection::open(proxy.addr()).unwrap();
    proxy.cut_at_reply(b"marked");
    assert_eq!(client.command(&["SET", "a", "1"]).unwrap(), Reply::Status("OK".to_owned()));
    assert!(client.command(&["EVAL", "redis.call('INCR', 'a') return 'marked'", "0"]).is_err());
    proxy.wait_tripped(DEADLINE).unwrap();
    assert_eq!(valkey.command(&["GET", "a"]).unwrap(), Reply::Bytes(b"2".to_vec()));
    let mut again = Connection::open(proxy.addr()).unwrap();
    proxy.cut_replies();
    assert!(again.command(&["INCR", "a"]).is_err());
    assert_eq!(valkey.command(&["GET", "a"]).unwrap(), Reply::Bytes(b"3".to_vec()));
}

#[test]
fn swallowed_replies_leave_the_client_waiting_until_the_cut() {
    let (target, told) = doubling();
    let proxy = Proxy::start(target).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(exchange(&mut stream, b"a"), b"aa");
    proxy.swallow_replies();
    stream.write_all(b"b").unwrap();
    proxy.wait_tripped(DEADLINE).unwrap();
    proxy.cut();
    assert_eq!(rest(&mut stream), b"");
    assert_eq!(told.recv_timeout(DEADLINE).unwrap(), b"ab");
}

#[test]
fn a_refusal_is_that_of_a_port_where_nobody_listens() {
    let (target, _told) = doubling();
    let proxy = Proxy::start(target).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(exchange(&mut stream, b"a"), b"aa");
    proxy.refuse(true).unwrap();
    let refused = TcpStream::connect(proxy.addr()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    assert_eq!(exchange(&mut stream, b"b"), b"bb");
    proxy.refuse(true).unwrap();
    proxy.refuse(false).unwrap();
    proxy.refuse(false).unwrap();
    assert_eq!(exchange(&mut connect(&proxy), b"c"), b"cc");
}

#[test]
fn a_pause_holds_bytes_back_until_it_ends() {
    let (target, told) = doubling();
    let proxy = Proxy::start(target).unwrap();
    let mut stream = connect(&proxy);
    assert_eq!(exchange(&mut stream, b"a"), b"aa");
    proxy.pause();
    stream.write_all(b"b").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(stream.read(&mut [0]).is_err());
    proxy.resume();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut reply = [0; 2];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"bb");
    proxy.pause();
    stream.write_all(b"c").unwrap();
    proxy.cut();
    assert_eq!(rest(&mut stream), b"");
    assert_eq!(told.recv_timeout(DEADLINE).unwrap(), b"ab");
}
