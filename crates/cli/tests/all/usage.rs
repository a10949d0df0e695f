use crate::process::{command, stdout, text, weft};

#[test]
fn cli_3_an_unknown_flag_is_answered_with_the_nearest() {
    for (args, nearest) in [
        (&["demo", "--executons", "40"][..], "--executions"),
        (&["dmo"][..], "demo"),
        (&["bench", "lifecycel"][..], "lifecycle"),
        (&["sim", "--sedes", "3"][..], "--seed"),
    ] {
        let output = weft(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(nearest), "{args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn cli_1_misuse_exits_with_2_and_says_what_to_do() {
    for (args, message) in [
        (&["bench", "floor", "--seconds", "3"][..], "`--seconds` has no effect on `floor`, which uses: --n, --payload"),
        (&["bench", "idle", "--n", "3"][..], "`--n` has no effect on `idle`, which uses: --seconds, --nodes"),
        (
            &["bench", "latency", "--nodes", "2", "--store", "valkey://localhost"][..],
            "`--nodes` has no effect on `latency`",
        ),
        (&["bench", "lifecycle", "--nodes", "2"][..], "one process at a time has a SQLite file open"),
        (&["bench", "lifecycle", "--nodes", "17", "--store", "valkey://localhost"][..], "allowed are 1 to 16"),
        (&["bench", "all", "--n", "3"][..], "`all` takes every scenario with its defaults"),
        (&["bench", "floor", "--payload", "7"][..], "`--payload` is 7, allowed are 8 to 1048576"),
        (&["demo", "--executions", "3"][..], "20..=20000"),
        (&[][..], "Usage"),
    ] {
        let output = weft(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(message), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn cli_4_the_help_of_each_command_begins_with_an_example_that_works() {
    let dir = tempfile::tempdir().unwrap();
    // In this order: what one makes another one needs.
    for name in ["demo", "bench", "sim", "version", "migrate", "doctor", "nodes", "export", "import"] {
        let help = stdout(&weft(&[name, "--help"]));
        let example = help.lines().next().unwrap().strip_prefix("example: weft ").unwrap().to_owned();
        assert!(example.starts_with(name), "{example}");
        let args: Vec<&str> = example.split(' ').collect();
        stdout(&command(&args).current_dir(dir.path()).env_remove("WEFT_STORE").output().unwrap());
    }
    assert!(stdout(&weft(&["--help"])).starts_with("example: weft demo\n"));
}

#[test]
fn the_version_is_told_in_two_ways() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(stdout(&weft(&["version"])), format!("weft {version}\n"));
    assert_eq!(stdout(&weft(&["--version"])), format!("weft {version}\n"));
    let json: serde_json::Value = serde_json::from_str(&stdout(&weft(&["version", "--json"]))).unwrap();
    assert_eq!(json["version"], version);
}
