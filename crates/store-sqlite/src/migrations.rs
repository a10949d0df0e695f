//! The format of a store file: how an empty file becomes a store, and how an older one is brought up to date.
//!
//! A new file is made in the latest format from the schema that core declares. Each upgrade is numbered, written out in
//! full, never edited once released, and takes one transaction, so it can be interrupted anywhere.

use crate::ddl;
use crate::options::OpenError;
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

/// "Weft" in the header of the file.
pub const APPLICATION_ID: i64 = 0x5765_6674;

/// The format this program writes.
pub const VERSION: i64 = 6;

/// Brings a file from `version - 1` to `version`.
struct Upgrade {
    version: i64,
    sql: &'static str,
}

const UPGRADES: [Upgrade; 5] = [
    Upgrade { version: 2, sql: "drop index feed_by_commit" },
    Upgrade {
        version: 3,
        sql: "drop index dead_letters_by_time;
create table nodes (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    name text collate binary not null,
    version text collate binary not null,
    started_at integer not null,
    seen_at integer not null,
    body blob,
    primary key (partition, id)
) without rowid",
    },
    Upgrade {
        version: 4,
        sql: "alter table partitions add column last blob not null default x'00000000000000000000000000000000';
update partitions set last = coalesce((select commit_id from feed where partition = id order by seq desc limit 1), last)",
    },
    Upgrade {
        version: 5,
        sql: "create table steps (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    execution blob not null,
    number integer not null,
    name text collate binary not null,
    attempt integer not null,
    recorded_at integer not null,
    bytes integer not null,
    body blob,
    value blob,
    primary key (partition, id)
) without rowid;
alter table executions add column holder text collate binary;
create index executions_by_holder on executions (partition, namespace, holder, id) where holder is not null;
create table workers (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    namespace text collate binary not null,
    instance text collate binary not null,
    worker text collate binary not null,
    session integer not null,
    state text collate binary not null,
    version text collate binary,
    seen_at integer not null,
    body blob,
    primary key (partition, id)
) without rowid;
create index workers_by_instance on workers (partition, namespace, instance, id);
create table bulk_jobs (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    namespace text collate binary not null,
    role text collate binary not null,
    created_at integer not null,
    body blob,
    primary key (partition, id)
) without rowid;
create table api_keys (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    name text collate binary not null,
    created_at integer not null,
    expires_at integer,
    last_used_at integer,
    body blob,
    primary key (partition, id)
) without rowid;
create index api_keys_by_name on api_keys (partition, name, id);
create table audit (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    acted_at integer not null,
    principal text collate binary not null,
    verb text collate binary not null,
    target text collate binary not null,
    result text collate binary not null,
    body blob,
    primary key (partition, id)
) without rowid;
create index audit_by_time on audit (partition, acted_at, id);
create table registers (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    subject text collate binary not null,
    body blob,
    primary key (partition, id)
) without rowid",
    },
    Upgrade {
        version: 6,
        sql: "alter table executions add column flow blob;
alter table executions add column member_no integer;
alter table executions add column live_in blob;
alter table executions add column member blob;
alter table executions add column inlets blob;
create index executions_by_flow on executions (partition, flow, member_no, id) where flow is not null;
create index executions_live on executions (partition, live_in, id) where live_in is not null;
create table flows (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    namespace text collate binary not null,
    created_at integer not null,
    kind text collate binary not null,
    name text collate binary,
    state text collate binary not null,
    members integer not null,
    live integer not null,
    finished_at integer,
    hot blob,
    definition blob,
    summary blob,
    tags blob,
    trouble blob,
    primary key (partition, id)
) without rowid;
create index flows_by_created on flows (partition, namespace, created_at, id);
create table edges (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    flow blob not null,
    upstream blob not null,
    downstream blob not null,
    state text collate binary not null,
    body blob,
    primary key (partition, id)
) without rowid;
create table tombstones (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    flow blob not null,
    member_no integer not null,
    body blob,
    primary key (partition, id)
) without rowid;
create index tombstones_by_flow on tombstones (partition, flow, member_no, id)",
    },
];

/// Says which format the file has, `None` if it is empty, or why it cannot be used. Only reads.
pub fn identify(connection: &Connection, path: &Path) -> Result<Option<i64>, OpenError> {
    match format_of(connection, path)? {
        Some(found) if found > VERSION => Err(OpenError::Newer { path: path.to_owned(), found, known: VERSION }),
        found => Ok(found),
    }
}

