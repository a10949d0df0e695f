//! Scanners and parked items from the command line, with a store that was damaged on purpose.

use crate::dev::Dev;
use crate::process::{PATIENCE, command, stdout, text};
use bytes::Bytes;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::time::Instant;
use weft_core::change::{Batch, Body, Change, Write};
use weft_core::record::dead_letter::{self, Why};
use weft_core::record::{DeadLetter, Key, Record};
use weft_core::schema::{Kind, PartMask, Timer, execution as schema};
use weft_core::{ExecutionId, ParkedId, Time};
use weft_store::{Outcome, Store};
use weft_store_sqlite::{OpenError, Options, SqliteStore};

/// Commits a write as it is, past the engine; nobody may serve the store meanwhile.
async fn commit(store: &SqliteStore, key: Key, what: Change) {
    let head = store.read(key.partition(), Vec::new()).await.unwrap().head;
    let batch = Batch {
        id: format!("{:032x}", head.position.seq).parse().unwrap(),
        expect: head,
        fast: true,
        strict: false,
        now: head.now,
        raise: None,
        reads: Vec::new(),
        writes: vec![Write { key, what, due_add: Vec::new(), due_remove: Vec::new() }],
        due_drops: Vec::new(),
        feed: Bytes::new(),
        lanes: Vec::new(),
    };
    let outcome = store.commit(key.partition(), batch).await;
    assert!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
}

/// Works on the store that a server in this folder has, or will have.
fn on_store<T>(folder: &Path, work: impl AsyncFnOnce(&SqliteStore) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let store = loop {
        match SqliteStore::open(Options::new(folder.join("weft-data/weft.db"))) {
            // A process that another test is about to start has every open file of this one for a moment, its locks too.
            Err(OpenError::Locked { .. }) if Instant::now() < deadline => std::thread::yield_now(),
            opened => break opened.unwrap(),
        }
    };
    runtime.block_on(work(&store))
}

/// Overwrites the hot part of an execution, and returns its previous bytes.
fn overwrite(folder: &Path, id: &str, bytes: Bytes) -> Bytes {
    let id: ExecutionId = id.parse().unwrap();
    let key = Key::Execution(id);
    on_store(folder, async |store| {
        let read = store.read(id.partition(), vec![(key, PartMask::ALL)]).await.unwrap();
        let mut parts = read.found.into_iter().next().unwrap().expect("it was submitted").parts;
        let with = |parts: &mut Vec<(u8, Bytes)>, bytes: &Bytes| {
            let hot = parts.iter_mut().find(|(part, _)| *part == schema::HOT).expect("every execution has it");
            std::mem::replace(&mut hot.1, bytes.clone())
        };
        let was = with(&mut parts, &bytes);
        // The index has what the record says when it is whole: before it is damaged, or after it is restored.
        let whole = Record::decode(key, &parts, PartMask::ALL).or_else(|_| {
            with(&mut parts, &was);
            Record::decode(key, &parts, PartMask::ALL)
        });
        let facets = whole.unwrap().facets();
        let body = Body { facets: facets.clone(), parts: vec![(schema::HOT, Some(bytes.clone()))] };
        commit(store, key, Change::Update { old: facets, body }).await;
        was
    })
}

/// Parks an item under this id, in a store that need not be there yet.
pub fn park(folder: &Path, id: &str) {
    let id: ParkedId = id.parse().unwrap();
    let body = dead_letter::Body {
        why: Why::Poison,
        scanner: "retention_trimmer".into(),
        timer: Timer::Retention,
        due: Time::from_ms(5),
        kind: Kind::Execution as u8,
        key: Bytes::from_static(b"?"),
        error: "no such key".into(),
        fails: 1,
        parked_at: Time::from_ms(1_000),
        next_try_at: None,
        expires_at: None,
        namespace: None,
        flow: None,
        dropped: Vec::new(),
    };
    let letter = DeadLetter { partition: id.partition(), uuid: id.uuid(), body };
    let (key, record) = (letter.key(), Record::DeadLetter(Box::new(letter)));
    let body = Body { facets: record.facets(), parts: record.encode(PartMask::ALL) };
    on_store(folder, async |store| commit(store, key, Change::Insert(body.clone())).await);
}

fn weft(dev: &Dev, args: &[&str]) -> Output {
    command(args).env("WEFT_URL", &dev.url).env_remove("WEFT_KEY").env_remove("WEFT_NAMESPACE").output().unwrap()
}

fn out(dev: &Dev, args: &[&str]) -> String {
    stdout(&weft(dev, args))
}

fn json(dev: &Dev, args: &[&str]) -> Value {
    serde_json::from_str(&out(dev, &[args, &["--json"]].concat())).unwrap()
}

