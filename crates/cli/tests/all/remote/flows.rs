//! Flows from the command line: submitted from a file, shown, drawn, watched and steered.

use super::{Server, short};
use crate::process::{Running, stdout, text};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Two loads and what waits for both, as a file holds it.
pub const ETL: &str = r#"{
  "kind": "etl",
  "name": "monday",
  "tags": {"day": "mon"},
  "members": [
    {"key": "load-a", "kind": "load", "lane": "load-a"},
    {"key": "load-b", "kind": "load", "lane": "load-b"},
    {"key": "merge", "kind": "merge", "lane": "merge"}
  ],
  "edges": [{"from": "load-a", "to": "merge", "input": "left"}, {"from": "load-b", "to": "merge"}]
}
"#;

/// The same in YAML.
pub const ETL_YAML: &str = "
kind: etl
name: monday
tags: {day: mon}
members:
  - {key: load-a, kind: load, lane: load-a}
  - {key: load-b, kind: load, lane: load-b}
  - {key: merge, kind: merge, lane: merge}
edges:
  - {from: load-a, to: merge, input: left}
  - {from: load-b, to: merge}
";

/// What is added to a flow that has a member `load`.
pub const MORE_YAML: &str = "
members:
  - key: report
    kind: report
    lane: report
edges:
  - {from: load, to: report}
";

/// Submits a flow over HTTP, and answers its id.
pub fn submit(server: &Server, flow: Value) -> String {
    server.caller().ok("POST", "/v1/flows", Some(&flow))["id"].as_str().unwrap().to_owned()
}

fn etl(server: &Server) -> String {
    submit(server, serde_json::from_str(ETL).unwrap())
}

fn one(server: &Server, lane: &str) -> String {
    submit(server, json!({"kind": "etl", "members": [{"key": "load", "kind": "load", "lane": lane}]}))
}

fn state(server: &Server, id: &str) -> String {
    server.json(&["flow", "get", id])["public_flow_state"].as_str().unwrap().to_owned()
}

/// The first cells of the rows of a table, without its heading.
fn first_cells(table: &str) -> Vec<&str> {
    table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn a_flow_is_submitted_from_a_file_and_from_stdin() {
    let server = Server::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), ETL).unwrap();
    let path = file.path().to_str().unwrap();
    let told = server.out(&["flow", "submit", path]);
    assert!(told.starts_with("f_") && told.trim_end().ends_with("3 members"), "{told}");
    let submitted = server.json(&["flow", "submit", path]);
    assert_eq!(submitted["members"].as_object().unwrap().len(), 3, "{submitted}");
    assert_eq!(server.out(&["flow", "submit", path, "--quiet"]).trim().split('_').next(), Some("f"));

    let mut child = server
        .command(&["flow", "submit", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(ETL.as_bytes()).unwrap();
    assert!(stdout(&child.wait_with_output().unwrap()).starts_with("f_"));
}

#[test]
fn a_flow_in_yaml_is_submitted_like_one_in_json() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let (json, yaml) = (folder.path().join("etl.json"), folder.path().join("etl.yaml"));
    std::fs::write(&json, ETL).unwrap();
    std::fs::write(&yaml, ETL_YAML).unwrap();
    let drawn = |file: &std::path::Path| {
        let id = server.out(&["flow", "submit", file.to_str().unwrap(), "--quiet"]).trim().to_owned();
        let graph = server.json(&["flow", "graph", &id]);
        let names = |list: &str, fields: [&str; 3]| -> Vec<Value> {
            graph[list].as_array().unwrap().iter().map(|one| json!(fields.map(|field| &one[field]))).collect()
        };
        (names("nodes", ["key", "kind", "public_state"]), names("edges", ["from", "to", "input"]))
    };
    assert_eq!(drawn(&yaml), drawn(&json));
    std::fs::write(&yaml, "kind: etl\nmembers:\n  - key: a\n    kidn: load\n").unwrap();
    let told = server.fails(2, &["flow", "submit", yaml.to_str().unwrap()]);
    assert!(
        told.contains("is not a flow: `members[0].kidn` is not a field") && told.contains("hint: did you mean `kind`?"),
        "{told}"
    );
}

