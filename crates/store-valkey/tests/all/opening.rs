//! What is opened, what is refused, and with which words.

use crate::records::{P0, apply, insert, key, part};
use crate::servers;
use weft_servers::Valkey;
use weft_store::{Level, Severity, Store};
use weft_store_valkey::{Address, Migrate, Mode, OpenError, Options, ValkeyStore, inspect, migrate, wipe};

async fn refused(options: Options) -> OpenError {
    match ValkeyStore::open(options).await {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_store_is_made_only_when_asked_for() {
    let options = Options { migrate: Migrate::Check, partitions: 5, ..servers::standalone("made") };
    wipe(&options).await.unwrap();
    let error = refused(options.clone()).await;
    assert!(matches!(error, OpenError::Absent { .. }), "{error}");
    assert!(error.to_string().contains("weft migrate --store valkey://"), "{error}");

    let plan = migrate(&options, true).await.unwrap();
    assert!(!plan.done && plan.found.is_none() && plan.steps[0].contains("5 partitions"), "{plan:?}");
    assert!(matches!(refused(options.clone()).await, OpenError::Absent { .. }), "a check makes nothing");
    let plan = migrate(&options, false).await.unwrap();
    assert!(plan.done && !plan.steps.is_empty(), "{plan:?}");
    let plan = migrate(&options, false).await.unwrap();
    assert!(plan.steps.is_empty() && plan.found == Some(plan.format), "{plan:?}");

    let store = ValkeyStore::open(Options { partitions: 0, ..options.clone() }).await.unwrap();
    assert_eq!(store.describe().partitions, 5, "the store knows its own number");
    let id = store.id();
    apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"kept")])]).await;
    drop(store);
    let store = ValkeyStore::open(options.clone()).await.unwrap();
    assert_eq!((store.id(), part(&store, key(P0, 1)).await.as_deref()), (id, Some(&b"kept"[..])));
    wipe(&options).await.unwrap();
    assert!(matches!(refused(options).await, OpenError::Absent { .. }), "a wiped store is gone");
}

#[tokio::test]
async fn another_number_of_partitions_is_refused() {
    let options = Options { partitions: 4, ..servers::standalone("count") };
    wipe(&options).await.unwrap();
    drop(ValkeyStore::open(options.clone()).await.unwrap());
    let error = refused(Options { partitions: 8, ..options.clone() }).await;
    assert!(matches!(error, OpenError::Partitions { asked: 8, stored: 4, .. }), "{error}");
    wipe(&options).await.unwrap();
}

#[tokio::test]
async fn two_prefixes_are_two_stores() {
    let first = Options { partitions: 1, ..servers::standalone("prefix") };
    let second = Options { partitions: 2, prefix: "test_prefix:x".to_owned(), ..first.clone() };
    for options in [&first, &second] {
        wipe(options).await.unwrap();
    }
    let (one, two) =
        (ValkeyStore::open(first.clone()).await.unwrap(), ValkeyStore::open(second.clone()).await.unwrap());
    apply(&one, P0, vec![insert(key(P0, 1), &[(0, b"one")])]).await;
    assert_eq!(part(&two, key(P0, 1)).await, None);
    wipe(&first).await.unwrap();
    assert_eq!(part(&one, key(P0, 1)).await, None, "wiped");
    drop(two);
    drop(ValkeyStore::open(Options { migrate: Migrate::Check, ..second.clone() }).await.unwrap());
    wipe(&second).await.unwrap();
}

#[tokio::test]
async fn a_store_of_a_newer_program_and_a_damaged_one_are_refused() {
    let server = Valkey::start(&[]).unwrap();
    let options = Options { partitions: 1, ..servers::on(&server) };
    drop(ValkeyStore::open(options.clone()).await.unwrap());
    server.command(&["HSET", "test_own:{p0}meta", "format", "99"]).unwrap();
    let error = refused(options.clone()).await;
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
    server.command(&["HSET", "test_own:{p0}meta", "format", "1", "partitions", "many"]).unwrap();
    assert!(matches!(refused(options.clone()).await, OpenError::Damaged { .. }));
    server.command(&["DEL", "test_own:{p0}meta"]).unwrap();
    server.command(&["SET", "test_own:{p0}meta", "x"]).unwrap();
    assert!(matches!(refused(options).await, OpenError::Damaged { .. }));
}

