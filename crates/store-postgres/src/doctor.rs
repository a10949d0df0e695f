//! A look at a server and a store, for people: what is well, what may go wrong, what would be refused. Changes nothing.

use crate::column::Param;
use crate::connect;
use crate::durability::{Settings, VERSION_MIN};
use crate::link::Link;
use crate::migrations::{self, VERSION};
use crate::open_error::OpenError;
use crate::options::Options;
use crate::pool::Use;
use std::time::Instant;
use tokio_postgres::Row;
use weft_store::Finding;

/// Dead rows of one table at which claims were seen to wait ten times as long.
const DEAD_ROWS_MAX: i64 = 24_000;
/// A transaction that is open for longer keeps the rows of every table from being cleaned up.
const TRANSACTION_MAX_S: i64 = 60;
/// Connections that a node needs beside those that commit.
const CONNECTIONS_BESIDE: i64 = 8;
const COMMITS: usize = 9;
const COMMIT_MAX_MS: f64 = 50.0;

/// Everything there is to say about the store that the options name. Never fails: what it cannot look at is a finding.
pub async fn inspect(options: &Options) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut link = match connect::plain(options).await {
        Ok(link) => link,
        Err(error) => {
            return vec![Finding::problem(
                "connection",
                error.to_string(),
                "check the address and that the server runs",
            )];
        }
    };
    findings.push(match (&options.tls, options.exposed()) {
        (Some(_), _) => {
            Finding::fine("connection", "the server answers, encrypted, with a certificate that is trusted")
        }
        (None, None) => Finding::fine("connection", "the server answers, in the clear on this machine"),
        (None, Some(host)) => {
            let found = format!("the server answers, but in the clear on the way to `{host}`");
            Finding::warning("connection", found, "leave `plaintext=true` out of the address")
        }
    });
    let looked = connect::within(options.call_timeout, "look at the store", async {
        let settings = Settings::read(&mut link).await?;
        server(&mut findings, &settings, options);
        role(&mut findings, &mut link).await?;
        store(&mut findings, &mut link, options).await?;
        dead_rows(&mut findings, &mut link, &options.schema).await?;
        oldest_transaction(&mut findings, &mut link).await?;
        latency(&mut findings, &mut link).await
    });
    if let Err(error) = looked.await.and_then(|looked| looked) {
        findings.push(Finding::problem("look", error.to_string(), "look again once the server answers"));
    }
    findings
}

fn server(findings: &mut Vec<Finding>, settings: &Settings, options: &Options) {
    let version = format!("PostgreSQL {}", settings.version_name);
    findings.push(match settings.version >= VERSION_MIN {
        true => Finding::fine("version", version),
        false => Finding::problem("version", version, "upgrade to 14 or later"),
    });
    findings.push(match settings.in_recovery {
        false => Finding::fine("primary", "the server takes writes"),
        true => Finding::problem("primary", "the server is a standby", "connect to the primary"),
    });
    findings.push(match settings.encoding.as_str() {
        "UTF8" => Finding::fine("encoding", "UTF8"),
        other => Finding::problem("encoding", other, "make a database with `encoding 'UTF8'`"),
    });
    let dangers = settings.dangers();
    for (name, value) in [
        ("fsync", &settings.fsync),
        ("full_page_writes", &settings.full_page_writes),
        ("data_sync_retry", &settings.data_sync_retry),
        ("synchronous_commit", &settings.synchronous_commit),
    ] {
        findings.push(match dangers.iter().find(|danger| danger.name == name) {
            None => Finding::fine(name, value.as_str()),
            Some(danger) => {
                let found = format!("`{value}`: {}", danger.danger);
                let advice = format!("set it to `{}`", danger.wanted);
                match options.accept_data_loss {
                    true => Finding::warning(name, found, advice),
                    false => Finding::problem(name, found, advice),
                }
            }
        });
    }
    findings.push(Finding::fine("durability", settings.durability().to_string()));
}

async fn role(findings: &mut Vec<Finding>, link: &mut Link) -> Result<(), OpenError> {
    let sql =
        "select current_user::text, coalesce((select rolsuper from pg_roles where rolname = current_user), false)";
    let row = one(link, sql, &[]).await?;
    let (name, is_superuser): (String, bool) = (get(&row, 0)?, get(&row, 1)?);
    findings.push(match is_superuser {
        false => Finding::fine("role", format!("`{name}`")),
        true => Finding::warning(
            "role",
            format!("`{name}` is a superuser"),
            "give nodes a role that may read and write the tables of the store, and migrate with another one",
        ),
    });
    Ok(())
}

