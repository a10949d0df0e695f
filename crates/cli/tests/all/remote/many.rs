//! Verbs over many: they ask, and where nobody can be asked they refuse.

use super::Server;

#[test]
fn cli_2_several_are_not_touched_without_a_yes() {
    let server = Server::start();
    let ids: Vec<String> = (0..3).map(|_| server.submit(&["a", "--lane", "mail"])).collect();
    let told = server.fails(1, &["cancel", &ids[0], &ids[1]]);
    assert!(told.starts_with("error[confirmation_required]: cancel 2 executions? "), "{told}");
    assert!(told.contains("hint: `--yes`"), "{told}");
    let told = server.fails(1, &["cancel", "--lane", "mail"]);
    assert!(told.contains("cancel 3 executions?"), "{told}");
    assert!(ids.iter().all(|id| server.state(id) == "waiting"));

    let output = server.weft(&["cancel", &ids[0], &ids[1], "--yes"]);
    assert_eq!(crate::process::stdout(&output), format!("{}  cancelled\n{}  cancelled\n", ids[0], ids[1]));
    assert_eq!(crate::process::text(&output.stderr), "cancelled 2 executions\n");
}

#[test]
fn a_filter_is_for_what_the_verb_can_be_meant_for() {
    let server = Server::start();
    let done = server.submit(&["a", "--lane", "mail"]);
    server.complete("mail", 1.into());
    let waiting = server.submit(&["a", "--lane", "mail"]);
    let other = server.submit(&["a", "--lane", "web"]);
    let one = server.weft(&["cancel", "--lane", "mail", "--quiet", "--yes"]);
    assert_eq!(crate::process::stdout(&one), format!("{waiting}\n"), "an ended one is not selected");
    assert_eq!([&done, &waiting, &other].map(|id| server.state(id)), ["completed", "cancelled", "waiting"]);

    server.out(&["cancel", "--filter", "lane=web kind=a", "--yes"]);
    assert_eq!(server.state(&other), "cancelled", "a filter in one text");
    assert!(server.fails(2, &["cancel", "--lane", "a", "--filter", "lane=b"]).contains("by its flag"));

    let none = server.weft(&["release", "--all"]);
    assert!(none.status.success() && crate::process::text(&none.stderr).contains("nothing to release"));
}

#[test]
fn cli_2_a_filter_that_selects_one_asks_and_says_what_it_did() {
    let server = Server::start();
    server.submit(&["slow", "--delay", "1h"]);
    for (args, asked, told) in [
        (&["hold"][..], "hold 1 execution?", "held 1 execution\n"),
        (&["release"], "release 1 execution?", "released 1 execution\n"),
        (&["priority", "--to", "5"], "change 1 execution?", "changed 1 execution\n"),
        (&["tag", "--set", "a=b"], "tag 1 execution?", "tagged 1 execution\n"),
        (&["reschedule", "--now"], "reschedule 1 execution?", "rescheduled 1 execution\n"),
        (&["cancel"], "cancel 1 execution?", "cancelled 1 execution\n"),
        (&["replay", "--state", "cancelled"], "replay 1 execution?", "replayed 1 execution\n"),
        (&["force-fail"], "force-fail 1 execution?", "failed 1 execution\n"),
        (&["purge"], "purge 1 execution?", "purged 1 execution\n"),
    ] {
        let args = [args, &["--kind", "slow"]].concat();
        let refused = server.fails(1, &args);
        assert!(refused.starts_with(&format!("error[confirmation_required]: {asked} ")), "{args:?}: {refused}");
        let output = server.weft(&[&args[..], &["--yes"]].concat());
        assert_eq!((output.status.code(), crate::process::text(&output.stderr).as_str()), (Some(0), told), "{args:?}");
    }
}

#[test]
fn one_that_is_refused_does_not_keep_the_others_from_it() {
    let server = Server::start();
    let ended = server.submit(&["a", "--lane", "mail"]);
    server.complete("mail", 1.into());
    let waiting = server.submit(&["a"]);
    let output = server.weft(&["force-fail", &ended, &waiting, "--yes", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["results"][0]["id"], ended.as_str());
    assert_eq!(json["results"][0]["error"]["code"], "execution_terminal");
    assert_eq!(json["results"][1]["ok"]["outcome"], "failed");
    let told = crate::process::text(&output.stderr);
    assert!(told.contains("failed 1 execution; 1 refused: 1 execution_terminal"), "{told}");
}

#[test]
fn hundreds_are_purged_by_a_filter() {
    let server = Server::start();
    let lines = "{\"kind\": \"a\", \"lane\": \"mail\"}\n".repeat(300);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    server.out(&["submit", "--batch", file.path().to_str().unwrap(), "--quiet"]);
    server.out(&["cancel", "--lane", "mail", "--yes", "--quiet"]);
    assert_eq!(server.out(&["count", "--state", "cancelled"]), "300\n");
    let output = server.weft(&["purge", "--lane", "mail", "--yes"]);
    assert_eq!(crate::process::text(&output.stderr), "purged 300 executions\n");
    assert_eq!(crate::process::stdout(&output), "", "a filter is told by its number");
}

#[test]
fn api_40_what_a_filter_selects_is_done_by_a_bulk_job() {
    let server = Server::start();
    let ids: Vec<String> = (0..3).map(|_| server.submit(&["a", "--lane", "mail"])).collect();
    let output = server.weft(&["hold", "--lane", "mail", "--yes", "--reason", "bank is down"]);
    assert_eq!(crate::process::text(&output.stderr), "held 3 executions\n");
    assert!(ids.iter().all(|id| server.state(id) == "held"));
    // The audit log names the job, and what it did to each; without a command it is listed.
    let audit = server.out(&["audit", "--jsonl"]);
    assert_eq!((audit.matches("\"start_bulk\"").count(), audit.matches("\"hold\"").count()), (1, 3), "{audit}");
    assert_eq!(audit.matches(": bank is down\"").count(), 4, "{audit}");

    let told = server.fails(1, &["reschedule", "--lane", "mail", "--state", "held", "--now", "--yes"]);
    assert!(told.contains("rescheduled 0 executions; 3 refused: 3 "), "{told}");
}
