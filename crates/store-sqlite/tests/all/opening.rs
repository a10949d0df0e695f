//! What is refused, with which words, and that a refusal changes nothing.

use crate::records::{P0, batch, folder, head, insert, key, open, try_open};
use rusqlite::Connection;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use uuid::Uuid;
use weft_core::CommitId;
use weft_store::{Outcome, Resolution, Store};
use weft_store_sqlite::{OpenError, Options, SqliteStore};

fn refusal(path: &Path) -> OpenError {
    match SqliteStore::open(Options::new(path)) {
        Err(error) => error,
        Ok(_) => panic!("`{}` was opened", path.display()),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn sec_15_folder_and_files_are_for_this_user_alone() {
    let folder = folder();
    let path = folder.path().join("a/b/weft.db");
    let _store = SqliteStore::open(Options::new(&path)).unwrap();
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for name in ["weft.db", "weft.db-wal", "weft.db-shm", "weft.db.lock"] {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
}

#[test]
fn sec_15_a_folder_or_file_that_others_may_write_to_is_refused() {
    let folder = folder();
    let path = folder.path().join("weft.db");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
    assert!(matches!(refusal(&path), OpenError::Exposed { path: exposed } if exposed == path));
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(refusal(&path), OpenError::Exposed { path: exposed } if exposed == folder.path()));
}

#[test]
fn ops_29_a_store_that_is_open_is_refused_and_its_holder_named() {
    let folder = folder();
    let store = open(&folder);
    let error = refusal(store.path()).to_string();
    assert!(error.contains(&format!("process {} on ", std::process::id())), "{error}");
    store.close();
    open(&folder);
}

fn is_held(path: &Path) {
    let error = refusal(path).to_string();
    assert!(error.contains(&format!("process {} on ", std::process::id())), "{error}");
    assert!(error.contains("stop it first"), "{error}");
}

#[test]
fn rl_76_a_store_that_is_open_by_a_hard_link_is_refused_and_its_holder_named() {
    let (folder, elsewhere) = (folder(), self::folder());
    let store = open(&folder);
    for link in [folder.path().join("other.db"), elsewhere.path().join("weft.db")] {
        fs::hard_link(store.path(), &link).unwrap();
        is_held(&link);
    }
}

#[test]
fn rl_76_a_hard_link_is_refused_even_if_nobody_has_it_open() {
    let folder = folder();
    open(&folder).close();
    let link = folder.path().join("other.db");
    fs::hard_link(folder.path().join("weft.db"), &link).unwrap();
    for path in [&link, &folder.path().join("weft.db")] {
        assert!(matches!(try_open(path.clone()), Err(OpenError::Linked { names: 2, .. })));
        let findings = weft_store_sqlite::inspect(path);
        assert!(findings.iter().any(|finding| finding.subject == "names"), "{findings:?}");
    }
    fs::remove_file(link).unwrap();
    open(&folder);
}

#[test]
fn rl_76_the_name_that_has_the_log_beside_it_is_the_one_to_keep() {
    let (folder, killed) = (folder(), self::folder());
    let store = open(&folder);
    // As kill -9 leaves them: the log was not copied into the file.
    for name in ["weft.db", "weft.db-wal"] {
        fs::copy(folder.path().join(name), killed.path().join(name)).unwrap();
    }
    store.close();
    let (original, link) = (killed.path().join("weft.db"), killed.path().join("other.db"));
    fs::hard_link(&original, &link).unwrap();
    let refused = |path: &Path| try_open(path.to_owned()).map(drop).unwrap_err().to_string();
    let advice = |path: &Path| refused(path).split_once("only; ").unwrap().1.to_owned();
    let keep = "it is beside this one: keep this name and remove the others, which `find -samefile` lists";
    assert_eq!(advice(&original), keep);
    let find = "it is not beside this one: do not remove a name yet; among the names that `find -samefile` lists, keep the one \
                that has a `-wal` file beside it (any, if none has), and remove the others";
    assert_eq!(advice(&link), find);
    fs::write(killed.path().join("other.db-wal"), "").unwrap();
    assert_eq!(advice(&link), find, "an empty log has nothing to lose");
    fs::remove_file(link).unwrap();
    try_open(original).unwrap();
}

#[test]
fn rl_76_a_store_that_is_open_by_a_symbolic_link_is_refused_and_its_holder_named() {
    let (folder, elsewhere) = (folder(), self::folder());
    let store = open(&folder);
    let (file, place) = (elsewhere.path().join("weft.db"), elsewhere.path().join("place"));
    symlink(store.path(), &file).unwrap();
    symlink(folder.path(), &place).unwrap();
    is_held(&file);
    is_held(&place.join("weft.db"));
    store.close();
    for path in [file, place.join("weft.db")] {
        let through = try_open(path).unwrap();
        assert_eq!(through.path(), store.path());
        is_held(store.path());
    }
}

#[test]
fn rl_76_a_store_that_is_open_is_refused_after_its_lock_file_or_its_name_has_gone() {
    let folder = folder();
    let store = open(&folder);
    fs::remove_file(folder.path().join("weft.db.lock")).unwrap();
    is_held(store.path());
    let moved = folder.path().join("moved.db");
    fs::rename(store.path(), &moved).unwrap();
    is_held(&moved);
    let findings = weft_store_sqlite::inspect(&moved);
    let lock = findings.iter().find(|finding| finding.subject == "lock").unwrap();
    assert!(lock.found.starts_with(&format!("process {} ", std::process::id())), "{findings:?}");
}

/// The locks that SQLite holds on the file for this process.
#[cfg(target_os = "linux")]
fn locks_of_sqlite(path: &Path) -> usize {
    use std::os::unix::fs::MetadataExt;
    let (pid, inode) = (std::process::id().to_string(), fs::metadata(path).unwrap().ino().to_string());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let ours = |line: &&str| {
        let mut words = line.split_whitespace();
        words.nth(1) == Some("POSIX")
            && words.nth(2) == Some(&pid)
            && words.next().is_some_and(|file| file.rsplit(':').next() == Some(&inode))
    };
    locks.lines().filter(ours).count()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn rl_76_a_refused_open_in_this_process_drops_no_lock_of_sqlite() {
    let folder = folder();
    let store = open(&folder);
    head(&store, P0).await;
    let before = locks_of_sqlite(store.path());
    assert!(before > 0);
    fs::remove_file(folder.path().join("weft.db.lock")).unwrap();
    is_held(store.path());
    assert_eq!(locks_of_sqlite(store.path()), before);
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("weft.db");
    let text = "dear diary, ".repeat(1000);
    fs::write(&path, &text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(refusal(&path), OpenError::NotWeft { .. }));
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert_eq!(mode(&path), 0o644);
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("weft.db");
    Connection::open(&path).unwrap().execute_batch("create table songs (title text)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, OpenError::NotWeft { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn ops_23_a_newer_format_is_refused() {
    let folder = folder();
    open(&folder).close();
    let path = folder.path().join("weft.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    assert!(matches!(refusal(&path), OpenError::Newer { found: 99, .. }));
}

#[test]
fn ops_23_another_number_of_partitions_is_refused() {
    let folder = folder();
    let path = folder.path().join("weft.db");
    SqliteStore::open(Options::new(&path).partitions(4)).unwrap().close();
    assert!(matches!(refusal(&path), OpenError::Partitions { asked: 1, stored: 4, .. }));
    let store = SqliteStore::open_url(&format!("sqlite://{}", path.display())).unwrap();
    assert_eq!(store.describe().partitions, 4);
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(refusal(&file.join("weft.db")), OpenError::Folder { .. }));
}

/// Rewritten when `WEFT_BLESS` is set; then the difference is read, and an upgrade written for it.
#[test]
fn the_schema_is_the_one_on_record() {
    let folder = folder();
    let store = open(&folder);
    let dump = schema_of(store.path());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/schema.sql");
    if std::env::var_os("WEFT_BLESS").is_some() {
        fs::write(&golden, &dump).unwrap();
    }
    assert_eq!(dump, fs::read_to_string(&golden).unwrap(), "the schema has changed: upgrade old files to it");
}

/// The statements of a schema without their spaces. A column that an upgrade adds stands last, and every statement names
/// its columns, so that their order does not count.
fn shapes(schema: &str) -> Vec<Vec<String>> {
    let shape = |statement: &str| {
        let text: String = statement.split_whitespace().collect();
        let mut columns: Vec<String> = text.split(['(', ',']).map(str::to_owned).collect();
        if text.starts_with("CREATETABLE") {
            columns[1..].sort();
        }
        columns
    };
    schema.split(';').map(shape).collect()
}

#[tokio::test]
async fn ops_24_a_file_of_the_first_format_is_upgraded_and_goes_on() {
    let folder = folder();
    let path = folder.path().join("weft.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(include_str!("schema_1.sql")).unwrap();
    connection
        .execute_batch(
            "insert into partitions (id, generation, seq, now) values (0, 0, 1, 5);
            insert into feed (partition, seq, generation, now, commit_id)
            values (0, 1, 0, 5, x'00000000000000000000000000000007');
            insert into meta (key, value) values ('partitions', 1), ('store_id', randomblob(16));
            pragma application_id = 0x57656674;
            pragma user_version = 1;",
        )
        .unwrap();
    drop(connection);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();

    let store = open(&folder);
    assert_eq!(shapes(&schema_of(&path)), shapes(include_str!("schema.sql")));
    let before = head(&store, P0).await;
    let Resolution::Applied { position } = store.resolve(P0, CommitId(Uuid::from_u128(7))).await.unwrap() else {
        panic!("the commit in the feed was not found");
    };
    assert_eq!((before.position.seq, position.seq), (1, 1));
    let outcome = store.commit(P0, batch(before, 8, vec![insert(key(P0, 1), &[])])).await;
    assert!(matches!(outcome, Outcome::Applied { head } if head.position.seq == 2), "{outcome:?}");
}

/// Every statement that made the file, by name.
fn schema_of(path: &Path) -> String {
    let connection = Connection::open(path).unwrap();
    let mut statement =
        connection.prepare("select sql from sqlite_schema where sql is not null order by name").unwrap();
    let statements: Result<Vec<String>, _> = statement.query_map([], |row| row.get(0)).unwrap().collect();
    format!("{};\n", statements.unwrap().join(";\n"))
}
