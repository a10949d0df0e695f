//! Every statement of the store, named and written out. Parameters always: no value ever becomes part of a statement.
//!
//! Parameter 1 is the partition wherever there is one. Sets of rows come as one array per column and are unfolded in the
//! select list, which is cheaper than in the from clause. The search path of the session is the schema, so names are bare.
//!
//! Rows are found one by one, in a subquery with a limit that the planner cannot turn around, and then touched where they
//! are. A plain join it would turn around whenever its statistics call a table small, and compare the whole partition with
//! the whole set. Nobody else can move a row meanwhile: the commit holds the partition.

use crate::ddl::type_name;
use crate::scan::Walk;
use weft_core::schema::{IndexId, Kind, PartMask, Table};

/// A statement, prepared once per connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stmt {
    Begin,
    BeginRead,
    Commit,
    Head,
    Read(Kind, PartMask),
    Take,
    Unchanged(Kind),
    Changed(Kind),
    Standing,
    Insert(Kind, PartMask),
    Update(Kind, PartMask),
    Delete(Kind),
    EntryAdd(IndexId, IfThere),
    EntryRemove(IndexId),
    DueAdd(IfThere),
    DueRemove,
    Feed,
    Lock,
    Resolve,
    Now,
    Notify,
    Walk(Walk),
    /// One of the yardstick's own.
    Floor(&'static str),
}

/// What becomes of an entry that is there already. To ask for it costs as much as to insert it, so the first attempt fails
/// and only the second one asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IfThere {
    Fail,
    Keep,
}

impl IfThere {
    fn clause(self) -> &'static str {
        match self {
            IfThere::Fail => "",
            IfThere::Keep => " on conflict do nothing",
        }
    }
}

impl Stmt {
    pub fn text(self) -> String {
        match self {
            Stmt::Begin => "begin".to_owned(),
            Stmt::BeginRead => "begin isolation level repeatable read read only".to_owned(),
            Stmt::Commit => "commit".to_owned(),
            Stmt::Head => HEAD.to_owned(),
            Stmt::Read(kind, mask) => read(kind.table(), mask),
            Stmt::Take => TAKE.to_owned(),
            Stmt::Unchanged(kind) => unchanged(kind.table()),
            Stmt::Changed(kind) => changed(kind.table()),
            Stmt::Standing => STANDING.to_owned(),
            Stmt::Insert(kind, mask) => insert(kind.table(), mask),
            Stmt::Update(kind, mask) => update(kind.table(), mask),
            Stmt::Delete(kind) => delete(kind.table()),
            Stmt::EntryAdd(index, if_there) => entry_add(index) + if_there.clause(),
            Stmt::EntryRemove(index) => entry_remove(index),
            Stmt::DueAdd(if_there) => DUE_ADD.to_owned() + if_there.clause(),
            Stmt::DueRemove => DUE_REMOVE.to_owned(),
            Stmt::Feed => FEED.to_owned(),
            Stmt::Lock => "select id from partitions where id = $1 for update".to_owned(),
            Stmt::Resolve => RESOLVE.to_owned(),
            Stmt::Now => "select (extract(epoch from clock_timestamp()) * 1000)::bigint".to_owned(),
            Stmt::Notify => "select pg_notify($1, $2)".to_owned(),
            Stmt::Walk(walk) => walk.text(),
            Stmt::Floor(text) => text.to_owned(),
        }
    }
}

const HEAD: &str = "select generation, seq, now, last from partitions where id = $1";

/// First in every commit. Commits of a partition queue on this row and touch no other partition, so none can deadlock.
/// After a wait the conditions are evaluated again on the row as it then is; the feed is looked at as it was before, but
/// whoever expects a commit was told of it before. Parameters: partition, generation expected, least and greatest seq,
/// now, the position to take instead of the next one, the id of this commit, the last one expected; where the position
/// may have moved, that one has to be in the feed.
const TAKE: &str = "\
with head as (
    update partitions
    set generation = coalesce($6, generation), seq = coalesce($7, seq + 1), now = $5, last = $8
    where id = $1
        and generation = $2
        and seq between $3 and $4
        and now <= $5
        and (
            last = $9
            or $4 > $3
            and ($9 = '00000000-0000-0000-0000-000000000000'
                or exists (select from feed where partition = $1 and commit_id = $9))
        )
        and ($6::bigint is null or ($6, $7) > (generation, seq))
    returning seq
)
select guard(count(*) = 1), max(seq)
from head";