/// What the commands of the page about parked items print, with these ids for those of each verb.
fn as_documented(dev: &Dev, ids: &[(&str, &str)]) -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("### Parked items").nth(1).unwrap().split("\n## ").next().unwrap();
    let commands = section.lines().filter_map(|line| line.strip_prefix("$ weft "));
    let run = |command: &str| {
        let (plain, reason) = command.split_once(" --reason ").map_or((command, None), |(a, b)| (a, Some(b)));
        let mut words: Vec<&str> = plain.split(' ').collect();
        if let Some((_, id)) = ids.iter().find(|(verb, _)| words.contains(verb)) {
            *words.last_mut().unwrap() = *id;
        }
        words.extend(reason.iter().flat_map(|reason| ["--reason", reason.trim_matches('\'')]));
        out(dev, &words)
    };
    commands.map(run).collect()
}

fn stop(dev: Dev) {
    dev.running.signal("-INT");
    assert_eq!(dev.running.exit_code(), Some(0));
}

/// Waits until `count` items are parked, and returns them.
fn parked(dev: &Dev, count: usize) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let listed = json(dev, &["scanners", "parked"])["items"].as_array().unwrap().clone();
        if listed.len() == count {
            return listed;
        }
        assert!(Instant::now() < deadline, "{count} items are parked: {listed:?}");
    }
}