async fn store(findings: &mut Vec<Finding>, link: &mut Link, options: &Options) -> Result<(), OpenError> {
    let schema = &options.schema;
    let migrate = "run `weft migrate --store URL`";
    let found = match migrations::identify(link, schema).await {
        Ok(Some(found)) => found,
        Ok(None) => {
            findings.push(Finding::problem("schema", format!("`{schema}` holds no store"), migrate));
            return Ok(());
        }
        Err(error @ (OpenError::Newer { .. } | OpenError::Foreign { .. })) => {
            findings.push(Finding::problem("schema", error.to_string(), "see above"));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let told = format!("`{schema}` has format {}", found.version);
    findings.push(match found.version == VERSION {
        true => Finding::fine("schema", told),
        false => Finding::problem("schema", format!("{told}, this program writes {VERSION}"), migrate),
    });
    let stored = found.partitions;
    findings.push(match options.partitions {
        asked if asked == 0 || asked == stored => Finding::fine("partitions", stored.to_string()),
        asked => {
            let advice = format!("leave `partitions` out of the address, or name {stored}");
            Finding::problem("partitions", format!("{asked} are asked for, and the store has {stored}"), advice)
        }
    });
    let row = one(link, "select current_setting('max_connections')::bigint", &[]).await?;
    let (most, needed): (i64, i64) =
        (get(&row, 0)?, (Use::Commit.most(options) as i64).min(stored.into()) + CONNECTIONS_BESIDE);
    let told = format!("{most} at most, a node needs {needed}");
    findings.push(match most >= needed {
        true => Finding::fine("connections", told),
        false => Finding::problem("connections", told, "raise `max_connections`"),
    });
    Ok(())
}

async fn dead_rows(findings: &mut Vec<Finding>, link: &mut Link, schema: &str) -> Result<(), OpenError> {
    let sql = "\
        select relname::text, n_dead_tup
        from pg_stat_user_tables
        where schemaname = $1::text
        order by n_dead_tup desc, relname
        limit 1";
    let Some(row) = ask(link, sql, &[Param::Text(schema)]).await?.into_iter().next() else { return Ok(()) };
    let (table, dead): (String, i64) = (get(&row, 0)?, get(&row, 1)?);
    let told = format!("`{table}` has the most: {dead}");
    findings.push(match dead <= DEAD_ROWS_MAX {
        true => Finding::fine("dead rows", told),
        false => Finding::warning(
            "dead rows",
            told,
            "look for a transaction that is open for long, and whether autovacuum keeps up",
        ),
    });
    Ok(())
}

async fn oldest_transaction(findings: &mut Vec<Finding>, link: &mut Link) -> Result<(), OpenError> {
    let sql = "\
        select pid, application_name, extract(epoch from clock_timestamp() - xact_start)::bigint
        from pg_stat_activity
        where pid <> pg_backend_pid() and xact_start is not null and backend_type = 'client backend'
        order by xact_start
        limit 1";
    let Some(row) = ask(link, sql, &[]).await?.into_iter().next() else {
        findings.push(Finding::fine("oldest transaction", "none is open"));
        return Ok(());
    };
    let (pid, program, seconds): (i32, String, i64) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
    let told = format!("open for {seconds} s, by `{program}`, process {pid}");
    findings.push(match seconds <= TRANSACTION_MAX_S {
        true => Finding::fine("oldest transaction", told),
        false => Finding::warning(
            "oldest transaction",
            told,
            "end it: dead rows of every table stay until it does, and claims get slower",
        ),
    });
    Ok(())
}

/// The median of commits that write and flush 4 KiB of log, and no row.
async fn latency(findings: &mut Vec<Finding>, link: &mut Link) -> Result<(), OpenError> {
    let filler = "x".repeat(4096);
    let mut took = Vec::with_capacity(COMMITS);
    for _ in 0..COMMITS {
        let started = Instant::now();
        let sql = "select pg_logical_emit_message(true, 'weft', $1::text) is null";
        ask(link, sql, &[Param::Text(&filler)]).await?;
        took.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    took.sort_by(f64::total_cmp);
    let median = took[COMMITS / 2];
    let told = format!("a commit of 4 KiB takes {median:.1} ms");
    findings.push(match median <= COMMIT_MAX_MS {
        true => Finding::fine("latency", told),
        false => Finding::warning("latency", told, "look at the disk of the server and at the way to it"),
    });
    Ok(())
}

async fn ask(link: &mut Link, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, OpenError> {
    link.ask(sql, params).await.map_err(OpenError::postgres("look at the server"))
}

async fn one(link: &mut Link, sql: &str, params: &[Param<'_>]) -> Result<Row, OpenError> {
    let row = ask(link, sql, params).await?.into_iter().next();
    row.ok_or(OpenError::Pooler { why: "a query came back without its row" })
}

fn get<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, OpenError> {
    row.try_get(at).map_err(OpenError::postgres("read what the server told"))
}
