use crate::process::{Running, stdout, text, weft};
use crate::remote::examples::EXAMPLES;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// The example that the help of a command begins with.
fn example(name: &str) -> String {
    let words: Vec<&str> = name.split(' ').chain(["--help"]).collect();
    let help = stdout(&weft(&words));
    let example = help.lines().next().unwrap().strip_prefix("example: ").unwrap_or_else(|| panic!("{name}: {help}"));
    assert!(example.starts_with(&format!("weft {name}")), "{example}");
    example.to_owned()
}

/// A shell that runs a line as a person would, in the folder.
fn shell(line: &str, folder: &Path) -> Command {
    let binary = Path::new(env!("CARGO_BIN_EXE_weft")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("PATH", path).env_remove("WEFT_STORE").current_dir(folder).stdin(Stdio::null());
    shell
}

/// Commands whose examples need no server. In this order: what one makes another one needs.
const HERE: [&str; 12] = [
    "demo",
    "bench",
    "sim",
    "version",
    "config example",
    "config check",
    "config show",
    "migrate",
    "doctor",
    "nodes",
    "export",
    "import",
];

/// Commands that run on until they are stopped.
const RUN_ON: [&str; 3] = ["dev", "serve", "worker"];

/// The commands that the help of a command lists.
fn listed(words: &[&str]) -> Vec<String> {
    let help = stdout(&weft(&[words, &["--help"]].concat()));
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = list.take_while(|line| line.starts_with("  ")).filter_map(|line| {
        // What a long name pushes to the next line stands further in.
        line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?.split_whitespace().next()
    });
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn cli_4_no_command_is_without_an_example_that_is_run() {
    let run: Vec<&str> = HERE.into_iter().chain(RUN_ON).chain(EXAMPLES.iter().map(|(name, _)| *name)).collect();
    let mut open: Vec<String> = listed(&[]);
    assert!(open.len() > 30, "{open:?}");
    while let Some(name) = open.pop() {
        let words: Vec<&str> = name.split(' ').collect();
        let below = listed(&words);
        // What only holds others together is run with one of them.
        assert!(run.contains(&name.as_str()) || !below.is_empty(), "no test runs the example of `weft {name}`");
        open.extend(below.into_iter().map(|one| format!("{name} {one}")));
    }
}

#[test]
fn cli_4_the_help_of_each_command_begins_with_an_example_that_works() {
    let dir = tempfile::tempdir().unwrap();
    for name in HERE {
        stdout(&shell(&example(name), dir.path()).output().unwrap());
    }
    assert!(stdout(&weft(&["--help"])).starts_with("example: weft demo\n"));
}

#[test]
fn cli_4_servers_and_workers_begin_as_their_examples_say() {
    let dir = tempfile::tempdir().unwrap();
    // On a port that is free here.
    let dev = format!("exec {} --port 0", example("dev"));
    let serve = format!("exec {}", example("serve").replace(":7700", ":0"));
    for line in [&dev, &serve] {
        let server = Running::err_of(shell(line, dir.path()));
        let told = server.wait_for("where it is", |line| line.contains(" serves http"));
        if *line == dev {
            let mut worker = shell(&format!("exec {}", example("worker")), dir.path());
            worker.env("WEFT_URL", told.split_whitespace().last().unwrap());
            let worker = Running::err_of(worker);
            worker.wait_for("what it takes", |line| line.starts_with("takes hello "));
            worker.signal("-INT");
            assert_eq!(worker.exit_code(), Some(0));
        }
        server.signal("-INT");
        assert_eq!(server.exit_code(), Some(0), "{line}");
    }
}

#[test]
fn quiet_is_heard_after_the_name_of_a_command_too() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        crate::process::command(args).env_remove("WEFT_STORE").current_dir(dir.path()).output().unwrap()
    };
    stdout(&run(&["migrate", "--quiet"]));
    for args in [&["config", "check", "--quiet"][..], &["config", "--quiet", "check"], &["--quiet", "config", "check"]]
    {
        let output = run(args);
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
    }
    let told = stdout(&run(&["doctor", "-q"]));
    assert!(!told.lines().any(|line| line.starts_with("ok ")), "{told}");
    let nodes = run(&["nodes", "-q"]);
    assert_eq!((stdout(&nodes), text(&nodes.stderr)), (String::new(), String::new()));
    assert_eq!(stdout(&run(&["nodes", "--jsonl"])), "", "a line per node, and there is none");
    let refused = run(&["--json", "config", "example"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("the example is a `weft.toml`"));
}

#[test]
fn the_version_is_told_in_two_ways() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(stdout(&weft(&["version"])), format!("weft {version}\n"));
    assert_eq!(stdout(&weft(&["--version"])), format!("weft {version}\n"));
    for args in [["version", "--json"], ["--json", "version"]] {
        let json: serde_json::Value = serde_json::from_str(&stdout(&weft(&args))).unwrap();
        assert_eq!(json["version"], version);
    }
    assert_eq!(stdout(&weft(&["-q", "version"])), format!("weft {version}\n"));
    assert_eq!(stdout(&weft(&["version", "-q"])), format!("weft {version}\n"));
}
