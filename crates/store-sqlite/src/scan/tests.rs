use super::*;
use crate::{ddl, sql};
use weft_core::schema::{IndexId, Kind, execution};

fn connection() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(&ddl::create()).unwrap();
    connection
}

fn plan(connection: &Connection, sql: &str) -> String {
    let mut explain = connection.prepare(&format!("explain query plan {sql}")).unwrap();
    let lines: Result<Vec<String>> = explain.raw_query().mapped(|row| row.get(3)).collect();
    lines.unwrap().join("; ")
}

fn walk(connection: &Connection, target: Target, prefix: usize, after: bool, until: bool) -> String {
    let clauses = Clauses { prefix, after, until, descending: false, parts: None };
    plan(connection, &statement(target, &clauses))
}

#[test]
fn hot_statements_go_along_their_index() {
    let connection = connection();
    let ready = Target::Index(IndexId::Ready);
    let by_state = Target::Index(IndexId::ByState);
    let light = sql::read(Kind::Execution.table(), execution::LIGHT);
    let rows = [
        (walk(&connection, ready, 4, false, false), "executions_ready (partition=? AND namespace=? AND lane=?"),
        (walk(&connection, ready, 4, true, false), "(concurrency_key,ready_order,id)>(?,?,?)"),
        (walk(&connection, Target::Due, 1, false, true), "PRIMARY KEY (partition=? AND timer=? AND at<?)"),
        (walk(&connection, Target::Due, 1, true, true), "timer=? AND (at,kind,id)>(?,?,?) AND at<?"),
        (
            walk(&connection, by_state, 2, true, false),
            "executions_by_state (partition=? AND namespace=? AND listed=? AND",
        ),
        (plan(&connection, &light), "sqlite_autoindex_executions_1 (partition=? AND id=?)"),
        (plan(&connection, &sql::update(Kind::Execution.table(), !0, PartMask::of(0))), "(partition=? AND id=?)"),
        (plan(&connection, sql::HEAD_READ), "partitions USING INTEGER PRIMARY KEY (rowid=?)"),
        (plan(&connection, sql::LARGE_READ), "(partition=? AND kind=? AND id=? AND part=?)"),
        (plan(&connection, sql::DUE_REMOVE), "(partition=? AND timer=? AND at=? AND kind=? AND id=?)"),
    ];
    for (plan, expected) in rows {
        assert!(plan.contains(expected), "{plan}\ndoes not contain {expected}");
    }
}

#[test]
fn no_scan_sorts_or_reads_a_whole_table() {
    let connection = connection();
    let indexes = IndexId::ALL.into_iter().map(Target::Index);
    let records = Kind::ALL.into_iter().map(Target::Records);
    for target in indexes.chain(records).chain([Target::Due, Target::Feed]) {
        for prefix in 0..=target.columns() {
            for clauses in every(prefix, prefix < target.columns()) {
                let plan = plan(&connection, &statement(target, &clauses));
                assert!(plan.starts_with("SEARCH") && !plan.contains("TEMP B-TREE"), "{target:?} {prefix}: {plan}");
                // A place to go on after must be sought, not filtered for; a `seq` names one entry anyhow.
                let sought = plan.contains('>') || plan.contains('<') || (target == Target::Feed && prefix == 1);
                assert!(!clauses.after || sought, "{target:?} {prefix}: {plan}");
            }
        }
    }
}

fn every(prefix: usize, has_until: bool) -> impl Iterator<Item = Clauses> {
    (0..16).filter(move |bits| has_until || bits & 2 == 0).map(move |bits| Clauses {
        prefix,
        after: bits & 1 != 0,
        until: bits & 2 != 0,
        descending: bits & 4 != 0,
        parts: (bits & 8 != 0).then_some(PartMask::ALL),
    })
}
