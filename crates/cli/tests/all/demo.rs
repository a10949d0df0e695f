use crate::process::{Running, stdout, text, weft};
use std::process::Command;

#[test]
fn a_demo_away_from_a_terminal_prints_plain_text_and_a_table() {
    let output = weft(&["demo", "--executions", "60"]);
    let table = stdout(&output);
    let told = text(&output.stderr);
    assert!(!table.contains('\x1b') && !told.contains('\x1b') && !told.contains('\r'), "{table}{told}");
    let heading = table.lines().next().unwrap();
    for title in ["kind", "submitted", "completed", "failed", "cancelled", "expired", "retries", "reclaims", "p95"] {
        assert!(heading.contains(title), "{heading}");
    }
    let cells = |kind: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(kind)).expect(kind);
        line.split_whitespace().map(str::to_owned).collect()
    };
    // kind, submitted, completed, failed, cancelled, expired, attempts, retries, reclaims
    assert_eq!(cells("card.charge")[1..9], ["1", "–", "1", "–", "–", "1", "–", "–"]);
    assert_eq!(cells("data.import")[1..9], ["1", "–", "–", "1", "–", "1", "–", "–"]);
    assert_eq!(cells("quote.fetch")[1..9], ["1", "–", "–", "–", "1", "–", "–", "–"]);
    assert_eq!(cells("video.encode")[1..9], ["1", "1", "–", "–", "–", "2", "–", "1"]);
    assert_eq!(cells("order.pack")[1..3], ["3", "3"]);
    assert!(told.contains("encoder-2 takes over") && told.contains("hears of the cancel"), "{told}");
}

#[test]
fn a_folder_that_is_asked_for_is_kept_and_can_be_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("data");
    for _ in 0..2 {
        stdout(&weft(&["demo", "--executions", "20", "--dir", place.to_str().unwrap()]));
    }
    assert!(place.join("weft.db").exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = weft(&["demo", "--dir", file.join("data").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.starts_with("error: cannot ") && told.contains("data"), "{told}");
}

#[test]
fn cli_1_an_interrupted_demo_stops_cleanly_and_exits_with_130() {
    let mut demo = Running::err(&["demo"]);
    demo.wait_for("an event", |line| line.contains("encoder-1 has it"));
    let killed = Command::new("kill").args(["-INT", &demo.child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    demo.wait_for("the farewell", |line| line.contains("interrupted: the engine has stopped cleanly"));
    assert_eq!(demo.child.wait().unwrap().code(), Some(130));
}
