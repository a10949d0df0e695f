//! The format of a store: how an empty schema becomes one, and how an older one is brought up to date.
//!
//! A new store is made in the latest format from the schema that core declares. Each upgrade is numbered, written out in
//! full, never edited once released, and takes one transaction under a lock, so it can be interrupted anywhere and run
//! from two nodes at once.

use crate::column::Param;
use crate::connect;
use crate::ddl;
use crate::durability::Settings;
use crate::link::Link;
use crate::open_error::OpenError;
use crate::options::{Options, PARTITIONS_DEFAULT};
use uuid::Uuid;

/// The format this program writes.
pub const VERSION: i64 = 4;

/// Brings a store from `version - 1` to `version`.
struct Upgrade {
    version: i64,
    what: &'static str,
    sql: &'static str,
}

const UPGRADES: &[Upgrade] = &[
    Upgrade {
        version: 2,
        what: "let each partition name its last commit",
        sql: "\
alter table partitions add column last uuid not null default '00000000-0000-0000-0000-000000000000';
alter table partitions alter column last drop default;
update partitions
set last = coalesce((select commit_id from feed where partition = id order by seq desc limit 1), last)",
    },
    Upgrade {
        version: 3,
        what: "add recorded steps, the registry of workers, bulk jobs, API keys and the audit log",
        sql: "\
create table steps (
    partition smallint not null,
    id bytea not null,
    revision uuid not null,
    execution bytea not null,
    number bigint not null,
    name text collate \"C\" not null,
    attempt bigint not null,
    recorded_at bigint not null,
    bytes bigint not null,
    body bytea,
    value bytea,
    primary key (partition, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
alter table steps alter column body set storage external;
alter table steps alter column value set storage external;
alter table executions add column holder text collate \"C\";
create table executions_by_holder (
    partition smallint not null,
    namespace text collate \"C\" not null,
    holder text collate \"C\" not null,
    id bytea not null,
    primary key (partition, namespace, holder, id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
create table workers (
    partition smallint not null,
    id bytea not null,
    revision uuid not null,
    namespace text collate \"C\" not null,
    instance text collate \"C\" not null,
    worker text collate \"C\" not null,
    session bigint not null,
    state text collate \"C\" not null,
    version text collate \"C\",
    seen_at bigint not null,
    body bytea,
    primary key (partition, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
alter table workers alter column body set storage external;
create index workers_by_instance on workers (partition, namespace, instance, id) where partition >= 0;
create table bulk_jobs (
    partition smallint not null,
    id bytea not null,
    revision uuid not null,
    namespace text collate \"C\" not null,
    role text collate \"C\" not null,
    created_at bigint not null,
    body bytea,
    primary key (partition, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
alter table bulk_jobs alter column body set storage external;
create table api_keys (
    partition smallint not null,
    id bytea not null,
    revision uuid not null,
    name text collate \"C\" not null,
    created_at bigint not null,
    expires_at bigint,
    last_used_at bigint,
    body bytea,
    primary key (partition, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
alter table api_keys alter column body set storage external;
create table api_keys_by_name (
    partition smallint not null,
    name text collate \"C\" not null,
    id bytea not null,
    primary key (partition, name, id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
create table audit (
    partition smallint not null,
    id bytea not null,
    revision uuid not null,
    acted_at bigint not null,
    principal text collate \"C\" not null,
    verb text collate \"C\" not null,
    target text collate \"C\" not null,
    result text collate \"C\" not null,
    body bytea,
    primary key (partition, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
alter table audit alter column body set storage external;
create index audit_by_time on audit (partition, acted_at, id) where partition >= 0;
create table registers (
    partition smallint not null,
    id bytea not null,
    revision uuid not null,
    subject text collate \"C\" not null,
    body bytea,
    primary key (partition, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
alter table registers alter column body set storage external",
    },
    Upgrade {
        version: 4,
        what: "add flows: graphs of executions, their edges, and what is left of purged members",
        sql: "\
alter table executions add column flow bytea;
alter table executions add column member_no bigint;
alter table executions add column live_in bytea;
alter table executions add column member bytea;
alter table executions add column inlets bytea;
alter table executions alter column member set storage external;
alter table executions alter column inlets set storage external;
create index executions_by_flow on executions (partition, flow, member_no, id) where partition >= 0 and flow is not null;
create table executions_live (
    partition smallint not null,
    live_in bytea not null,
    id bytea not null,
    primary key (partition, live_in, id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
create table flows (
    partition smallint not null,
    id bytea not null,
    revision uuid not null,
    namespace text collate \"C\" not null,
    created_at bigint not null,
    kind text collate \"C\" not null,
    name text collate \"C\",
    state text collate \"C\" not null,
    members bigint not null,
    live bigint not null,
    finished_at bigint,
    hot bytea,
    definition bytea,
    summary bytea,
    tags bytea,
    trouble bytea,
    primary key (partition, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
alter table flows alter column hot set storage external;
alter table flows alter column definition set storage external;
alter table flows alter column summary set storage external;
alter table flows alter column tags set storage external;
alter table flows alter column trouble set storage external;
create index flows_by_created on flows (partition, namespace, created_at, id) where partition >= 0;
create table edges (
    partition smallint not null,
    id bytea not null,
    revision uuid not null,
    flow bytea not null,
    upstream bytea not null,
    downstream bytea not null,
    state text collate \"C\" not null,
    body bytea,
    primary key (partition, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
alter table edges alter column body set storage external;
create table tombstones (
    partition smallint not null,
    id bytea not null,
    revision uuid not null,
    flow bytea not null,
    member_no bigint not null,
    body bytea,
    primary key (partition, id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05);
alter table tombstones alter column body set storage external;
create index tombstones_by_flow on tombstones (partition, flow, member_no, id) where partition >= 0",
    },
];

/// What a migration did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The format that was found; `None` if there was no store.
    pub found: Option<i64>,
    /// The format that this program writes.
    pub format: i64,
    /// In the order they are done. None if the store is up to date.
    pub steps: Vec<String>,
    /// False if it was only looked at.
    pub done: bool,
}

/// What is known of a store before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub version: i64,
    pub partitions: u16,
    pub id: Uuid,
}

/// Creates the store or brings it up to date; with `check` only tells what would be done. Two callers at once do no harm.
pub async fn migrate(options: &Options, check: bool) -> Result<Plan, OpenError> {
    let mut link = connect::plain(options).await?;
    Settings::read(&mut link).await?.check(options)?;
    let found = identify(&mut link, &options.schema).await?;
    if check || found.is_some_and(|found| found.version == VERSION) {
        return Ok(plan(options, found, UPGRADES));
    }
    let plan = upgrade(&mut link, options, UPGRADES).await?;
    Ok(Plan { done: true, ..plan })
}

/// Removes a store with everything in it. False if there is none; a schema that is not Weft's is refused.
pub async fn drop_schema(options: &Options) -> Result<bool, OpenError> {
    let mut link = connect::plain(options).await?;
    if identify(&mut link, &options.schema).await?.is_none() {
        return Ok(false);
    }
    let sql = format!("set client_min_messages = warning; drop schema {} cascade", options.schema);
    link.batch(&sql).await.map_err(OpenError::postgres("drop the schema"))?;
    Ok(true)
}

/// Says which store the schema holds, `None` if it is absent or empty, or why it cannot be used. Only reads.
pub async fn identify(link: &mut Link, schema: &str) -> Result<Option<Found>, OpenError> {
    let failed = OpenError::postgres("look at the schema");
    let foreign = |why: &str| OpenError::Foreign { schema: schema.to_owned(), why: why.to_owned() };
    let sql = "select count(*), count(*) filter (where c.relname = 'meta') from pg_class c join pg_namespace n on n.oid = \
               c.relnamespace where n.nspname = $1::text";
    let rows = link.ask(sql, &[Param::Text(schema)]).await.map_err(&failed)?;
    let count = |at: usize| rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(at)).map_err(&failed);
    match (count(0)?, count(1)?) {
        (0, _) => return Ok(None),
        (_, 0) => return Err(foreign("it has tables, and none is called `meta`")),
        _ => {}
    }
    // The name was checked to need no quotes. A table of this name with other columns is somebody else's.
    let sql = format!("select key, value from {schema}.meta where key in ('format', 'partitions', 'store_id')");
    let rows = match link.ask(&sql, &[]).await {
        Err(error) if error.code().is_some_and(|code| code.code().starts_with("42")) => {
            return Err(foreign(&crate::verdict::told(&error)));
        }
        rows => rows.map_err(&failed)?,
    };
    let value = |key: &str| -> Option<String> {
        let row = rows.iter().find(|row| row.try_get::<_, &str>(0).is_ok_and(|found| found == key))?;
        row.try_get(1).ok()
    };
    let number = |key: &str| value(key).and_then(|value| value.parse::<i64>().ok());
    let id = value("store_id").and_then(|id| id.parse().ok());
    match (number("format"), number("partitions"), id) {
        (Some(found), ..) if found > VERSION => {
            Err(OpenError::Newer { schema: schema.to_owned(), found, known: VERSION })
        }
        (Some(version), Some(partitions), Some(id)) => Ok(Some(Found { version, partitions: partitions as u16, id })),
        _ => Err(foreign("its `meta` does not say which format it has")),
    }
}

/// Finds the store, creating or upgrading it if the options say so.
pub async fn prepare(link: &mut Link, options: &Options) -> Result<Found, OpenError> {
    use crate::options::Migrate::{Auto, Check};
    let schema = &options.schema;
    let found = match (identify(link, schema).await?, options.migrate) {
        (Some(found), _) if found.version == VERSION => found,
        (None, Check) => return Err(OpenError::Absent { schema: schema.clone() }),
        (Some(found), Check) => {
            return Err(OpenError::Older { schema: schema.clone(), found: found.version, known: VERSION });
        }
        (_, Auto) => {
            upgrade(link, options, UPGRADES).await?;
            identify(link, schema).await?.ok_or_else(|| OpenError::Absent { schema: schema.clone() })?
        }
    };
    if found.version != VERSION {
        // Older than the oldest format that there is a way from.
        return Err(OpenError::Older { schema: schema.clone(), found: found.version, known: VERSION });
    }
    match options.partitions {
        0 => Ok(found),
        asked if asked == found.partitions => Ok(found),
        asked => Err(OpenError::Partitions { asked, stored: found.partitions }),
    }
}

fn plan(options: &Options, found: Option<Found>, upgrades: &[Upgrade]) -> Plan {
    let steps = match found {
        None => {
            vec![format!("create a store with {} partitions in the schema `{}`", partitions(options), options.schema)]
        }
        Some(found) => due(found.version, upgrades).map(|upgrade| upgrade.what.to_owned()).collect(),
    };
    Plan { found: found.map(|found| found.version), format: VERSION, steps, done: false }
}

fn due(version: i64, upgrades: &[Upgrade]) -> impl Iterator<Item = &Upgrade> {
    // There is no way from a number below the first.
    upgrades.iter().filter(move |upgrade| version >= 1 && upgrade.version > version)
}

fn partitions(options: &Options) -> u16 {
    if options.partitions == 0 { PARTITIONS_DEFAULT } else { options.partitions }
}

/// One transaction per step, each of which looks again once it has the lock: another node may have been faster.
async fn upgrade(link: &mut Link, options: &Options, upgrades: &[Upgrade]) -> Result<Plan, OpenError> {
    let mut done: Option<Plan> = None;
    loop {
        link.batch("begin").await.map_err(OpenError::postgres("begin a migration"))?;
        let lock = "select pg_advisory_xact_lock($1::bigint)";
        let key = Param::Int8(Some(lock_key(&options.schema)));
        link.ask(lock, &[key]).await.map_err(OpenError::postgres("lock the schema"))?;
        let found = identify(link, &options.schema).await?;
        let plan = done.get_or_insert_with(|| plan(options, found, upgrades));
        let sql = match found {
            None => Some(create(options)),
            Some(found) => due(found.version, upgrades).next().map(|upgrade| {
                let search_path = search_path(&options.schema);
                let version = upgrade.version;
                format!("{search_path};\n{};\nupdate meta set value = '{version}' where key = 'format'", upgrade.sql)
            }),
        };
        let Some(sql) = sql else {
            link.batch("rollback").await.map_err(OpenError::postgres("end a migration"))?;
            return Ok(plan.clone());
        };
        // A connection that is closed after a failure rolls back.
        link.batch(&sql).await.map_err(OpenError::postgres("migrate the schema"))?;
        link.batch("commit").await.map_err(OpenError::postgres("migrate the schema"))?;
        tracing::info!(schema = options.schema, "migrated the store");
    }
}

fn search_path(schema: &str) -> String {
    format!("set local search_path = {schema}, pg_temp")
}

/// The whole of a new store. Nothing in it comes from outside but a checked name and a number.
fn create(options: &Options) -> String {
    let schema = &options.schema;
    let (count, nil) = (partitions(options), Uuid::nil());
    format!(
        "set local client_min_messages = warning;\ncreate schema if not exists {schema};\n{};\n{}insert into partitions \
         (id, generation, seq, now, last) select id, 0, 0, 0, '{nil}' from generate_series(0, {count} - 1) id;\ninsert \
         into meta (key, value) values ('format', '{VERSION}'), ('partitions', '{count}'), ('store_id', gen_random_uuid()::text)",
        search_path(schema),
        ddl::create()
    )
}

/// The same number in every process, another one for every schema: FNV-1a over its name.
fn lock_key(schema: &str) -> i64 {
    let text = format!("weft migrate {schema}");
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    hash as i64
}

#[cfg(test)]
mod tests;
