use crate::process::{command, stdout, text};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn config(folder: &Path, args: &[&str]) -> Output {
    command(&[&["config"], args].concat()).current_dir(folder).output().unwrap()
}

fn with_file(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("weft.toml"), text).unwrap();
    folder
}

#[test]
fn ops_1_check_tells_every_mistake_with_what_was_meant_and_exits_with_2() {
    let folder =
        with_file("[server]\nlisten = \"127.0.0.1:7800\"\ndrian = \"3s\"\n[execution]\nretention = \"1 week\"\n");
    let output = config(folder.path(), &["check", "--engine-recheck", "1h"]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    for wanted in [
        "the configuration has 3 mistakes",
        "`server.drian` is no key of the configuration (weft.toml:3): did you mean `server.drain`?",
        "`execution.retention` is `\"1 week\"`, wanted is a duration like",
        "`engine.recheck` is 1h, allowed are 1s to 1m (--engine-recheck)",
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }

    let output = config(folder.path(), &["check", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["mistakes"].as_array().unwrap().len(), 2);
}

#[test]
fn an_unknown_variable_is_warned_of_and_only_config_check_refuses_it() {
    let folder = tempfile::tempdir().unwrap();
    let run =
        |args: &[&str]| command(args).current_dir(folder.path()).env(concat!("WEFT_", "LISTN"), "x").output().unwrap();
    let told = concat!("`WEFT_", "LISTN` is no variable of Weft: did you mean `WEFT_LISTEN`?\n");
    for args in [
        &["serve", "--check"][..],
        &["config", "show"],
        &["migrate"],
        &["export", "file"],
        &["import", "file", "--store", "sqlite:copy/weft.db"],
        &["nodes"],
    ] {
        let output = run(args);
        stdout(&output);
        let warned = text(&output.stderr);
        assert_eq!(warned.matches("warning: ").count(), 1, "{args:?}: {warned}");
        assert!(warned.contains(&format!("warning: {told}")), "{args:?}: {warned}");
    }
    for args in [&["config", "check"][..], &["config", "check", "--json"]] {
        let output = run(args);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), format!("error: {told}")), "{args:?}");
    }
}

