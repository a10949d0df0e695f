//! The tables of a store, derived from the schema that core declares. Owns their layout; holds no rule.
//!
//! An index of which a facet moves is a narrow table of its own: as an index of the main table it would turn every update
//! of a record into a new entry in each of its indexes.

use std::fmt::Write;
use weft_core::schema::{Facet, Index, Kind, Table, Type};

/// The tables that are not derived from a kind of record, and the one function. It makes a check of a commit end the
/// transaction on the server, so that the statements behind it in the pipeline change nothing.
const FRAME: &str = "\
create table meta (
    key text not null primary key,
    value text not null
);
create table partitions (
    id smallint not null primary key,
    generation bigint not null,
    seq bigint not null,
    now bigint not null,
    last uuid not null
) with (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0.01);
create table feed (
    partition smallint not null,
    seq bigint not null,
    generation bigint not null,
    now bigint not null,
    commit_id uuid not null,
    events bytea,
    primary key (partition, commit_id)
) with (toast_tuple_target = 8160);
alter table feed alter column events set storage external;
create index feed_by_seq on feed (partition, seq, commit_id) where partition >= 0;
create table barred (
    partition smallint not null,
    commit_id uuid not null,
    at bigint not null,
    primary key (partition, commit_id)
);
create table due (
    partition smallint not null,
    timer smallint not null,
    at bigint not null,
    kind smallint not null,
    id bytea not null,
    primary key (partition, timer, at, kind, id)
) with (autovacuum_vacuum_scale_factor = 0.01);
create function guard(holds boolean) returns boolean language plpgsql as $$
begin
    if holds then
        return true;
    end if;
    raise exception 'a check of a commit does not hold' using errcode = 'WF001';
end
$$;
";

/// How the tables of records are kept: room for updates on the same page, and a vacuum that comes early.
const RECORDS: &str = "fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05";

/// The same for tables of which rows only come and go.
const ENTRIES: &str = "autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.05";

/// Every statement that fills an empty schema, for a session whose search path is that schema.
pub fn create() -> String {
    let mut sql = FRAME.to_owned();
    for kind in Kind::ALL {
        table(&mut sql, kind.table());
    }
    sql
}

/// The entries are in a table of their own, named like the index.
pub fn is_narrow_table(index: &Index) -> bool {
    let facets = index.kind.table().facets;
    index.facets.iter().chain(&index.when).any(|at| !facets[*at].fixed)
}

/// The condition of every index that begins with the partition and is not the primary key. Walks name it; a search for a
/// record by its key does not, so that the planner cannot take such an index for it, which it would as long as it thinks a
/// table small.
pub fn for_walks(alias: &str) -> String {
    format!("{alias}partition >= 0")
}

pub fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Int => "bigint",
        Type::Text => "text",
        Type::Bytes => "bytea",
    }
}

fn table(sql: &mut String, table: &Table) {
    let columns: Vec<String> = ["partition smallint not null", "id bytea not null", "revision uuid not null"]
        .into_iter()
        .map(str::to_owned)
        .chain(table.facets.iter().map(facet))
        .chain(table.parts.iter().map(|part| format!("{part} bytea")))
        .chain(["primary key (partition, id)".to_owned()])
        .collect();
    push(sql, format_args!("create table {} (\n    {}\n) with ({RECORDS});\n", table.name, columns.join(",\n    ")));
    for part in table.parts {
        // Large values go beside the row as they are: most do not get smaller, and trying takes longer than writing.
        push(sql, format_args!("alter table {} alter column {part} set storage external;\n", table.name));
    }
    for declared in table.indexes.iter().filter(|index| !index.facets.is_empty()) {
        match is_narrow_table(declared) {
            true => narrow_table(sql, table, declared),
            false => index(sql, table, declared),
        }
    }
}

fn facet(facet: &Facet) -> String {
    let presence = if facet.nullable { "" } else { " not null" };
    format!("{}{presence}", column(facet))
}

fn column(facet: &Facet) -> String {
    let collation = if facet.ty == Type::Text { " collate \"C\"" } else { "" };
    format!("{} {}{collation}", facet.name, type_name(facet.ty))
}

fn narrow_table(sql: &mut String, table: &Table, index: &Index) {
    let facets: Vec<String> =
        index.facets.iter().map(|at| format!("{} not null", column(&table.facets[*at]))).collect();
    push(
        sql,
        format_args!(
            "create table {} (\n    partition smallint not null,\n    {},\n    id bytea not null,\n    primary key \
             (partition, {}, id)\n) with ({ENTRIES});\n",
            index.name,
            facets.join(",\n    "),
            names(table, index)
        ),
    );
}

fn index(sql: &mut String, table: &Table, index: &Index) {
    let columns = names(table, index);
    let (name, on) = (index.name, table.name);
    push(sql, format_args!("create index {name} on {on} (partition, {columns}, id) where {}", for_walks("")));
    if let Some(when) = index.when {
        push(sql, format_args!(" and {} is not null", table.facets[when].name));
    }
    sql.push_str(";\n");
}

fn names(table: &Table, index: &Index) -> String {
    let names: Vec<&str> = index.facets.iter().map(|at| table.facets[*at].name).collect();
    names.join(", ")
}

fn push(sql: &mut String, text: std::fmt::Arguments<'_>) {
    sql.write_fmt(text).expect("ddl: writing to a string succeeds");
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::schema::IndexId;

    /// Row comparisons are unknown for null, so a scan could not step past an entry that has one.
    #[test]
    fn an_indexed_facet_is_never_null_in_its_index() {
        for index in IndexId::ALL.map(IndexId::get) {
            let facets = index.kind.table().facets;
            // The condition speaks for the others: they are null only where it is.
            let sound = |at: &usize| !facets[*at].nullable || index.when.is_some_and(|when| facets[when].nullable);
            assert!(index.facets.iter().all(sound), "{}", index.name);
        }
    }

    #[test]
    fn rl_57_no_index_of_a_main_table_names_a_facet_that_moves() {
        let sql = create();
        for index in IndexId::ALL.map(IndexId::get).into_iter().filter(|index| !index.facets.is_empty()) {
            let facets = index.kind.table().facets;
            let moves = index.facets.iter().chain(&index.when).any(|at| !facets[*at].fixed);
            assert_eq!(sql.contains(&format!("create index {} ", index.name)), !moves, "{}", index.name);
            assert_eq!(sql.contains(&format!("create table {} ", index.name)), moves, "{}", index.name);
        }
        assert!(is_narrow_table(IndexId::Ready.get()) && !is_narrow_table(IndexId::Children.get()));
    }
}
