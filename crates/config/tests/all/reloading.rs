use crate::kit::Folder;
use std::time::Duration;
use weft_config::{Settings, keys};

#[test]
fn ops_4_a_reload_takes_what_it_can_and_names_what_needs_a_restart() {
    let folder = Folder::with("[log]\nlevel = \"info\"\n[server]\ndrain = \"1s\"\n");
    let before = Settings::load(folder.sources()).unwrap();

    folder.write(
        "[log]\nlevel = \"debug\"\n[auth.rate]\nworker = 9\n[server]\ndrain = \"2s\"\n[engine]\ncache = \"256MiB\"\n",
    );
    let after = before.reload(folder.sources()).unwrap();
    assert_eq!(after.changed, ["auth.rate.worker", "log.level"]);
    assert_eq!(after.restart, ["server.drain"], "a value that is the same in another place is no change");
    assert_eq!(
        (after.settings.get(keys::LOG_LEVEL).as_str(), after.settings.get(keys::AUTH_RATE_WORKER)),
        ("debug", 9)
    );
    assert_eq!(after.settings.get(keys::SERVER_DRAIN), Duration::from_secs(1), "it holds until the restart");
    assert_eq!(after.settings.origin(keys::SERVER_DRAIN), before.origin(keys::SERVER_DRAIN));

    let again = after.settings.reload(folder.sources()).unwrap();
    assert_eq!((again.changed.len(), again.restart), (0, vec!["server.drain"]), "it is told again");
}

#[test]
fn ops_4_a_reload_with_a_mistake_changes_nothing() {
    let folder = Folder::with("[log]\nlevel = \"info\"\n");
    let before = Settings::load(folder.sources()).unwrap();
    folder.write("[log]\nlevel = \"loud\"\n");
    assert_eq!(before.reload(folder.sources()).unwrap_err().len(), 1);
}

#[test]
fn sec_2_a_reload_cannot_take_encryption_from_an_address_that_stays() {
    let open = "[server]\nlisten = \"0.0.0.0:1\"\ntls_cert = \"a\"\ntls_key = \"b\"\n";
    let folder = Folder::with(open);
    let before = Settings::load(folder.sources()).unwrap();
    folder.write("[server]\nlisten = \"127.0.0.1:1\"\n");
    assert!(Settings::load(folder.sources()).is_ok(), "for itself the file is fine");
    let mistakes = before.reload(folder.sources()).unwrap_err();
    assert!(mistakes[0].to_string().contains("`server.listen` is 0.0.0.0:1"), "{mistakes:?}");
}