#[test]
fn ops_1_an_unknown_flag_stops_the_start_with_a_suggestion() {
    let folder = tempfile::tempdir().unwrap();

    let output = config(folder.path(), &["check", "--lisen", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("--lisen") && told.contains("--listen"), "{told}");
}

#[test]
fn ops_1_a_command_that_reads_no_configuration_warns_of_an_unknown_variable() {
    let run = |args: &[&str]| command(args).env(concat!("WEFT_", "URLL"), "x").output().unwrap();
    let warning = concat!("warning: `WEFT_", "URLL` is no variable of Weft: did you mean `WEFT_URL`?\n");
    let version = run(&["version"]);
    assert!(stdout(&version).starts_with("weft "));
    assert_eq!(text(&version.stderr), warning);
    assert_eq!(text(&run(&["version", "--quiet"]).stderr), "");
    // Nobody listens on this port.
    let list = run(&["list", "--url", "http://127.0.0.1:1"]);
    assert_eq!(list.status.code(), Some(3));
    assert!(text(&list.stderr).starts_with(warning), "{}", text(&list.stderr));
}

#[test]
fn ops_1_a_service_called_weft_in_the_cluster_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let made = [
        ("SERVICE_HOST", "10.96.0.17"),
        ("SERVICE_PORT", "7733"),
        ("SERVICE_PORT_HTTP", "7733"),
        ("PORT", "tcp://10.96.0.17:7733"),
        ("PORT_7733_TCP", "tcp://10.96.0.17:7733"),
        ("PORT_7733_TCP_ADDR", "10.96.0.17"),
        ("NAME", "/shop/weft"),
        ("ENV_WEFT_STORE", "memory:"),
    ];
    let run = |args: &[&str]| {
        let made = made.iter().map(|(name, value)| (format!("WEFT_{name}"), value));
        command(args).current_dir(folder.path()).envs(made).output().unwrap()
    };
    for args in [&["version"][..], &["serve", "--check"], &["config", "check"]] {
        let output = run(args);
        stdout(&output);
        assert!(!text(&output.stderr).contains("WEFT_"), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn check_finds_what_serve_would_stumble_on() {
    let folder = tempfile::tempdir().unwrap();
    for (args, wanted) in [
        (vec!["--store", "postgre://localhost/x"], "did you mean `postgres`?"),
        (vec!["--store", "postgres://localhost/x"], "there is no master key"),
        (vec!["--store", "postgres://localhost/x"], "head -c 32 /dev/urandom | base64"),
        (vec!["--store-durability", "strict"], "a store on SQLite has no use for it"),
        (vec!["--listen", "0.0.0.0:7700"], "give `server.tls_cert` and `server.tls_key`"),
        (vec!["--tls-cert", "no.pem", "--tls-key", "no.key"], "cannot read `no.pem`"),
        (vec!["--cors-origins", "*"], "only `weft dev` takes"),
        (vec!["--master-key-file", "no.key"], "cannot read `no.key`"),
    ] {
        let output = config(folder.path(), &[&["check"], args.as_slice()].concat());
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains(wanted), "{args:?}: {told}");
    }
    let short =
        command(&["serve", "--check"]).current_dir(folder.path()).env("WEFT_BOOTSTRAP_KEY", "short").output().unwrap();
    assert_eq!(short.status.code(), Some(2));
    assert!(
        text(&short.stderr).contains("`auth.bootstrap_key` is no key (WEFT_BOOTSTRAP_KEY)"),
        "{}",
        text(&short.stderr)
    );
    assert!(text(&config(folder.path(), &["check"]).stderr).contains("all values are the built-in ones"));
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "a check makes nothing");
}

#[test]
fn show_tells_each_value_with_its_origin_and_no_secret() {
    let folder = with_file("[server]\ndrain = \"3s\"\n");
    let output = command(&["config", "show", "--json", "--listen", "127.0.0.1:7800", "--behind-proxy"])
        .current_dir(folder.path())
        .env("WEFT_MASTER_KEY", "c2VjcmV0")
        .env("WEFT_STORE", "postgres://ann:hidden@localhost/weft")
        .output()
        .unwrap();
    let shown = stdout(&output);
    assert!(!shown.contains("c2VjcmV0") && !shown.contains("hidden"), "{shown}");
    let json: Value = serde_json::from_str(&shown).unwrap();
    let row = |key: &str| json["settings"].as_array().unwrap().iter().find(|row| row["key"] == key).unwrap().clone();
    for (key, value, origin) in [
        ("server.drain", "3s", "weft.toml:2"),
        ("server.listen", "127.0.0.1:7800", "--listen"),
        ("server.behind_proxy", "true", "--behind-proxy"),
        ("master_key", "***", "WEFT_MASTER_KEY"),
        ("store.url", "postgres://***@localhost/weft", "WEFT_STORE"),
        ("engine.recheck", "5s", "built-in"),
    ] {
        assert_eq!((row(key)["value"].as_str(), row(key)["origin"].as_str()), (Some(value), Some(origin)), "{key}");
    }
    assert_eq!(row("node.name")["otherwise"], "name of the host and a random part");

    let table = stdout(&config(folder.path(), &["show"]));
    assert!(table.starts_with("key ") && table.contains("server.drain  "), "{table}");
}

#[test]
fn the_example_is_a_file_that_changes_nothing() {
    let example = stdout(&config(&std::env::temp_dir(), &["example"]));
    let folder = with_file(&example);
    assert!(text(&config(folder.path(), &["check"]).stderr).contains("all values are the built-in ones"));
    let uncommented = example.replace("#drain = \"15s\"", "drain = \"16s\"");
    std::fs::write(folder.path().join("weft.toml"), uncommented).unwrap();
    assert!(text(&config(folder.path(), &["check"]).stderr).contains("1 values from the file"));
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let output = config(folder.path(), &["check", "--config", "other.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("could not read `other.toml`"));
}
