//! Making a store, looking at it, and what is said when it is not there.

use crate::places::{self, with};
use crate::process::{command, stdout, text, weft};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use weft_store_sqlite::{Options, SqliteStore};

fn json(args: &[&str]) -> (Option<i32>, Value) {
    let output = weft(args);
    let printed = text(&output.stdout);
    (
        output.status.code(),
        serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}{}", text(&output.stderr))),
    )
}

/// What a command says to stderr, after it ended with this code.
fn refusal(args: &[&str], code: i32) -> String {
    let output = weft(args);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {}{told}", text(&output.stdout));
    told
}

/// Checks that the store is due to be made, makes it, and checks that it is not due any more.
fn ops_24_making_a_store(url: &str) {
    let check = ["migrate", "--check", "--store", url, "--json"];
    let (code, before) = json(&check);
    assert_eq!((code, &before["due"], &before["done"]), (Some(1), &true.into(), &false.into()), "{before}");
    assert!(!before["steps"].as_array().unwrap().is_empty());
    assert_eq!(json(&check).1, before, "looking changes nothing");
    let (code, made) = json(&["migrate", "--store", url, "--json"]);
    assert_eq!((code, &made["steps"], &made["done"]), (Some(0), &before["steps"], &true.into()), "{made}");
    let (code, after) = json(&check);
    assert_eq!((code, &after["due"]), (Some(0), &false.into()), "{after}");
    stdout(&weft(&["migrate", "--store", url]));

    let (code, report) = json(&["doctor", "--store", url, "--json"]);
    assert_eq!((code, &report["problems"]), (Some(0), &0.into()), "{report}");
    let subjects: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|finding| finding["subject"].as_str().unwrap()).collect();
    for subject in ["durability", "partitions", "clock", "nodes", "parked items"] {
        assert!(subjects.contains(&subject), "{subject} in {subjects:?}");
    }
    let nodes = json(&["nodes", "--store", url, "--json"]);
    assert_eq!(nodes, (Some(0), serde_json::json!({ "items": [] })));
}

#[test]
fn ops_24_a_file_is_made_once_and_is_found_sound() {
    let dir = tempfile::tempdir().unwrap();
    ops_24_making_a_store(&places::sqlite(dir.path(), "data"));
}

#[test]
fn ops_24_a_schema_is_made_once_and_is_found_sound() {
    ops_24_making_a_store(&places::postgres("&partitions=4"));
}

#[test]
fn ops_24_a_prefix_is_made_once_and_is_found_sound() {
    ops_24_making_a_store(&places::valkey("&partitions=4"));
}

#[test]
fn a_store_that_was_not_made_is_refused_with_what_makes_it() {
    for url in [places::postgres(""), places::valkey("")] {
        let told = refusal(&["nodes", "--store", &url], 1);
        assert!(told.starts_with("error: cannot open") && told.contains("weft migrate --store"), "{told}");
        assert_eq!(json(&["doctor", "--store", &url, "--json"]).0, Some(1));
    }
    let dir = tempfile::tempdir().unwrap();
    let url = places::sqlite(dir.path(), "data");
    for command in [&["nodes"][..], &["export", "x"]] {
        assert!(refusal(&[command, &["--store", &url]].concat(), 1).contains("there is no such file"));
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "looking makes nothing");
}

#[test]
fn ops_29_the_doctor_names_what_is_wrong_with_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let url = places::sqlite(dir.path(), "data");
    let table = text(&weft(&["doctor", "--store", &url]).stdout);
    assert!(table.contains("problem") && table.contains("→ `weft migrate` makes it"), "{table}");
    stdout(&weft(&["migrate", "--store", &url]));
    let folder = dir.path().join("data");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, report) = json(&["doctor", "--store", &url, "--json"]);
    assert_eq!((code, &report["problems"]), (Some(1), &1.into()), "{report}");
    let problem =
        report["findings"].as_array().unwrap().iter().find(|finding| finding["severity"] == "problem").unwrap();
    assert_eq!(problem["subject"], "permissions");
    assert_eq!(problem["advice"], format!("`chmod go-w {}`", folder.display()));
}

