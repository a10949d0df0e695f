use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weft_servers::Postgres;

const DEADLINE: Duration = Duration::from_secs(30);

#[test]
fn what_postgres_acknowledged_survives_a_kill() {
    let postgres = Postgres::start().unwrap();
    assert_eq!(ask(&postgres, "create table t as select 7 as n"), "");
    postgres.kill().unwrap();
    assert!(postgres.pid().is_err());
    postgres.restart().unwrap();
    assert_eq!(ask(&postgres, "select n from t"), "7");
    postgres.stop_immediate().unwrap();
    postgres.restart().unwrap();
    postgres.restart().unwrap();
    assert_eq!(ask(&postgres, "select n from t"), "7");
}

#[test]
fn commits_are_durable_unless_a_setting_says_otherwise() {
    let postgres = Postgres::start_with(&[("synchronous_commit", "off")]).unwrap();
    assert_eq!(ask(&postgres, "show fsync"), "on");
    assert_eq!(ask(&postgres, "show synchronous_commit"), "off");
}

#[test]
fn a_paused_postgres_answers_nobody_until_it_resumes() {
    let postgres = Postgres::start().unwrap();
    // A backend of its own, which is frozen with the postmaster.
    let mut stream = connect(&postgres);
    send(&mut stream, Some(b'Q'), b"select 1\0");
    assert_eq!(until_ready(&mut stream), "1");
    postgres.pause().unwrap();
    send(&mut stream, Some(b'Q'), b"select 2\0");
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(stream.peek(&mut [0]).is_err());
    postgres.resume().unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    assert_eq!(until_ready(&mut stream), "2");
}

/// The first column of the first row as text, empty without a row. As much of the protocol as that needs.
fn ask(postgres: &Postgres, sql: &str) -> String {
    let mut stream = connect(postgres);
    send(&mut stream, Some(b'Q'), format!("{sql}\0").as_bytes());
    until_ready(&mut stream)
}

fn connect(postgres: &Postgres) -> TcpStream {
    let mut stream = TcpStream::connect(postgres.addr()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut startup = 196_608_u32.to_be_bytes().to_vec();
    startup.extend_from_slice(b"user\0postgres\0\0");
    send(&mut stream, None, &startup);
    until_ready(&mut stream);
    stream
}

fn send(stream: &mut TcpStream, kind: Option<u8>, body: &[u8]) {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    let message: Vec<u8> = kind.into_iter().chain(length).chain(body.iter().copied()).collect();
    stream.write_all(&message).unwrap();
}

fn until_ready(stream: &mut TcpStream) -> String {
    let mut column = String::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        stream.read_exact(&mut body).unwrap();
        match head[0] {
            b'Z' => return column,
            b'E' => panic!("{}", String::from_utf8_lossy(&body)),
            b'D' => column = String::from_utf8(body[6..].to_vec()).unwrap(),
            _ => {}
        }
    }
}