#[test]
fn members_and_edges_are_added_to_a_flow_that_is_there() {
    let server = Server::start();
    let id = one(&server, "l");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let more = file("more.yaml", MORE_YAML);
    assert_eq!(server.out(&["flow", "add", &short(&id), &more]).trim(), format!("{id}  added 1 member and 1 edge"));
    let again = server.out(&["flow", "add", &id, &more]);
    assert_eq!(again.trim(), format!("{id}  there already: 1 member and 1 edge"));
    let edge = file("edge.json", r#"{"edges": [{"from": "load", "to": "report", "group": "late", "on": "any"}]}"#);
    assert_eq!(server.json(&["flow", "add", &id, &edge, "--revision", "2"])["revision"], 3);
    let told = server.fails(1, &["flow", "add", &id, &edge, "--revision", "2"]);
    assert!(told.starts_with("error[revision_mismatch]: cannot add to it: "), "{told}");
    let cycle = file("cycle.yaml", "edges: [{from: report, to: load}]");
    let told = server.fails(1, &["flow", "add", &id, &cycle]);
    assert!(
        told.starts_with("error[cycle]: cannot add to it: ") && told.contains("report -> load -> report"),
        "{told}"
    );
    assert!(server.fails(2, &["flow", "add", &id, &file("none.yaml", "members: []")]).contains("neither members"));
    let alone = server.fails(2, &["flow", "add", &id, &edge, "--unsealed"]);
    assert!(alone.contains("`--unsealed` is about new members"), "{alone}");
    let late = file("late.yaml", "members: [{key: late, kind: late, lane: late}]");
    server.out(&["flow", "add", &id, &late, "--unsealed"]);
    assert_eq!(server.json(&["flow", "members", &id])["items"].as_array().unwrap().len(), 3);
    assert_eq!(server.out(&["flow", "seal", &id, "late"]).trim(), format!("{id}  sealed for 1 member"));
}

#[test]
fn executions_are_listed_counted_and_steered_by_flow() {
    let server = Server::start();
    let (id, other) = (etl(&server), one(&server, "l"));
    assert_eq!(server.json(&["list", "--flow", &short(&id)])["items"].as_array().unwrap().len(), 3);
    assert_eq!(server.json(&["count", "--flow", &id])["total"], 3);
    assert_eq!(server.json(&["list", "--filter", &format!("flow={other}")])["items"].as_array().unwrap().len(), 1);
    let told = server.fails(1, &["list", "--flow", "ffffffff"]);
    assert!(told.starts_with("error[flow_not_found]: "), "{told}");
    server.out(&["hold", "--flow", &id, "--yes"]);
    assert_eq!(server.json(&["count", "--flow", &other, "--state", "held"])["total"], 0);
    assert_eq!(server.json(&["count", "--flow", &id, "--state", "held"])["total"], 3);
}

#[test]
fn cli_1_what_is_no_flow_is_misuse_and_what_is_a_wrong_graph_is_refused() {
    let server = Server::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    std::fs::write(file.path(), "{\"kind\": \"etl\", \"egdes\": []}").unwrap();
    let told = server.fails(2, &["flow", "submit", path]);
    assert!(told.contains("is not a flow") && told.contains("`egdes`") && told.contains("\nhint: "), "{told}");
    let edges = json!([{"from": "a", "to": "b"}, {"from": "c", "to": "a"}]);
    let cycle = json!({"kind": "etl", "members": [{"key": "a", "kind": "x"}], "edges": edges});
    std::fs::write(file.path(), cycle.to_string()).unwrap();
    let told = server.fails(1, &["flow", "submit", path]);
    assert!(
        told.starts_with("error[unknown_node]: cannot submit it: 2 things are wrong with the graph\n  `edges[0].to`"),
        "{told}"
    );
    let told = server.fails(2, &["flow", "submit", "/no/such/file"]);
    assert!(told.starts_with("error: cannot read `/no/such/file`"), "{told}");
    assert_eq!(server.json(&["flow", "list"])["items"], json!([]));
}

#[test]
fn cli_1_a_flow_that_is_waited_for_gives_its_end_as_the_exit_code() {
    let server = Server::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"{"kind": "etl", "members": [{"key": "load", "kind": "load", "lane": "l"}]}"#)
        .unwrap();
    let path = file.path().to_str().unwrap();
    let good = Running::out_of(server.command(&["flow", "submit", path, "--wait"]));
    server.complete("l", json!(1));
    let line = good.wait_for("its end", |line| line.contains("completed"));
    assert!(line.starts_with("f_") && line.contains("1 of 1 done: 1 completed"), "{line}");
    assert_eq!(good.exit_code(), Some(0));

    let bad = Running::out_of(server.command(&["flow", "submit", path, "--wait", "--json"]));
    server.fail("l", "550");
    let ended: Value = serde_json::from_str(&bad.wait_for("its end", |line| line.starts_with('{'))).unwrap();
    assert_eq!(ended["public_flow_state"], "failed");
    assert_eq!(bad.exit_code(), Some(5));

    let told = server.fails(3, &["flow", "submit", path, "--wait", "--timeout", "300ms"]);
    assert!(told.contains("error[timed_out]: `f_") && told.contains("hint: `weft explain …"), "{told}");
    assert!(!told.contains("the server is away"), "{told}");
}

#[test]
fn a_flow_is_shown_by_an_end_of_its_id_and_listed_by_filters() {
    let server = Server::start();
    let id = etl(&server);
    let other = one(&server, "l");
    let card = server.out(&["flow", "get", &short(&id)]);
    for line in [
        format!("{id}   etl   default   monday"),
        "edges     2, 2 pending".to_owned(),
        "rules     isolate, all_terminal, dynamic, sealed".to_owned(),
        "tags      day=mon".to_owned(),
    ] {
        assert!(card.lines().any(|told| told == line), "{line} is missing in\n{card}");
    }
    assert!(card.contains(", 0 of 3 done") && !card.contains('\x1b'), "{card}");
    assert_eq!(server.json(&["flow", "get", &id])["summary"]["total_members"], 3);

    let list = server.out(&["flow", "list"]);
    assert_eq!(first_cells(&list), [short(&other), short(&id)], "the newest first: {list}");
    assert_eq!(server.out(&["flow", "list", "--tag", "day=mon", "--quiet"]).trim(), id);
    assert_eq!(server.out(&["flow", "list", "--oldest-first", "--limit", "1", "--quiet"]).trim(), id);
    assert_eq!(server.json(&["flow", "list", "--state", "completed,failed"])["items"], json!([]));
    let told = server.fails(2, &["flow", "list", "--state", "runing"]);
    assert!(told.contains("running"), "{told}");
    let told = server.fails(1, &["flow", "get", "ffffffff"]);
    assert!(told.starts_with("error[flow_not_found]: there is no flow") && told.contains("`weft flow list`"), "{told}");
    let told = server.fails(1, &["flow", "get", "f_0_0198f2c4-7a1e-7b6c-9d20-e5b1a4f3c8d7"]);
    assert!(told.starts_with("error[flow_not_found]: cannot get it: "), "{told}");
    assert!(server.fails(2, &["flow", "get", "mail"]).contains("`mail` is not the id of a flow"));
}

#[test]
fn members_are_listed_by_state_and_by_what_counts_against_the_flow() {
    let server = Server::start();
    let id = etl(&server);
    server.complete("load-a", json!(1));
    server.fail("load-b", "421");
    let all = server.out(&["flow", "members", &id]);
    assert_eq!(first_cells(&all), ["load-a", "load-b", "merge"], "in the order they were added: {all}");
    assert_eq!(first_cells(&server.out(&["flow", "members", &id, "--state", "completed"])), ["load-a"]);
    let more =
        submit(&server, json!({"kind": "etl", "members": [{"key": "z", "kind": "k"}, {"key": "a", "kind": "k"}]}));
    assert_eq!(first_cells(&server.out(&["flow", "members", &more, "--by-key"])), ["a", "z"]);
    let against = server.json(&["flow", "members", &id, "--against"]);
    let keys: Vec<&Value> = against["items"].as_array().unwrap().iter().map(|one| &one["flow"]["key"]).collect();
    assert!(keys.contains(&&json!("load-b")) && !keys.contains(&&json!("load-a")), "{against}");
    let two = server.weft(&["flow", "members", &id, "--limit", "2"]);
    assert_eq!(first_cells(&stdout(&two)), ["load-a", "load-b"]);
    assert!(text(&two.stderr).contains("there are more"), "{}", text(&two.stderr));
}

#[test]
fn a_flow_is_drawn_in_four_ways_and_told_in_one_object() {
    let server = Server::start();
    let id = etl(&server);
    server.complete("load-a", json!(1));
    let tree = server.out(&["flow", "graph", &id]);
    assert!(tree.starts_with(&format!("etl {}: ", short(&id))) && tree.contains("1 of 3 done"), "{tree}");
    assert!(tree.contains("✓ load-a") && tree.contains("merge") && !tree.contains('\x1b'), "{tree}");
    assert!(server.out(&["flow", "graph", &id, "--dot"]).starts_with("digraph"));
    assert!(server.out(&["flow", "graph", &id, "--mermaid"]).contains("flowchart"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("etl.svg");
    let quiet = server.out(&["flow", "graph", &id, "--svg", "-o", file.to_str().unwrap()]);
    assert_eq!(quiet, "");
    assert!(std::fs::read_to_string(&file).unwrap().contains("<svg"));
    let graph = server.json(&["flow", "graph", &id]);
    assert_eq!((graph["nodes"].as_array().unwrap().len(), graph["edges"].as_array().unwrap().len()), (3, 2));
    assert_eq!(server.weft(&["flow", "graph", &id, "--dot", "--svg"]).status.code(), Some(2));
    assert!(server.fails(2, &["flow", "graph", &id, "--dot", "--json"]).contains("a picture is no JSON"));
    let nowhere = server.fails(1, &["flow", "graph", &id, "-o", "/no/such/folder/x"]);
    assert!(nowhere.starts_with("error: cannot write `/no/such/folder/x`"), "{nowhere}");
}

#[test]
fn a_watch_writes_a_line_per_change_until_the_flow_is_done() {
    let server = Server::start();
    let id = etl(&server);
    let watched = Running::out_of(server.command(&["flow", "watch", &id, "--every", "50ms"]));
    let first = watched.wait_for("how it stands", |line| line.starts_with(&id));
    assert!(first.contains("0 of 3 done") && !first.contains('\x1b'), "{first}");
    server.complete("load-a", json!(1));
    watched.wait_for("one done", |line| line.contains("1 of 3 done"));
    server.complete("load-b", json!(1));
    server.complete("merge", json!(1));
    watched.wait_for("its end", |line| line.contains("completed, 3 of 3 done: 3 completed"));
    assert_eq!(watched.exit_code(), Some(0));
    assert_eq!(server.out(&["flow", "watch", &id, "--jsonl"]).lines().count(), 1);
    assert!(server.fails(2, &["flow", "watch", &id, "--json"]).contains("`--jsonl`"));

    let failed = one(&server, "f");
    server.fail("f", "421");
    assert_eq!(server.weft(&["flow", "watch", &failed]).status.code(), Some(5));
}

#[test]
fn cli_1_a_watch_that_is_interrupted_or_out_of_time_leaves_the_flow_alone() {
    let server = Server::start();
    let id = one(&server, "l");
    let mut watch = server.command(&["flow", "watch", &id]);
    let mut child = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with(&id), "{line}");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(text(&output.stderr), format!("`{id}` goes on; `weft flow watch {}` shows it again\n", short(&id)));
    let told = server.fails(3, &["flow", "watch", &id, "--timeout", "300ms"]);
    assert!(told.contains(&format!("error[timed_out]: `{id}` is still ")), "{told}");
    assert!(!["completed", "failed", "cancelled"].contains(&state(&server, &id).as_str()));
}

#[test]
fn a_flow_is_cancelled_with_a_reason_and_waited_for() {
    let server = Server::start();
    let id = one(&server, "l");
    let told = server.out(&["flow", "cancel", &id, "--reason", "wrong file", "--wait", "30s"]);
    assert_eq!(told.trim(), format!("{id}  cancelled, 1 member cancelled"));
    let card = server.out(&["flow", "get", &id]);
    assert!(card.contains("requested by ") && card.contains(": wrong file"), "{card}");

    let held = one(&server, "h");
    server.claim("h");
    let late = server.weft(&["flow", "cancel", &held, "--policy", "let_active_finish", "--wait", "300ms"]);
    assert_eq!(late.status.code(), Some(3), "{}", text(&late.stderr));
    assert!(text(&late.stdout).contains("1 with a worker"), "{}", text(&late.stdout));
    assert!(text(&late.stderr).starts_with("error[timed_out]: "), "{}", text(&late.stderr));
    let again = server.json(&["flow", "cancel", &held, "--grace", "0s", "--wait", "30s"]);
    assert_eq!((&again["already"], &again["done"]), (&json!(true), &json!(true)), "{again}");
    let misuse = server.fails(2, &["flow", "cancel", &held, "--policy", "flow_only", "--grace", "1s"]);
    assert!(misuse.contains("`--grace` is for `--policy cancel_all`"), "{misuse}");
}

#[test]
fn a_flow_is_replayed_and_completes() {
    let server = Server::start();
    let id = one(&server, "l");
    server.fail("l", "421");
    assert_eq!(state(&server, &id), "failed");
    let told = server.out(&["flow", "replay", &id, "--reason", "smtp is back"]);
    assert_eq!(told.trim(), format!("{id}  replayed 1 member"));
    server.complete("l", json!(1));
    assert_eq!(server.weft(&["flow", "watch", &id]).status.code(), Some(0));
    assert_eq!(server.out(&["flow", "replay", &id]).trim(), format!("{id}  nothing counts against it"));
    assert_eq!(server.json(&["flow", "replay", &id])["matched"], 0);
}

#[test]
fn a_flow_whose_deadline_has_passed_is_replayed_without_it() {
    let server = Server::start();
    let members =
        json!([{"key": "load", "kind": "load", "lane": "l"}, {"key": "idle", "kind": "load", "lane": "idle"}]);
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64 + 3_000;
    let id = submit(&server, json!({"kind": "etl", "deadline_at": soon, "members": members}));
    server.fail("l", "421");
    let ended = server.weft(&["flow", "watch", &id]);
    assert_eq!(ended.status.code(), Some(5), "{}", text(&ended.stderr));
    let refused = server.weft(&["flow", "replay", &id]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    assert!(text(&refused.stdout).contains("1 refused: 1 deadline_in_past"), "{}", text(&refused.stdout));
    assert!(text(&refused.stderr).contains("--no-deadline` drops it"), "{}", text(&refused.stderr));
    let told = server.out(&["flow", "replay", &id, "--no-deadline"]);
    assert_eq!(told.trim(), format!("{id}  replayed 1 member"));
    assert_eq!(state(&server, &id), "running");
    server.complete("l", json!(1));
}

#[test]
fn a_flow_that_waits_for_a_word_is_finished() {
    let server = Server::start();
    let declared = |lane: &str| {
        let members = json!([{"key": "load", "kind": "load", "lane": lane}]);
        submit(&server, json!({"kind": "etl", "completion_policy": {"kind": "declared"}, "members": members}))
    };
    let id = declared("l");
    server.complete("l", json!(1));
    assert!(server.out(&["flow", "get", &id]).contains("weft flow finish "));
    assert!(server.out(&["explain", &id]).contains("ends by `weft flow finish`"));
    assert_eq!(server.out(&["flow", "finish", &id]).trim(), format!("{id}  completed"));
    assert_eq!(state(&server, &id), "completed");
    let told = server.fails(1, &["flow", "finish", &id]);
    assert!(told.starts_with("error[flow_terminal]: cannot finish it: "), "{told}");
    let bad = declared("m");
    server.claim("m");
    let told = server.json(&["flow", "finish", &bad, "--outcome", "failed", "--reason", "no more"]);
    assert_eq!(told["outcome"], "failed", "{told}");
    let told = server.fails(1, &["flow", "finish", &one(&server, "n")]);
    assert!(told.contains("only `declared` waits for a word"), "{told}");
}

#[test]
fn a_flow_is_sealed_member_by_member_and_as_a_whole() {
    let server = Server::start();
    let members = json!([{"key": "load", "kind": "load", "lane": "l"}]);
    let id = submit(&server, json!({"kind": "etl", "seal": false, "members": members}));
    assert!(server.out(&["flow", "get", &id]).contains("not sealed, cancelled in "));
    assert_eq!(server.out(&["flow", "seal", &id, "load"]).trim(), format!("{id}  sealed for 1 member"));
    assert_eq!(server.out(&["flow", "seal", &id]).trim(), format!("{id}  sealed"));
    assert_eq!(server.json(&["flow", "seal", &id]), json!({"already": true}));
    let told = server.fails(1, &["flow", "seal", &id, "laod"]);
    assert!(told.starts_with("error[unknown_node]: cannot seal it: "), "{told}");
}

#[test]
fn explain_tells_why_a_flow_is_not_done() {
    let server = Server::start();
    let id = etl(&server);
    let told = server.out(&["explain", &id]);
    assert!(told.contains("load-a") && told.contains("merge"), "{told}");
    assert_eq!(server.out(&["explain", &short(&id)]), told, "by an end of its id too");
    assert_eq!(server.json(&["explain", &id])["done"], false);
    assert!(server.fails(2, &["explain", &id, "--instance", "w"]).contains("`--instance` is about an execution"));
    assert!(server.fails(1, &["explain", "ffffffff"]).starts_with("error[execution_not_found]: "));
}
