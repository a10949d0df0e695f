//! The schema as the server has it, kept under review.

use crate::server::{fresh, sql};
use std::fmt::Write;
use weft_store_postgres::PostgresStore;

const COLUMNS: &str = "\
select c.relname::text, a.attname::text, format_type(a.atttypid, a.atttypmod),
    coalesce((select collname::text from pg_collation l where l.oid = a.attcollation and l.collname <> 'default'), ''),
    a.attnotnull, case a.attstorage when 'e' then 'external' else '' end, coalesce(array_to_string(c.reloptions, ', '), '')
from pg_attribute a
join pg_class c on c.oid = a.attrelid and c.relkind = 'r'
join pg_namespace n on n.oid = c.relnamespace and n.nspname = $1
where a.attnum > 0 and not a.attisdropped
order by c.relname, a.attnum";

const INDEXES: &str = "select indexdef from pg_indexes where schemaname = $1 order by tablename, indexname";

const FUNCTIONS: &str = "\
select pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace and n.nspname = $1 order by \
p.proname";

async fn dump(schema: &str) -> String {
    let client = sql().await;
    let mut text = String::new();
    let mut last = String::new();
    for row in client.query(COLUMNS, &[&schema]).await.unwrap() {
        let (table, column, ty): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let (collation, storage, options): (String, String, String) = (row.get(3), row.get(5), row.get(6));
        if table != last {
            let options = if options.is_empty() { options } else { format!(" with ({options})") };
            writeln!(text, "table {table}{options}").unwrap();
            last = table;
        }
        let words = [column, ty, collation, if row.get(4) { "not null".to_owned() } else { String::new() }, storage];
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        writeln!(text, "    {}", words.join(" ")).unwrap();
    }
    for query in [INDEXES, FUNCTIONS] {
        for row in client.query(query, &[&schema]).await.unwrap() {
            let definition: String = row.get(0);
            writeln!(text, "{}", definition.trim_end().replace(schema, "weft")).unwrap();
        }
    }
    text
}

/// The dump with its lines in order. A column that an upgrade adds stands last in its table, and every statement names its
/// columns, so that their order does not count.
pub async fn shape(schema: &str) -> Vec<String> {
    let dump = dump(schema).await;
    let mut table = "";
    let mut lines: Vec<String> = Vec::new();
    for line in dump.lines() {
        match line.starts_with("    ") {
            true => lines.push(format!("{table}:{line}")),
            false => {
                table = line;
                lines.push(line.to_owned());
            }
        }
    }
    lines.sort();
    lines
}

/// A difference here is a change of the format: it takes an upgrade. `WEFT_BLESS=1` rewrites the file.
#[tokio::test]
async fn ops_24_the_schema_is_the_one_that_was_reviewed() {
    let options = fresh().partitions(1);
    PostgresStore::open(options.clone()).await.unwrap();
    let found = dump(&options.schema).await;
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/schema.sql");
    if std::env::var_os("WEFT_BLESS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let reviewed = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, reviewed, "the schema differs from tests/all/schema.sql");
}