#[tokio::test]
async fn ops_24_a_store_of_the_first_format_is_upgraded_and_goes_on() {
    let server = Valkey::start(&[]).unwrap();
    let options = Options { partitions: 1, ..servers::on(&server) };
    let store = ValkeyStore::open(options.clone()).await.unwrap();
    apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"kept")])]).await;
    drop(store);
    let back = async || server.command(&["HSET", "test_own:{p0}meta", "format", "1"]).unwrap();
    back().await;
    let checked = Options { migrate: Migrate::Check, ..options.clone() };
    let error = refused(checked.clone()).await;
    assert!(matches!(error, OpenError::Older { found: 1, .. }), "{error}");
    assert!(error.to_string().contains("weft migrate --store valkey://"), "{error}");
    let findings = inspect(&checked).await;
    let told =
        |finding: &weft_store::Finding| finding.severity == Severity::Problem && finding.found.contains("format 1");
    assert!(findings.iter().any(told), "{findings:?}");

    let plan = migrate(&checked, true).await.unwrap();
    assert_eq!((plan.found, plan.steps.len(), plan.done), (Some(1), plan.format as usize - 1, false));
    let (one, two) = tokio::join!(migrate(&checked, false), migrate(&checked, false));
    assert!(one.unwrap().done && two.unwrap().done);
    let plan = migrate(&checked, false).await.unwrap();
    assert_eq!((plan.found, plan.steps.len()), (Some(plan.format), 0));
    drop(ValkeyStore::open(checked.clone()).await.unwrap());

    back().await;
    let store = ValkeyStore::open(options).await.unwrap();
    assert_eq!(part(&store, key(P0, 1)).await.as_deref(), Some(&b"kept"[..]));
    drop(ValkeyStore::open(checked).await.unwrap());
}

#[tokio::test]
async fn rl_36_a_library_of_the_same_name_and_other_code_is_refused() {
    let server = Valkey::start(&[]).unwrap();
    let code = "#!lua name=weft2\nredis.register_function('weft2_commit', function() return 1 end)";
    server.command(&["FUNCTION", "LOAD", code]).unwrap();
    let error = refused(servers::on(&server)).await;
    assert!(matches!(error, OpenError::Library { .. }), "{error}");
}

#[tokio::test]
async fn rl_42_a_server_that_evicts_is_refused() {
    let server = Valkey::start(&[("maxmemory-policy", "allkeys-lru")]).unwrap();
    for accept_data_loss in [false, true] {
        let error = refused(Options { accept_data_loss, ..servers::on(&server) }).await;
        assert!(matches!(&error, OpenError::Eviction { policy, .. } if policy == "allkeys-lru"), "{error}");
    }
    let findings = inspect(&servers::on(&server)).await;
    assert!(
        findings.iter().any(|finding| finding.severity == Severity::Problem && finding.found.contains("allkeys-lru"))
    );
}

#[tokio::test]
async fn rl_30_a_server_that_does_not_fsync_is_refused_or_called_memory() {
    for settings in
        [[("appendonly", "yes"), ("appendfsync", "everysec")], [("appendonly", "no"), ("appendfsync", "always")]]
    {
        let server = Valkey::start(&settings).unwrap();
        let options = servers::on(&server);
        let error = refused(options.clone()).await;
        assert!(matches!(error, OpenError::Weak { level: Level::Local, .. }), "{error}");
        assert!(error.to_string().contains("accept_data_loss=true"), "{error}");
        let findings = inspect(&options).await;
        let calls_it_sound = findings.iter().any(|finding| finding.subject == "durability");
        assert!(!calls_it_sound, "the level that was asked for does not hold: {findings:?}");

        let store = ValkeyStore::open(Options { accept_data_loss: true, ..options.clone() }).await.unwrap();
        assert_eq!(store.describe().durability.level, Level::Memory, "the level says what holds");
        let store = ValkeyStore::open(Options { durability: Level::Memory, ..options }).await.unwrap();
        assert!(store.describe().durability.can_lose[0].contains("snapshot"));
    }
}

