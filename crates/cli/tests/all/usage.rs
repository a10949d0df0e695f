use crate::process::{stdout, text, weft};

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
        (&["bench", "idle", "--n", "3"][..], "`--n` has no effect on `idle`, which uses: --seconds"),
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
    for command in ["demo", "bench", "sim", "version"] {
        let help = stdout(&weft(&[command, "--help"]));
        let example = help.lines().next().unwrap().strip_prefix("example: weft ").unwrap().to_owned();
        assert!(example.starts_with(command), "{example}");
        let args: Vec<&str> = example.split(' ').collect();
        stdout(&weft(&args));
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
