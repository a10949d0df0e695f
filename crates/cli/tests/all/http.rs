//! A caller with nothing but a socket: HTTP/1.1 by hand, one connection for each call.

use crate::process::PATIENCE;
use serde_json::{Value, json};
use std::io::{self, Read, Write};
use std::net::TcpStream;

#[derive(Clone)]
pub struct Caller {
    address: String,
    key: Option<String>,
}

pub struct Answer {
    pub status: u16,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }
}

impl Caller {
    /// For `http://ADDRESS`.
    pub fn new(url: &str, key: Option<&str>) -> Self {
        let address = url.strip_prefix("http://").expect(url).trim_end_matches('/').to_owned();
        Self { address, key: key.map(str::to_owned) }
    }

    /// An error if there is no whole answer.
    pub fn try_call(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let key = self.key.as_ref().map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\n{key}weft-namespace: default\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        read(&bytes).ok_or_else(|| io::Error::other("the answer is cut"))
    }

    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.try_call(method, path, body).unwrap()
    }

    /// A reply that must be good.
    pub fn ok(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.call(method, path, body);
        let json = answer.json();
        assert!((200..300).contains(&answer.status), "{method} {path}: {} {json}", answer.status);
        json
    }

    pub fn submit(&self, body: &Value) -> String {
        self.ok("POST", "/v1/executions", Some(body))["id"].as_str().unwrap().to_owned()
    }

    pub fn get(&self, id: &str) -> Value {
        self.ok("GET", &format!("/v1/executions/{id}"), None)
    }

    /// The execution once it has ended.
    pub fn ended(&self, id: &str) -> Value {
        let execution = self.ok("GET", &format!("/v1/executions/{id}?wait_ms=60000&include=result"), None);
        assert!(execution["ended"].is_object(), "{execution}");
        execution
    }

    /// Claims one execution and completes it with `result`.
    pub fn work(&self, instance: &str, result: &str) {
        let claim = json!({"worker": "w", "instance": instance, "wait_ms": 60_000, "max": 1});
        let claimed = self.ok("POST", "/v1/work/claim", Some(&claim));
        let task = &claimed["executions"][0];
        let item = json!({"execution": task["execution"], "lease": task["lease"]["id"], "epoch": task["lease"]["epoch"],
                          "result": {"text": result}});
        let done = self.ok("POST", "/v1/work/complete", Some(&json!({"items": [item]})));
        assert!(done["results"][0].get("error").is_none(), "{done}");
    }
}

/// Status and body; nothing if the answer is not whole.
fn read(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body = &bytes[end + 4..];
    match length.and_then(|length| length.trim().parse::<usize>().ok()) {
        Some(length) if body.len() < length => None,
        _ => Some(Answer { status, bytes: body.to_vec() }),
    }
}