/// A server that gives these answers, one to a request; the requests that it had.
fn answering(answers: Vec<Value>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serve = move |answer: Value| {
        let (stream, _) = listener.accept().unwrap();
        let mut stream = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
            if let Some(bytes) = head[start..].to_lowercase().strip_prefix("content-length:") {
                length = bytes.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        let (answer, kind) = (answer.to_string(), "content-type: application/json");
        let reply =
            format!("HTTP/1.1 200 OK\r\n{kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", answer.len());
        stream.get_mut().write_all((reply + &answer).as_bytes()).unwrap();
        format!("{}{}", head.lines().next().unwrap(), String::from_utf8(body).unwrap())
    };
    (url, std::thread::spawn(move || answers.into_iter().map(serve).collect()))
}

fn at(url: &str, args: &[&str]) -> Output {
    command(args).env("WEFT_URL", url).env_remove("WEFT_KEY").env_remove("WEFT_NAMESPACE").output().unwrap()
}

#[test]
fn sr_83_a_page_without_items_is_not_the_end_and_more_than_a_page_can_be_listed() {
    let item = |number: u32| {
        serde_json::json!({
            "id": format!("d_0_00000000-0000-0000-0000-00000000{number:04}"), "scanner": "lease_expiry",
            "why": "poison", "timer": "lease", "since": 1_000, "tries": 1, "last_error": "no such key",
        })
    };
    let page = |numbers: std::ops::Range<u32>, next: Option<&str>| {
        let items: Vec<Value> = numbers.map(item).collect();
        match next {
            Some(next) => serde_json::json!({ "items": items, "next_cursor": next }),
            None => serde_json::json!({ "items": items }),
        }
    };
    let (url, serving) = answering(vec![page(0..0, Some("one")), page(1..3, Some("two")), page(3..4, None)]);
    let listed = stdout(&at(&url, &["scanners", "parked", "--quiet"]));
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let asked = serving.join().unwrap();
    assert!(asked[1].contains("cursor=one") && asked[2].contains("cursor=two"), "{asked:?}");

    let (url, serving) = answering(vec![page(0..1_000, Some("one")), page(1_000..2_000, Some("two"))]);
    let output = at(&url, &["scanners", "parked", "--limit", "1500"]);
    assert_eq!(stdout(&output).lines().filter(|line| line.starts_with("d_0_")).count(), 1_500);
    assert!(text(&output.stderr).contains("there are more"), "{}", text(&output.stderr));
    assert_eq!(serving.join().unwrap().len(), 2);
}

#[test]
fn sr_84_retry_all_goes_on_after_what_a_call_has_tried() {
    let some = |still_damaged: u32, refused: u32, next: Option<&str>| {
        serde_json::json!({
            "retried": 1, "still_damaged": still_damaged, "nothing_left": 0, "refused": refused,
            "more": next.is_some(), "next_cursor": next,
        })
    };
    let (url, serving) = answering(vec![some(999, 2, Some("one")), some(7, 0, None)]);
    let told = stdout(&at(&url, &["scanners", "parked", "retry", "--all"]));
    assert!(told.starts_with("2 items tried again, 1006 still damaged, 2 could not be tried now"), "{told}");
    let asked = serving.join().unwrap();
    assert!(asked[1].contains(r#""cursor":"one""#), "{asked:?}");
}

#[test]
fn sc_171_a_damaged_item_is_parked_shown_tried_again_and_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let dev = Dev::start(folder.path(), &[]);
    let submit =
        |kind: &str| out(&dev, &["submit", kind, "--delay", "15s", "--lane", kind, "--quiet"]).trim().to_owned();
    let ids = ["restored", "lost", "spared"].map(submit);
    stop(dev);
    let good = ids.each_ref().map(|id| overwrite(folder.path(), id, Bytes::from_static(b"\x01garbage")));

    let dev = Dev::start(folder.path(), &[]);
    let items = parked(&dev, 3);
    let found: Vec<&Value> = ids.iter().map(|id| items.iter().find(|item| item["item_id"] == **id).unwrap()).collect();
    let letter = |at: usize| found[at]["id"].as_str().unwrap().to_owned();
    assert_eq!((&found[0]["why"], &found[0]["item"]), (&"damaged".into(), &"execution".into()));
    assert_eq!((&found[0]["scanner"], &found[0]["timer"]), (&"delayed_promoter".into(), &"until".into()));
    let table = out(&dev, &["scanners", "parked", "--scanner", "delayed_promoter"]);
    for part in ["ID", "LAST ERROR", &letter(0), &ids[0], "part `hot`"] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    let scanners = json(&dev, &["scanners"]);
    let promoter = scanners["items"].as_array().unwrap().iter().find(|one| one["name"] == "delayed_promoter").unwrap();
    assert_eq!(promoter["parked"], 3, "{scanners}");
    let table = out(&dev, &["scanners"]);
    assert!(table.starts_with("SCANNER") && table.contains("\ndelayed_promoter"), "{table}");
    let wrong = weft(&dev, &["scanners", "parked", "--scanner", "delayed_promotr"]);
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong.stderr));
    assert!(text(&wrong.stderr).contains("did you mean `delayed_promoter`?"), "{}", text(&wrong.stderr));

    let still = out(&dev, &["scanners", "parked", "retry", &letter(0)]);
    assert!(still.starts_with(&format!("{}  is still damaged: ", letter(0))), "{still}");
    assert_eq!(json(&dev, &["scanners", "parked", "retry", "--all"])["still_damaged"], 3);
    let asked = weft(&dev, &["scanners", "parked", "discard", &letter(1), &letter(2), "--reason", "x"]);
    assert_eq!(asked.status.code(), Some(1));
    assert!(text(&asked.stderr).contains("discard 2 parked items?"), "{}", text(&asked.stderr));
    assert_eq!(
        out(&dev, &["scanners", "parked", "discard", &letter(1), "--reason", "no copy is left"]),
        format!("{}  discarded\n", letter(1))
    );
    let again = weft(&dev, &["scanners", "parked", "discard", &letter(1), "--reason", "no copy is left"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).starts_with("error[not_found]: cannot discard it: "), "{}", text(&again.stderr));
    stop(dev);

    for (id, bytes) in ids.iter().zip(good) {
        overwrite(folder.path(), id, bytes);
    }
    let dev = Dev::start(folder.path(), &[]);
    assert_eq!(parked(&dev, 2).len(), 2, "{} is given up", ids[1]);
    let printed = as_documented(&dev, &[("retry", &letter(0)), ("discard", &letter(2))]);
    assert!(printed[0].starts_with("SCANNER") && printed[1].starts_with("ID "), "{printed:?}");
    assert_eq!(printed[2..], [format!("{}  is tried again now\n", letter(0)), format!("{}  discarded\n", letter(2))]);
    let why = out(&dev, &["explain", &ids[2]]);
    assert!(why.contains("; dev gave it up: no copy is left"), "{why}");
    let card = out(&dev, &["get", &ids[2]]);
    assert!(
        card.contains("trouble   delayed_promoter failed 1 time, given up by dev (no copy is left): part `hot`"),
        "{card}"
    );
    let claim =
        serde_json::json!({"worker": "w", "instance": "w-1", "wait_ms": 60_000, "lanes": [{"lane": "restored"}]});
    let claimed = dev.caller().ok("POST", "/v1/work/claim", Some(&claim));
    assert_eq!(claimed["executions"][0]["execution"], *ids[0], "it goes on where it stopped");
    assert_eq!(out(&dev, &["scanners", "parked", "--quiet"]), "");

    let log = json(&dev, &["audit", "list"]);
    let acts: Vec<String> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["result"] == "ok")
        .map(|entry| format!("{} {}", entry["verb"].as_str().unwrap(), entry["target"].as_str().unwrap()))
        .collect();
    for act in [
        format!("discard_parked {}", letter(1)),
        format!("discard_parked {}", letter(2)),
        format!("retry_parked {}", letter(0)),
    ] {
        assert!(acts.contains(&act), "{act} in {acts:?}");
    }
    stop(dev);
}
