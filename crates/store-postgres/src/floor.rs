//! What PostgreSQL itself can do for the same durable facts: the yardstick of the benchmark, written by hand.
//!
//! One table as one writes it for this queue alone, with what moves in narrow tables beside it, and the row sizes of the
//! store. Shares no statement with it and must stay as fast as a good engineer makes it.

use crate::column::Param;
use crate::connect;
use crate::link::{Link, Step};
use crate::open_error::OpenError;
use crate::options::Options;
use crate::sql::Stmt;
use futures_util::future::try_join_all;
use std::ops::Range;
use std::time::Instant;
use tokio::task::JoinHandle;
use uuid::Uuid;
use weft_core::record::{Key, KeyBytes};
use weft_core::{ExecutionId, PartitionId};
use weft_store::Floor;

const SCHEMA: &str = "\
create table jobs (
    id bytea not null primary key,
    state text not null,
    priority bigint not null,
    attempts bigint not null,
    lease_epoch bigint not null,
    worker text,
    updated_at bigint not null,
    finished_at bigint,
    created_at bigint not null,
    namespace text not null,
    lane text not null,
    kind text not null,
    hot bytea not null,
    spec bytea not null,
    input bytea not null,
    result bytea
) with (fillfactor = 70);
create table ready (
    namespace text collate \"C\" not null,
    lane text collate \"C\" not null,
    ready_order bigint not null,
    id bytea not null,
    primary key (namespace, lane, ready_order, id)
);
create table leases (
    expires_at bigint not null,
    id bytea not null,
    primary key (expires_at, id)
);
create table feed (
    loop smallint not null,
    seq bigint not null,
    commit_id uuid not null,
    events bytea not null,
    primary key (loop, seq)
) with (toast_tuple_target = 8160);
alter table jobs alter column input set storage external;
alter table feed alter column events set storage external;
";

const FEED: &str = "insert into feed (loop, seq, commit_id, events) values ($1, $2, $3, $4)";

const INSERT: &str = "\
insert into jobs (id, state, priority, attempts, lease_epoch, updated_at, created_at, namespace, lane, kind, hot, spec,
    input)
select id, 'ready', 0, 0, 0, now, now, 'default', 'mail', 'mail.send', hot, spec, input
from (select unnest($1::bytea[]) as id, unnest($2::bigint[]) as now, unnest($3::bytea[]) as hot,
    unnest($4::bytea[]) as spec, unnest($5::bytea[]) as input) u";

const READY_ADD: &str = "\
insert into ready (namespace, lane, ready_order, id)
select 'default', 'mail', unnest($1::bigint[]), unnest($2::bytea[])";

/// Found one by one in a subquery with a limit, which the planner cannot turn into a walk over the whole lane.
const READY_REMOVE: &str = "\
delete from ready t
using (select unnest($1::bigint[]) as ready_order, unnest($2::bytea[]) as id) u
cross join lateral (
    select ctid as tid
    from ready
    where namespace = 'default' and lane = 'mail' and ready_order = u.ready_order and id = u.id
    limit 1
) f
where t.ctid = f.tid";

const LEASE_ADD: &str = "insert into leases (expires_at, id) select unnest($1::bigint[]) + 30000, unnest($2::bytea[])";

const LEASE_REMOVE: &str = "\
delete from leases t
using (select unnest($1::bigint[]) + 30000 as expires_at, unnest($2::bytea[]) as id) u
where t.expires_at = u.expires_at and t.id = u.id";

const CLAIM: &str = "\
update jobs t
set state = 'active', attempts = 1, lease_epoch = 1, worker = 'worker-01', updated_at = u.now, hot = u.hot
from (select unnest($1::bytea[]) as id, unnest($2::bigint[]) as now, unnest($3::bytea[]) as hot) u
where t.id = u.id";

const COMPLETE: &str = "\
update jobs t
set state = 'succeeded', worker = null, updated_at = u.now, finished_at = u.now, hot = u.hot, result = u.result
from (select unnest($1::bytea[]) as id, unnest($2::bigint[]) as now, unnest($3::bytea[]) as hot,
    unnest($4::bytea[]) as result) u