/// Last in every commit. A commit that was applied before breaks the unique index; a barred one the guard. Runs after the
/// partition's row was taken, so it sees every bar that was set before.
const FEED: &str = "\
insert into feed (partition, seq, generation, now, commit_id, events)
select id, seq, generation, now, $2, $3
from partitions
where id = $1
    and guard(not exists (select from barred where partition = $1 and commit_id = $2))";

/// What a refused commit has to be told about: head, whether its id is barred, where it was applied if it was, and whether
/// the one it is built on is there.
const STANDING: &str = "\
select p.generation, p.seq, p.now, p.last, b.at is not null, f.generation, f.seq, f.now, f.commit_id,
    exists (select from feed where partition = $1 and commit_id = $3)
from partitions p
left join barred b on b.partition = $1 and b.commit_id = $2
left join feed f on f.partition = $1 and f.commit_id = $2
where p.id = $1";

/// Runs after the partition's row was locked, so it sees a lost commit if that was applied. Otherwise its id is barred,
/// and the first bar moves `seq` on. Bars older than an hour go, except this one.
const RESOLVE: &str = "\
with found as (
    select generation, seq from feed where partition = $1 and commit_id = $2
), clock as (
    select (extract(epoch from clock_timestamp()) * 1000)::bigint as now
), bar as (
    insert into barred (partition, commit_id, at)
    select $1, $2, now from clock where not exists (select from found)
    on conflict do nothing
    returning 1
), moved as (
    update partitions set seq = seq + 1 where id = $1 and exists (select from bar)
), trimmed as (
    delete from barred where partition = $1 and commit_id <> $2 and at < (select now from clock) - 3600000
)
select (select generation from found), (select seq from found)";

const DUE_ADD: &str = "\
insert into due (partition, timer, at, kind, id)
select $1, unnest($2::smallint[]), unnest($3::bigint[]), unnest($4::smallint[]), unnest($5::bytea[])";

const DUE_REMOVE: &str = "\
delete from due t
using (
    select unnest($2::smallint[]) as timer, unnest($3::bigint[]) as at, unnest($4::smallint[]) as kind,
        unnest($5::bytea[]) as id
) u
cross join lateral (
    select ctid as tid
    from due
    where partition = $1 and timer = u.timer and at = u.at and kind = u.kind and id = u.id
    limit 1
) f
where t.ctid = f.tid";

/// The numbers of the parts that a mask holds and the table has.
pub fn parts_of(table: &Table, mask: PartMask) -> impl Iterator<Item = u8> {
    (0..table.parts.len() as u8).filter(move |part| mask.has(*part))
}

/// The names of the parts of a mask, each behind a comma and `alias`.
pub fn part_columns(table: &Table, mask: PartMask, alias: &str) -> String {
    parts_of(table, mask).map(|part| format!(", {alias}{}", table.parts[usize::from(part)])).collect()
}

/// Columns: generation, seq, now, last of the head, then number in the array, revision, the parts of the mask. At least
/// one row, so the head is always told; its rest is null if nothing was found.
fn read(table: &Table, mask: PartMask) -> String {
    let parts = part_columns(table, mask, "t.");
    let outer = part_columns(table, mask, "r.");
    format!(
        "select p.generation, p.seq, p.now, p.last, r.n, r.revision{outer} from partitions p left join lateral (select \
         u.n, t.revision{parts} from unnest($2::bytea[]) with ordinality u (id, n) cross join lateral (select * from {} where \
         partition = $1 and id = u.id limit 1) t) r on true where p.id = $1",
        table.name
    )
}