/// Makes or upgrades the store. Answers with the number of partitions.
pub fn prepare(connection: &Connection, path: &Path, found: Option<i64>, partitions: u16) -> Result<u16, OpenError> {
    let failed = |source| OpenError::sqlite(path, source);
    match found {
        None => create(connection, partitions.max(1)).map_err(failed)?,
        Some(found) => upgrade(connection, found, &UPGRADES).map_err(failed)?,
    }
    let stored: u16 = meta(connection, "partitions").map_err(failed)?.ok_or_else(|| OpenError::NotWeft {
        path: path.to_owned(),
        why: "it does not say how many partitions it has".to_owned(),
    })?;
    match partitions {
        0 => Ok(stored),
        asked if asked == stored => Ok(stored),
        asked => Err(OpenError::Partitions { path: path.to_owned(), asked, stored }),
    }
}

/// A value that was written when the store was made.
pub fn meta<T: rusqlite::types::FromSql>(connection: &Connection, key: &str) -> rusqlite::Result<Option<T>> {
    connection.query_row("select value from meta where key = ?1", [key], |row| row.get(0)).optional()
}

fn format_of(connection: &Connection, path: &Path) -> Result<Option<i64>, OpenError> {
    let failed = |source| OpenError::sqlite(path, source);
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed);
    let tables: i64 =
        connection.query_row("select count(*) from sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    match (pragma("application_id")?, tables) {
        (APPLICATION_ID, 1..) => Ok(Some(pragma("user_version")?)),
        (0, 0) => Ok(None),
        (other, _) => Err(OpenError::NotWeft {
            path: path.to_owned(),
            why: format!("it is a database of another program, application id {other}"),
        }),
    }
}

fn create(connection: &Connection, partitions: u16) -> rusqlite::Result<()> {
    let transaction = Transaction::begin(connection)?;
    connection.execute_batch(&ddl::create())?;
    let mut partition = connection.prepare("insert into partitions (id, generation, seq, now) values (?1, 0, 0, 0)")?;
    for id in 0..partitions {
        partition.execute([id])?;
    }
    let mut meta = connection.prepare("insert into meta (key, value) values (?1, ?2)")?;
    meta.execute(("partitions", partitions))?;
    connection.execute("insert into meta (key, value) values ('store_id', randomblob(16))", [])?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

fn upgrade(connection: &Connection, found: i64, upgrades: &[Upgrade]) -> rusqlite::Result<()> {
    for upgrade in upgrades.iter().filter(|upgrade| upgrade.version > found) {
        let transaction = Transaction::begin(connection)?;
        connection.execute_batch(upgrade.sql)?;
        connection.pragma_update(None, "user_version", upgrade.version)?;
        transaction.commit()?;
        tracing::info!(version = upgrade.version, "upgraded the store file");
    }
    Ok(())
}

/// Rolled back unless it was committed.
pub struct Transaction<'c> {
    connection: &'c Connection,
}

impl<'c> Transaction<'c> {
    pub fn begin(connection: &'c Connection) -> rusqlite::Result<Self> {
        connection.execute_batch("begin immediate")?;
        Ok(Self { connection })
    }

    pub fn commit(self) -> rusqlite::Result<()> {
        self.connection.execute_batch("commit")
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.connection.is_autocommit() {
            // If even this fails, closing the connection rolls back.
            let _ = self.connection.execute_batch("rollback");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        create(&connection, 3).unwrap();
        connection
    }

    #[test]
    fn ops_24_upgrades_run_in_order_and_only_those_that_are_due() {
        let connection = made();
        let upgrades = [
            Upgrade { version: VERSION, sql: "drop table feed" },
            Upgrade { version: VERSION + 1, sql: "create table colours (name text)" },
            Upgrade { version: VERSION + 2, sql: "alter table colours add column hue integer" },
        ];
        upgrade(&connection, VERSION, &upgrades).unwrap();
        connection.execute("insert into colours (name, hue) values ('red', 0)", []).unwrap();
        assert!(connection.prepare("select seq from feed").is_ok());
        assert_eq!(format_of(&connection, Path::new("x")).unwrap(), Some(VERSION + 2));
    }

    #[test]
    fn ops_24_an_upgrade_that_fails_leaves_the_file_as_it_was() {
        let connection = made();
        let broken =
            [Upgrade { version: VERSION + 1, sql: "create table colours (name text); insert into nowhere values (1)" }];
        upgrade(&connection, VERSION, &broken).unwrap_err();
        assert!(connection.prepare("select name from colours").is_err());
        assert_eq!(format_of(&connection, Path::new("x")).unwrap(), Some(VERSION));
    }

    #[test]
    fn upgrades_lead_to_the_version_this_program_writes() {
        let numbered = UPGRADES.iter().zip(2..).all(|(upgrade, version)| upgrade.version == version);
        assert!(numbered && UPGRADES.len() as i64 + 1 == VERSION);
    }
}