where t.id = u.id";

const HOT: [u8; 180] = [0xa5; 180];
const SPEC: [u8; 100] = [0x5a; 100];
const RESULT: [u8; 16] = [0x33; 16];
/// About what one event takes in a feed entry.
const EVENT_BYTES: usize = 48;
const SINGLE_COMMITS: usize = 200;
const STARTED_MS: i64 = 1_800_000_000_000;

/// Takes `n` rows (rounded up to whole batches) through insert, claim and completion in batches of `batch`, each batch
/// one transaction with a feed entry. `loops` connections share the batches. Then one connection makes single commits.
///
/// Works in a schema of its own beside that of the options, which is made anew and dropped.
pub async fn floor(
    options: &Options,
    n: usize,
    batch: usize,
    payload: usize,
    loops: usize,
) -> Result<Floor, OpenError> {
    let mut options = options.clone();
    options.schema += "_floor";
    let schema = options.schema.clone();
    let drop = format!("set client_min_messages = warning; drop schema if exists {schema} cascade");
    let mut link = connect::session(&options).await?;
    let failed = OpenError::postgres("measure the floor");
    link.batch(&format!("{drop}; create schema {schema};\n{SCHEMA}")).await.map_err(&failed)?;

    let (batch, loops) = (batch.max(1), loops.max(1));
    let batches = n.div_ceil(batch);
    let mut benches = Vec::new();
    for number in 0..loops {
        benches.push(Bench::new(connect::session(&options).await?, number, payload));
    }
    let started = Instant::now();
    let runs: Vec<JoinHandle<Result<Bench, OpenError>>> = benches
        .into_iter()
        .enumerate()
        .map(|(number, bench)| tokio::spawn(bench.lifecycles((number..batches).step_by(loops).collect(), batch)))
        .collect();
    let done = try_join_all(runs).await.map_err(|_| OpenError::Connect("a loop of the floor panicked".to_owned()))?;
    let seconds = started.elapsed().as_secs_f64();
    let mut benches: Vec<Bench> = done.into_iter().collect::<Result<_, _>>()?;

    let lifecycles = batches * batch;
    let commit_ms = benches[0].single_commits(lifecycles).await?;
    verify(&mut link, lifecycles, batches).await?;
    link.batch(&drop).await.map_err(&failed)?;
    Ok(Floor { lifecycles, lifecycles_per_s: lifecycles as f64 / seconds, commit_ms })
}

struct Bench {
    link: Link,
    number: usize,
    seq: i64,
    input: Vec<u8>,
}

/// The columns of one batch.
struct Rows {
    ids: Vec<KeyBytes>,
    times: Vec<i64>,
}

impl Rows {
    fn new(rows: Range<usize>) -> Self {
        Self { ids: rows.clone().map(id).collect(), times: rows.map(|row| STARTED_MS + row as i64).collect() }
    }

    fn ids(&self) -> Param<'_> {
        Param::Keys(&self.ids)
    }

    fn times(&self) -> Param<'_> {
        Param::Ints(&self.times)
    }

    fn same<'a>(&self, bytes: &'a [u8]) -> Param<'a> {
        Param::Same(bytes, self.ids.len())
    }
}

impl Bench {
    fn new(link: Link, number: usize, payload: usize) -> Self {
        Self { link, number, seq: 0, input: vec![0x77; payload] }
    }

    async fn lifecycles(mut self, batches: Vec<usize>, batch: usize) -> Result<Self, OpenError> {
        for number in batches {
            let rows = Rows::new(number * batch..(number + 1) * batch);
            self.insert(&rows).await?;
            self.claim(&rows).await?;
            self.complete(&rows).await?;
        }
        Ok(self)
    }

    async fn insert(&mut self, rows: &Rows) -> Result<(), OpenError> {
        let input = std::mem::take(&mut self.input);
        let columns = [rows.ids(), rows.times(), rows.same(&HOT[..120]), rows.same(&SPEC), rows.same(&input)];
        let writes = [text(INSERT, columns), text(READY_ADD, [rows.times(), rows.ids()])];
        let done = self.commit(rows, writes).await;
        self.input = input;
        done
    }

