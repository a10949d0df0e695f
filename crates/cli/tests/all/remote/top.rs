//! One look at what is going on.

use super::Server;

#[test]
fn a_snapshot_is_printed_where_there_is_no_terminal() {
    let server = Server::start();
    server.submit(&["a", "--lane", "mail"]);
    server.submit(&["a", "--lane", "mail"]);
    server.fail("mail", "421 try later");
    let shown = server.out(&["top"]);
    assert!(shown.contains("SUBMITTED") && shown.contains("WAIT P50/P99") && !shown.contains('\x1b'), "{shown}");
    let lane = shown.lines().find(|line| line.starts_with("mail ")).unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(lane.split_whitespace().nth(1), Some("1"), "one waits: {lane}");
    assert!(shown.contains("421 try later"), "{shown}");
    assert!(
        shown.contains("partitions 1 of 1") && shown.contains("INSTANCE") && shown.contains("mailer-3@host"),
        "{shown}"
    );
    let scanner = shown.lines().find(|line| line.starts_with("lease_expiry ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(scanner.split_whitespace().any(|word| word.ends_with("ms")), "its lag is told: {scanner}");
    let stats = server.json(&["top", "--once"]);
    assert_eq!((&stats["lanes"][0]["lane"], &stats["partitions_claimed"]), (&"mail".into(), &1.into()));
    assert!(stats["scanners"].as_array().unwrap().iter().any(|one| one["scanner"] == "retention_trimmer"), "{stats}");
}
