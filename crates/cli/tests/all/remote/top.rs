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
    assert_eq!(server.json(&["top", "--once"])["lanes"][0]["lane"], "mail");
}
