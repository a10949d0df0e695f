use crate::process::{Running, text, weft};

#[test]
fn ops_29_a_second_process_on_one_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ledger) = (dir.path().join("data"), dir.path().join("ledger"));
    let (store, ledger) = (store.to_str().unwrap(), ledger.to_str().unwrap());
    let url = format!("sqlite://{store}/weft.db");
    let first = Running::out(&["crash-node", "--store", &url, "--ledger", ledger, "--round", "0"]);
    first.wait_for("that it is ready", |line| line == "ready");
    let second = weft(&["demo", "--dir", store]);
    assert_eq!(second.status.code(), Some(1));
    let told = text(&second.stderr);
    let holder = format!("process {}", first.child.id());
    assert!(told.starts_with("error: cannot open") && told.contains(&holder) && told.contains("has it open"), "{told}");
    first.kill();
}