#[test]
fn ops_29_a_file_that_is_in_use_is_looked_at_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weft.db");
    let url = format!("sqlite:{}", path.display());
    let _held = SqliteStore::open(Options::new(&path)).unwrap();
    let (code, report) = json(&["doctor", "--store", &url, "--json"]);
    let holder = format!("process {}", std::process::id());
    assert!(code == Some(0) && report.to_string().contains(&holder), "{report}");
    assert!(refusal(&["nodes", "--store", &url], 1).contains(&holder));
    assert!(refusal(&["export", "x", "--store", &url], 1).contains(&holder));
}

#[test]
fn cli_1_a_server_that_is_not_there_is_unreachable() {
    for url in ["postgres://127.0.0.1:9/x", "valkey://127.0.0.1:9", "valkey-cluster://127.0.0.1:9"] {
        let told = refusal(&["nodes", "--store", url], 3);
        assert!(told.starts_with("error: could not connect to `127.0.0.1:9"), "{told}");
        assert!(told.ends_with("connection refused; is the server running?\n"), "{told}");
        assert_eq!(weft(&["doctor", "--store", url]).status.code(), Some(1));
    }
}

#[test]
fn cli_1_a_wrong_password_is_not_allowed() {
    let server = weft_servers::shared_valkey_url().replace("valkey://", "valkey://ann:hidden@");
    let told = refusal(&["nodes", "--store", &server], 4);
    assert!(told.contains("cannot log in to") && told.contains("check user and password"), "{told}");
    assert!(!told.contains("hidden"), "{told}");
}

#[test]
fn a_database_that_does_not_exist_is_named() {
    let server = weft_servers::shared_postgres_url();
    let (server, _) = server.split_once('?').unwrap_or((server, ""));
    let server = format!("{}/weft_has_none_of_this_name", server.rsplit_once('/').unwrap().0);
    let told = refusal(&["nodes", "--store", &server], 1);
    assert!(told.contains("database \"weft_has_none_of_this_name\" does not exist; make it first"), "{told}");
}

#[test]
fn cli_1_cli_3_a_wrong_address_is_a_misuse() {
    for (url, told) in [
        ("postgre://localhost/x", "did you mean `postgres`?"),
        ("mysql://localhost/x", "there are `sqlite://PATH`"),
        ("weft.db", "`sqlite://weft.db`"),
        ("sqlite://x?partitons=4", "partitions=N"),
        ("postgres://localhost/x?schmea=y", "did you mean `schema`"),
        ("valkey://localhost?prefex=y", "`prefix`"),
        ("valkey://db.example.com", "plaintext=true"),
    ] {
        for command in ["nodes", "doctor", "migrate", "demo"] {
            assert!(refusal(&[command, "--store", url], 2).contains(told), "{command} {url}");
        }
        assert!(refusal(&["bench", "floor", "--store", url], 2).contains(told), "{url}");
    }
}

#[test]
fn the_address_comes_from_the_environment_if_none_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let output = command(&["migrate"]).env("WEFT_STORE", places::sqlite(dir.path(), "data")).output().unwrap();
    stdout(&output);
    assert!(dir.path().join("data").join("weft.db").exists());
    let wrong = command(&["migrate"]).env("WEFT_STORE", "mysql://x").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    let none = command(&["migrate"]).env_remove("WEFT_STORE").current_dir(dir.path()).output().unwrap();
    stdout(&none);
    assert!(dir.path().join("weft-data").join("weft.db").exists(), "the default lies in the working folder");
}

/// How many partitions the doctor finds in the store that is configured in the folder.
fn partitions_found(folder: &std::path::Path) -> String {
    let report = stdout(&command(&["doctor", "--json"]).env_remove("WEFT_STORE").current_dir(folder).output().unwrap());
    let report: Value = serde_json::from_str(&report).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let found =
        findings.iter().find(|finding| finding["subject"] == "partitions").unwrap_or_else(|| panic!("{report}"));
    found["found"].as_str().unwrap().to_owned()
}