/// Ends the transaction if one of the records is not as it was seen. Parameters: partition, ids, revisions.
fn unchanged(table: &Table) -> String {
    format!("select guard(not exists (select from {}))", differing(table))
}

/// The places in the arrays of `unchanged` of those that differ.
fn changed(table: &Table) -> String {
    format!("select u.n from {}", differing(table))
}

fn differing(table: &Table) -> String {
    format!(
        "unnest($2::bytea[], $3::uuid[]) with ordinality u (id, seen, n) left join lateral (select revision from {} where \
         partition = $1 and id = u.id limit 1) t on true where t.revision is distinct from u.seen",
        table.name
    )
}

/// Parameters: partition, revision, ids, all facets, the parts of the mask. The others are absent.
fn insert(table: &Table, mask: PartMask) -> String {
    let facets = table.facets.iter().map(|facet| (facet.name, type_name(facet.ty)));
    let parts = parts_of(table, mask).map(|part| (table.parts[usize::from(part)], "bytea"));
    let columns: Vec<(&str, &str)> = [("id", "bytea")].into_iter().chain(facets).chain(parts).collect();
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let values = unfolded(&columns, 3, false);
    format!("insert into {} (partition, revision, {}) select $1, $2, {values}", table.name, names.join(", "))
}

/// Parameters: partition, revision, ids, the facets that move, the parts of the mask. Fixed facets are left out, because
/// they are as they were.
fn update(table: &Table, mask: PartMask) -> String {
    let facets = table.facets.iter().filter(|facet| !facet.fixed).map(|facet| (facet.name, type_name(facet.ty)));
    let parts = parts_of(table, mask).map(|part| (table.parts[usize::from(part)], "bytea"));
    let columns: Vec<(&str, &str)> = [("id", "bytea")].into_iter().chain(facets).chain(parts).collect();
    let sets: String = columns[1..].iter().map(|(name, _)| format!(", {name} = u.{name}")).collect();
    let values = unfolded(&columns, 3, true);
    format!(
        "update {name} t set revision = $2{sets} from (select {values}) u cross join lateral (select ctid as tid from \
         {name} where partition = $1 and id = u.id limit 1) f where t.ctid = f.tid",
        name = table.name
    )
}

/// Parameters: partition, ids.
fn delete(table: &Table) -> String {
    format!(
        "delete from {name} t using (select unnest($2::bytea[]) as id) u cross join lateral (select ctid as tid from \
         {name} where partition = $1 and id = u.id limit 1) f where t.ctid = f.tid",
        name = table.name
    )
}

fn entry_columns(index: IndexId) -> Vec<(&'static str, &'static str)> {
    let table = index.get().kind.table();
    let facets = index.get().facets.iter().map(|at| (table.facets[*at].name, type_name(table.facets[*at].ty)));
    facets.chain([("id", "bytea")]).collect()
}

/// Parameters: partition, the facets of the index, ids.
fn entry_add(index: IndexId) -> String {
    let columns = entry_columns(index);
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let values = unfolded(&columns, 2, false);
    format!("insert into {} (partition, {}) select $1, {values}", index.get().name, names.join(", "))
}

fn entry_remove(index: IndexId) -> String {
    let columns = entry_columns(index);
    let same: String = columns.iter().map(|(name, _)| format!(" and {name} = u.{name}")).collect();
    let values = unfolded(&columns, 2, true);
    format!(
        "delete from {name} t using (select {values}) u cross join lateral (select ctid as tid from {name} where partition \
         = $1{same} limit 1) f where t.ctid = f.tid",
        name = index.get().name
    )
}

/// One array per column, from parameter `first` on.
fn unfolded(columns: &[(&str, &str)], first: usize, named: bool) -> String {
    let unfold = |(at, (name, ty)): (usize, &(&str, &str))| {
        let name = if named { format!(" as {name}") } else { String::new() };
        format!("unnest(${}::{ty}[]){name}", first + at)
    };
    let columns: Vec<String> = columns.iter().enumerate().map(unfold).collect();
    columns.join(", ")
}
