//! The text of the statements on tables of records. Parameters always: no value ever becomes part of a statement.
//!
//! Parameters 1 and 2 are partition and key everywhere, 3 is the revision where one is written.

use weft_core::schema::{PartMask, Table};

/// The numbers of the parts that a mask holds and the table has.
pub fn parts_of(table: &Table, mask: PartMask) -> impl Iterator<Item = u8> {
    (0..table.parts.len() as u8).filter(move |part| mask.has(*part))
}

/// Rows that one statement inserts where there are many: running a statement costs as much as a row.
pub const ROWS: usize = 8;

/// Parameters of each row: partition, key, revision, large, all facets, all parts.
///
/// Stops at a row that is there already and keeps those before it, which spares a journal of the statement.
pub fn insert(table: &Table, rows: usize) -> String {
    let columns: Vec<&str> = ["partition", "id", "revision", "large"]
        .into_iter()
        .chain(table.facets.iter().map(|facet| facet.name))
        .chain(table.parts.iter().copied())
        .collect();
    let row = format!("({})", vec!["?"; columns.len()].join(", "));
    let rows = vec![row.as_str(); rows].join(", ");
    format!("insert or fail into {} ({}) values {rows}", table.name, columns.join(", "))
}

/// Parameters: partition, key, revision, the facets of `moved`, the parts of the mask.
///
/// Touches no row of which one of these parts is large: that needs `update_large`, and a count of 0 says so. Facets that
/// stay as they are are left out, because naming a column rewrites its entries in every index.
pub fn update(table: &Table, moved: u32, mask: PartMask) -> String {
    let sets = sets(table, moved, mask, &["revision"]);
    format!("update {} set {sets} where partition = ?1 and id = ?2 and large & {} = 0", table.name, mask.0)
}

/// Like `update` with the bits of the large parts as fourth parameter, for any row.
pub fn update_large(table: &Table, moved: u32, mask: PartMask) -> String {
    let sets = sets(table, moved, mask, &["revision", "large"]);
    format!("update {} set {sets} where partition = ?1 and id = ?2", table.name)
}

fn sets(table: &Table, moved: u32, mask: PartMask, first: &[&str]) -> String {
    let facets = table.facets.iter().enumerate().filter(|(at, _)| moved >> at & 1 == 1);
    let columns = first
        .iter()
        .copied()
        .chain(facets.map(|(_, facet)| facet.name))
        .chain(parts_of(table, mask).map(|part| table.parts[usize::from(part)]));
    let sets: Vec<String> = columns.enumerate().map(|(at, column)| format!("{column} = ?{}", at + 3)).collect();
    sets.join(", ")
}

/// Removes a row that has no large parts; a count of 0 says that it is absent or has some.
pub fn delete_small(table: &Table) -> String {
    format!("delete from {} where partition = ?1 and id = ?2 and large = 0", table.name)
}

pub fn delete(table: &Table) -> String {
    format!("delete from {} where partition = ?1 and id = ?2", table.name)
}

/// Columns: revision, large.
pub fn stamp(table: &Table) -> String {
    format!("select revision, large from {} where partition = ?1 and id = ?2", table.name)
}

/// Columns: revision, large, the parts of the mask.
pub fn read(table: &Table, mask: PartMask) -> String {
    let parts: String = parts_of(table, mask).map(|part| format!(", {}", table.parts[usize::from(part)])).collect();
    format!("select revision, large{parts} from {} where partition = ?1 and id = ?2", table.name)
}

pub const LARGE_PUT: &str =
    "insert or replace into large_parts (partition, id, kind, part, bytes) values (?1, ?2, ?3, ?4, ?5)";
pub const LARGE_DROP: &str = "delete from large_parts where partition = ?1 and id = ?2 and kind = ?3 and part = ?4";
pub const LARGE_DROP_ALL: &str = "delete from large_parts where partition = ?1 and id = ?2 and kind = ?3";
pub const LARGE_READ: &str =
    "select bytes from large_parts where partition = ?1 and id = ?2 and kind = ?3 and part = ?4";

/// Parameters of each row: partition, timer, time, kind, key.
pub fn due_add(rows: usize) -> String {
    let rows = vec!["(?, ?, ?, ?, ?)"; rows].join(", ");
    format!("insert or ignore into due (partition, timer, at, kind, id) values {rows}")
}

pub const DUE_REMOVE: &str =
    "delete from due where partition = ?1 and timer = ?2 and at = ?3 and kind = ?4 and id = ?5";

pub const HEAD_READ: &str = "select generation, seq, now, last from partitions where id = ?1";
pub const HEAD_WRITE: &str = "update partitions set generation = ?2, seq = ?3, now = ?4, last = ?5 where id = ?1";
pub const FEED_ADD: &str =
    "insert into feed (partition, seq, generation, now, commit_id, events) values (?1, ?2, ?3, ?4, ?5, ?6)";
/// Columns as in `HEAD_READ`, as the commit left them. Reads the feed from its end: no index would pay for how rarely an
/// outcome is unknown here.
pub const FEED_FIND: &str = "\
select generation, seq, now, commit_id from feed where partition = ?1 and commit_id = ?2 order by seq desc limit 1";
pub const BARRED_ALL: &str = "select commit_id from barred where partition = ?1";
pub const BARRED_ADD: &str = "insert into barred (partition, commit_id, at) values (?1, ?2, ?3)";
pub const BARRED_TRIM: &str = "delete from barred where partition = ?1 and at < ?2";
