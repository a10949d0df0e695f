use super::*;
use crate::testing::{fresh, made};

const HUE: [Upgrade; 3] = [
    Upgrade { version: VERSION, what: "drop the feed", sql: "drop table feed" },
    Upgrade { version: VERSION + 1, what: "add colours", sql: "create table colours (name text)" },
    Upgrade { version: VERSION + 2, what: "add hues", sql: "alter table colours add column hue bigint" },
];

async fn format_of(link: &mut Link, schema: &str) -> String {
    let sql = format!("select value from {schema}.meta where key = 'format'");
    link.ask(&sql, &[]).await.unwrap()[0].get(0)
}

#[tokio::test]
async fn ops_24_upgrades_run_in_order_and_only_those_that_are_due() {
    let options = made(fresh()).await;
    let mut link = connect::plain(&options).await.unwrap();
    // A program that knows more formats than this one would not call the store newer; so only the steps are looked at.
    let one = upgrade(&mut link, &options, &HUE[..1]).await.unwrap();
    assert_eq!((one.found, one.steps.len()), (Some(VERSION), 0), "the feed was dropped before this store was made");
    let plan = upgrade(&mut link, &options, &HUE[..2]).await;
    assert!(matches!(plan, Err(OpenError::Newer { found, .. }) if found == VERSION + 1), "{plan:?}");
    assert_eq!(format_of(&mut link, &options.schema).await, (VERSION + 1).to_string());
    let sql = format!("insert into {0}.colours values ('red'); select seq from {0}.feed", options.schema);
    connect::plain(&options).await.unwrap().batch(&sql).await.unwrap();
}

#[tokio::test]
async fn ops_24_an_upgrade_that_fails_leaves_the_store_as_it_was() {
    let options = made(fresh()).await;
    let mut link = connect::plain(&options).await.unwrap();
    let sql = "create table colours (name text); insert into nowhere values (1)";
    let broken = [Upgrade { version: VERSION + 1, what: "break", sql }];
    upgrade(&mut link, &options, &broken).await.unwrap_err();
    let mut link = connect::plain(&options).await.unwrap();
    assert_eq!(identify(&mut link, &options.schema).await.unwrap().unwrap().version, VERSION);
    link.batch(&format!("select name from {}.colours", options.schema)).await.unwrap_err();
}

#[tokio::test]
async fn ops_24_two_nodes_that_migrate_at_once_make_one_store() {
    let options = fresh();
    let (one, two) = tokio::join!(migrate(&options, false), migrate(&options, false));
    one.unwrap();
    two.unwrap();
    let mut link = connect::plain(&options).await.unwrap();
    assert_eq!(identify(&mut link, &options.schema).await.unwrap().unwrap().partitions, 3);
    let sql = format!("select count(*) from {}.partitions", options.schema);
    assert_eq!(link.ask(&sql, &[]).await.unwrap()[0].get::<_, i64>(0), 3);
}

#[test]
fn upgrades_lead_to_the_version_this_program_writes() {
    let numbered = UPGRADES.iter().zip(2..).all(|(upgrade, version)| upgrade.version == version);
    assert!(numbered && UPGRADES.len() as i64 + 1 == VERSION);
}

#[test]
fn each_schema_has_a_lock_of_its_own() {
    assert_ne!(lock_key("weft"), lock_key("weft_2"));
}