    async fn claim(&mut self, rows: &Rows) -> Result<(), OpenError> {
        let writes = [
            text(READY_REMOVE, [rows.times(), rows.ids()]),
            text(CLAIM, [rows.ids(), rows.times(), rows.same(&HOT)]),
            text(LEASE_ADD, [rows.times(), rows.ids()]),
        ];
        self.commit(rows, writes).await
    }

    async fn complete(&mut self, rows: &Rows) -> Result<(), OpenError> {
        let writes = [
            text(LEASE_REMOVE, [rows.times(), rows.ids()]),
            text(COMPLETE, [rows.ids(), rows.times(), rows.same(&HOT), rows.same(&RESULT)]),
        ];
        self.commit(rows, writes).await
    }

    /// One transaction with its feed entry, in one round trip.
    async fn commit<'a, const N: usize>(&mut self, rows: &Rows, writes: [Step<'a>; N]) -> Result<(), OpenError> {
        let failed = OpenError::postgres("measure the floor");
        self.seq += 1;
        let events = vec![0x11; rows.ids.len() * EVENT_BYTES];
        let entry = [
            Param::Int2(self.number as i16),
            Param::Int8(Some(self.seq)),
            Param::Uuid(uuid(self.seq as usize)),
            Param::Bytes(Some(&events)),
        ];
        let mut steps = vec![Step::bare(Stmt::Begin)];
        steps.extend(writes);
        steps.push(text(FEED, entry));
        steps.push(Step::bare(Stmt::Commit));
        self.link.prepare(&steps).await.map_err(&failed)?;
        let answers = self.link.run(&steps).await.map_err(|unsent| failed(unsent.0))?;
        answers.into_iter().try_for_each(|answer| answer.map(drop)).map_err(&failed)
    }

    async fn single_commits(&mut self, first: usize) -> Result<f64, OpenError> {
        let mut took = Vec::with_capacity(SINGLE_COMMITS);
        for row in first..first + SINGLE_COMMITS {
            let rows = Rows::new(row..row + 1);
            let started = Instant::now();
            self.insert(&rows).await?;
            took.push(started.elapsed().as_secs_f64() * 1000.0);
        }
        took.sort_by(f64::total_cmp);
        Ok(took[SINGLE_COMMITS / 2])
    }
}

fn text<'a>(sql: &'static str, params: impl Into<Vec<Param<'a>>>) -> Step<'a> {
    Step::new(Stmt::Floor(sql), params)
}

fn id(row: usize) -> KeyBytes {
    Key::Execution(ExecutionId::new(PartitionId(0), uuid(row))).to_bytes()
}

/// An id that grows with time and ends in bytes that do not, as real ones do.
fn uuid(row: usize) -> Uuid {
    Uuid::from_u64_pair(
        0x0198_0000_0000_0000 + ((row as u64) << 12),
        (row as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    )
}

/// A fast wrong answer is a failure.
async fn verify(link: &mut Link, lifecycles: usize, batches: usize) -> Result<(), OpenError> {
    let failed = OpenError::postgres("verify the floor");
    let sql = "\
        select (select count(*) from jobs where state = 'succeeded' and length(result) = 16 and finished_at is not null),
            (select count(*) from jobs), (select count(*) from feed), (select count(*) from ready),
            (select count(*) from leases)";
    let rows = link.ask(sql, &[]).await.map_err(&failed)?;
    let row = rows.first().ok_or_else(|| OpenError::Connect("the floor left no rows".to_owned()))?;
    let found: Vec<i64> = (0..5).map(|at| row.try_get(at)).collect::<Result<_, _>>().map_err(&failed)?;
    let expected =
        [lifecycles, lifecycles + SINGLE_COMMITS, batches * 3 + SINGLE_COMMITS, SINGLE_COMMITS, 0].map(|n| n as i64);
    match found == expected {
        true => Ok(()),
        false => Err(OpenError::Connect(format!("the floor left {found:?} rows instead of {expected:?}"))),
    }
}
