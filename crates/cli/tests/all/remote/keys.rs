//! Keys: making one, using it, and what it may not do.

use super::Server;
use crate::process::text;

#[test]
fn a_key_is_made_used_rotated_and_revoked() {
    let server = Server::with_keys();
    let made =
        server.weft(&["key", "create", "--name", "ci", "--scope", "submit", "--namespace", "shop", "--expires", "90d"]);
    let secret = crate::process::stdout(&made).trim().to_owned();
    assert!(secret.starts_with("weft_"), "{secret}");
    assert!(text(&made.stderr).contains("this once"), "{}", text(&made.stderr));
    let with = |secret: &str, args: &[&str]| {
        server.command(args).env("WEFT_KEY", secret).env_remove("WEFT_NAMESPACE").output().unwrap()
    };
    assert_eq!(with(&secret, &["submit", "a"]).status.code(), Some(0));
    let list = server.out(&["key", "list"]);
    assert!(
        list.contains("ci") && list.contains("submit") && list.contains("shop") && !list.contains(&secret),
        "{list}"
    );

    let refused = with(&secret, &["hold", "--lane", "default", "--yes"]);
    assert_eq!(refused.status.code(), Some(4), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).starts_with("error[forbidden]: cannot hold: "), "{}", text(&refused.stderr));

    let other = server.out(&["key", "rotate", "ci", "--overlap", "0s"]).trim().to_owned();
    assert_ne!(other, secret);
    assert_eq!(with(&other, &["list"]).status.code(), Some(0));
    assert!(server.out(&["key", "change", "ci", "--name", "build"]).contains("build"));
    assert!(server.fails(1, &["key", "get", "biuld"]).contains("hint: did you mean `build`?"));
    assert!(server.out(&["key", "revoke", "build"]).ends_with("  revoked\n"));
    let audit = server.out(&["audit", "list", "--verb", "revoke_key"]);
    assert!(audit.contains("revoke_key") && audit.contains("ok"), "{audit}");
}

#[test]
fn cli_1_without_a_key_it_exits_with_4_and_says_where_to_put_one() {
    let server = Server::with_keys();
    let output = server.command(&["list"]).env_remove("WEFT_KEY").output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    let told = text(&output.stderr);
    assert!(told.starts_with("error[unauthorized]: cannot list: ") && told.contains("WEFT_KEY"), "{told}");
}
