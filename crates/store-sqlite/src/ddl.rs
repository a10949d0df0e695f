//! The tables of a store file, derived from the schema that core declares. Owns their layout; holds no rule.
//!
//! Executions have a rowid: their rows are long, and would make the inner pages of a tree by key hold few keys. All other
//! records are short, and one tree by key is one tree less to write. The column `large` has a bit for each part that lives
//! in `large_parts` because it would make every update of its row dear.

use std::fmt::Write;
use weft_core::schema::{Facet, Index, Kind, Table, Type};

/// A part above this many bytes is kept beside its row.
pub const LARGE_BYTES: usize = 1024;

/// The tables that are not derived from a kind of record.
const FRAME: &str = "\
create table meta (
    key text not null primary key,
    value blob not null
) without rowid;
create table partitions (
    id integer not null primary key,
    generation integer not null,
    seq integer not null,
    now integer not null,
    last blob not null default x'00000000000000000000000000000000'
);
create table feed (
    partition integer not null,
    seq integer not null,
    generation integer not null,
    now integer not null,
    commit_id blob not null,
    events blob,
    primary key (partition, seq)
) without rowid;
create table barred (
    partition integer not null,
    commit_id blob not null,
    at integer not null,
    primary key (partition, commit_id)
) without rowid;
create table due (
    partition integer not null,
    timer integer not null,
    at integer not null,
    kind integer not null,
    id blob not null,
    primary key (partition, timer, at, kind, id)
) without rowid;
create table large_parts (
    partition integer not null,
    kind integer not null,
    id blob not null,
    part integer not null,
    bytes blob not null,
    primary key (partition, kind, id, part)
);
";

/// Every statement that makes an empty file a store.
pub fn create() -> String {
    let mut sql = FRAME.to_owned();
    for kind in Kind::ALL {
        table(&mut sql, kind.table());
    }
    sql
}

fn table(sql: &mut String, table: &Table) {
    let columns: Vec<String> = ["partition integer not null", "id blob not null", "revision blob not null"]
        .into_iter()
        .map(str::to_owned)
        .chain(["large integer not null".to_owned()])
        .chain(table.facets.iter().map(facet))
        .chain(table.parts.iter().map(|part| format!("{part} blob")))
        .chain(["primary key (partition, id)".to_owned()])
        .collect();
    let ending = if table.kind == Kind::Execution { "" } else { " without rowid" };
    push(sql, format_args!("create table {} (\n    {}\n){ending};\n", table.name, columns.join(",\n    ")));
    for declared in table.indexes.iter().filter(|index| !index.facets.is_empty()) {
        index(sql, table, declared);
    }
}

fn facet(facet: &Facet) -> String {
    let ty = match facet.ty {
        Type::Int => "integer",
        Type::Text => "text collate binary",
        Type::Bytes => "blob",
    };
    let presence = if facet.nullable { "" } else { " not null" };
    format!("{} {ty}{presence}", facet.name)
}

fn index(sql: &mut String, table: &Table, index: &Index) {
    let columns: Vec<&str> = index.facets.iter().map(|at| table.facets[*at].name).collect();
    push(sql, format_args!("create index {} on {} (partition, {}, id)", index.name, table.name, columns.join(", ")));
    if let Some(when) = index.when {
        push(sql, format_args!(" where {} is not null", table.facets[when].name));
    }
    sql.push_str(";\n");
}

fn push(sql: &mut String, text: std::fmt::Arguments<'_>) {
    sql.write_fmt(text).expect("ddl: writing to a string succeeds");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row comparisons are false for null, so a scan could not step past an entry that has one.
    #[test]
    fn an_indexed_facet_is_never_null_in_its_index() {
        for index in Kind::ALL.iter().flat_map(|kind| kind.table().indexes) {
            let facets = index.kind.table().facets;
            // The condition speaks for the others: they are null only where it is.
            let sound = |at: &usize| !facets[*at].nullable || index.when.is_some_and(|when| facets[when].nullable);
            assert!(index.facets.iter().all(sound), "{}", index.name);
        }
    }

    #[test]
    fn the_bits_of_a_mask_suffice_for_all_parts() {
        assert!(Kind::ALL.iter().all(|kind| kind.table().parts.len() <= 16 && kind.table().facets.len() <= 32));
    }
}
