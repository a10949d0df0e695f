use crate::process::{Running, stdout, text, weft};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

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

#[test]
fn rl_76_a_second_process_is_refused_by_any_name_until_the_first_has_been_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ledger) = (dir.path().join("data"), dir.path().join("ledger"));
    let url = |path: &Path| format!("sqlite://{}", path.display());
    let path = store.join("weft.db");
    let first =
        Running::out(&["crash-node", "--store", &url(&path), "--ledger", ledger.to_str().unwrap(), "--round", "0"]);
    first.wait_for("that it is ready", |line| line == "ready");
    let holder = format!("process {}", first.child.id());
    let export = dir.path().join("export");
    let refused = |path: &Path| {
        let output = weft(&["export", export.to_str().unwrap(), "--store", &url(path)]);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains(&holder), "{}: {told}", path.display());
    };
    let (file, folder, hard) = (dir.path().join("file.db"), dir.path().join("folder"), dir.path().join("hard.db"));
    symlink(&path, &file).unwrap();
    symlink(&store, &folder).unwrap();
    refused(&file);
    refused(&folder.join("weft.db"));
    fs::remove_file(store.join("weft.db.lock")).unwrap();
    refused(&path);
    fs::hard_link(&path, &hard).unwrap();
    refused(&hard);
    first.kill();

    fs::remove_file(hard).unwrap();
    stdout(&weft(&["migrate", "--store", &url(&file)]));
    stdout(&weft(&["export", export.to_str().unwrap(), "--store", &url(&folder.join("weft.db"))]));
}