#[tokio::test]
async fn rl_4_settings_that_may_not_be_seen_are_not_verified() {
    let server = Valkey::start(&[]).unwrap();
    let options = Options { partitions: 1, ..servers::on(&server) };
    migrate(&options, false).await.unwrap();
    let rights = "+@read +@write +@connection +@transaction +@pubsub +fcall +fcall_ro +time +info +wait +waitaof";
    let words: Vec<&str> = "ACL SETUSER weft on >secret ~test_own* &test_own:* -@all".split(' ').collect();
    server.command(&[&words[..], &rights.split(' ').collect::<Vec<_>>()].concat()).unwrap();
    let login = weft_store_valkey::Login { user: "weft".to_owned(), password: "secret".to_owned() };
    let limited = Options { login: Some(login), ..options.clone() };
    let store = ValkeyStore::open(limited.clone()).await.unwrap();
    assert!(!store.describe().durability.verified);
    apply(&store, P0, vec![insert(key(P0, 1), &[(0, b"x")])]).await;
    apply(&store, P0, vec![insert(key(P0, 2), &[(0, b"x")])]).await;
    assert_eq!(part(&store, key(P0, 2)).await.as_deref(), Some(&b"x"[..]), "a node needs no right to load or to look");

    let wrong = weft_store_valkey::Login { user: "weft".to_owned(), password: "wrong".to_owned() };
    let error = refused(Options { login: Some(wrong), ..options }).await;
    assert!(matches!(error, OpenError::Login { .. }), "{error}");
}

#[tokio::test]
async fn the_wrong_scheme_is_answered_with_the_right_one() {
    let mut alone = servers::standalone("scheme");
    alone.mode = Mode::Cluster;
    let error = refused(alone).await;
    assert!(matches!(error, OpenError::IsStandalone { .. }) && error.to_string().contains("`valkey://`"), "{error}");
    let mut node = servers::cluster("scheme");
    node.mode = Mode::Standalone;
    node.addresses.truncate(1);
    let error = refused(node).await;
    assert!(matches!(error, OpenError::IsCluster { .. }), "{error}");
    assert!(error.to_string().contains("`valkey-cluster://`"), "{error}");
}

#[tokio::test]
async fn a_replica_and_a_silent_port_are_refused() {
    let (primary, replica) = (Valkey::start(&[]).unwrap(), Valkey::start(&[]).unwrap());
    let port = primary.addr().port().to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]).unwrap();
    assert!(matches!(refused(servers::on(&replica)).await, OpenError::Replica { .. }));
    drop(replica);
    primary.kill().unwrap();
    let error = refused(servers::on(&primary)).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn any_node_of_a_cluster_leads_to_all_of_it() {
    let all = servers::cluster("seeds");
    wipe(&all).await.unwrap();
    let all = Options { partitions: 12, ..all };
    drop(ValkeyStore::open(all.clone()).await.unwrap());
    for seed in all.addresses.clone() {
        let gone = Address::new("127.0.0.1", 1);
        let options = Options { addresses: vec![gone, seed], ..all.clone() };
        let store = ValkeyStore::open(options).await.unwrap();
        for partition in (0..12).map(weft_core::PartitionId) {
            assert!(store.read(partition, Vec::new()).await.is_ok());
        }
        assert_eq!(store.describe().name, "valkey-cluster");
    }
    wipe(&all).await.unwrap();
}

#[tokio::test]
async fn the_doctor_finds_a_sound_store_sound() {
    let options = servers::standalone("doctor");
    wipe(&options).await.unwrap();
    let findings = inspect(&options).await;
    assert!(
        findings.iter().any(|finding| finding.severity == Severity::Problem && finding.advice.contains("weft migrate"))
    );
    drop(ValkeyStore::open(options.clone()).await.unwrap());
    let findings = inspect(&options).await;
    assert!(findings.iter().all(|finding| finding.severity == Severity::Fine), "{findings:?}");
    let subjects: Vec<&str> = findings.iter().map(|finding| finding.subject.as_str()).collect();
    assert!(["version", "durability", "store"].iter().all(|subject| subjects.contains(subject)), "{subjects:?}");
    wipe(&options).await.unwrap();
}