#[test]
fn ops_1_the_store_of_the_file_is_the_store_of_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| command(args).env_remove("WEFT_STORE").current_dir(dir.path()).output().unwrap();
    std::fs::write(dir.path().join("weft.toml"), "[store]\nurl = \"sqlite:here/a.db\"\npartitions = 2\n").unwrap();
    stdout(&command(&["migrate"]).env("WEFT_STORE_PARTITIONS", "3").current_dir(dir.path()).output().unwrap());
    assert!(dir.path().join("here").join("a.db").exists() && !dir.path().join("weft-data").exists());
    std::fs::write(dir.path().join("weft.toml"), "[store]\nurl = \"sqlite:here/a.db\"\n").unwrap();
    assert!(partitions_found(dir.path()).starts_with('3'), "the environment counts before the file");
    stdout(&run(&["nodes"]));
    stdout(&run(&["export", "a.export"]));

    std::fs::write(dir.path().join("other.toml"), "[store]\nurl = \"sqlite:here/b.db\"\n").unwrap();
    let import = ["import", "a.export", "--config", "other.toml", "--store-partitions", "4"];
    stdout(&run(&import));
    assert!(dir.path().join("here").join("b.db").exists());

    std::fs::write(dir.path().join("weft.toml"), "[store]\nurll = \"sqlite:a.db\"\n").unwrap();
    for args in [&["migrate"][..], &["nodes"], &["export", "b.export"]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains("did you mean `store.url`?"), "{args:?}: {}", text(&output.stderr));
    }
    let output = run(&["doctor"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    assert!(told.contains("did you mean `store.url`?") && told.contains("not looked at"), "{told}");
}

#[test]
fn a_demo_runs_on_any_store() {
    for url in [places::postgres("&migrate=auto"), places::valkey("&migrate=auto")] {
        let output = weft(&["demo", "--executions", "20", "--store", &url]);
        let table = stdout(&output);
        assert!(table.contains("video.encode") && table.contains("20 executions in"), "{table}");
        assert!(text(&output.stderr).contains("durability local"), "{}", text(&output.stderr));
        let (_, nodes) = json(&["nodes", "--store", &url, "--json"]);
        let node = &nodes["items"][0];
        assert_eq!((&node["state"], &node["version"]), (&"left".into(), &env!("CARGO_PKG_VERSION").into()), "{nodes}");
    }
    let told = refusal(&["demo", "--store", "sqlite://x", "--keep"], 2);
    assert!(told.contains("cannot be used with"), "{told}");
}

#[test]
fn ops_25_live_nodes_are_listed_with_their_partitions() {
    let url = places::valkey("&migrate=auto&partitions=4");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let engine = runtime.block_on(async {
        let store = weft_store_valkey::ValkeyStore::open_url(&url).await.unwrap();
        let config = weft_engine::Config { node: "one".into(), ..weft_engine::Config::default() };
        weft_engine::Engine::open(store, config).await.unwrap()
    });
    let table = stdout(&weft(&["nodes", "--store", &url]));
    let line = table.lines().find(|line| line.starts_with("one")).unwrap_or_else(|| panic!("{table}"));
    assert!(line.contains("live") && line.contains("0-3") && line.contains("ago"), "{table}");
    let refused = refusal(&["export", "never-written", "--store", &url], 1);
    assert!(refused.contains("the node `one` was heard of") && refused.contains("stop every node first"), "{refused}");
    assert!(!std::path::Path::new("never-written").exists() && !std::path::Path::new("never-written.partial").exists());
    runtime.block_on(engine.shutdown());
    let (_, left) = json(&["nodes", "--store", &with(&url, ""), "--json"]);
    assert_eq!(left["items"][0]["state"], "left");
}
