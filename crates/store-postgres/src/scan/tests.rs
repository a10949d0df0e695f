use super::*;
use crate::testing::{fresh, made};
use crate::{connect, sql};
use std::time::Duration;
use weft_core::schema::IndexId;

/// Sizes of tables at which the planner must not change its mind: never looked at, next to nothing, a lot.
const SIZES: [usize; 3] = [0, 1, 3000];

async fn plan(link: &mut Link, text: &str) -> String {
    let params = (1..100).take_while(|number| text.contains(&format!("${number}"))).count();
    let nulls = vec!["null"; params].join(", ");
    let arguments = if params == 0 { String::new() } else { format!("({nulls})") };
    link.batch(&format!("prepare looked_at as {text}")).await.unwrap();
    let rows = link.ask(&format!("explain (costs off) execute looked_at{arguments}"), &[]).await.unwrap();
    link.batch("deallocate looked_at").await.unwrap();
    let lines: Vec<&str> = rows.iter().map(|row| row.get::<_, &str>(0).trim()).collect();
    lines.join("; ")
}

/// Fills the table of executions, the narrow tables beside it, timers and the feed, in three partitions.
async fn fill(link: &mut Link, rows: usize) {
    if rows == 0 {
        return;
    }
    let key = "decode(lpad(to_hex(n), 32, '0'), 'hex')";
    let sql = format!(
        "insert into executions (partition, id, revision, namespace, lane, kind, capabilities, concurrency_key, created_at, \
         state, priority, attempts, updated_at) select n % 3, {key}, gen_random_uuid(), 'n', 'l', 'k', '', '', n, 's', 0, \
         0, n from generate_series(1, {rows}) n;
         insert into executions_ready select n % 3, 'n', 'l', 'k', '', '', n, {key} from generate_series(1, {rows}) n;
         insert into executions_by_state select n % 3, 'n', 's', n, {key} from generate_series(1, {rows}) n;
         insert into executions_by_claim select n % 3, {key}, {key} from generate_series(1, {rows}) n;
         insert into due select n % 3, 1, n, 1, {key} from generate_series(1, {rows}) n;
         insert into feed select n % 3, n, 0, 0, gen_random_uuid(), null from generate_series(1, {rows}) n;
         analyze executions; analyze executions_ready; analyze executions_by_state; analyze executions_by_claim;
         analyze due; analyze feed"
    );
    link.batch(&sql).await.unwrap();
}

async fn session(rows: usize) -> Link {
    let options = made(fresh()).await;
    let mut link = connect::session(&options).await.unwrap();
    fill(&mut link, rows).await;
    link
}

/// The condition with which an index is entered; empty if the plan does not enter it.
fn entered<'a>(plan: &'a str, index: &str) -> &'a str {
    let (_, rest) = plan.split_once(&format!(" using {index} on ")).unwrap_or(("", ""));
    let (_, rest) = rest.split_once("Index Cond: ").unwrap_or(("", ""));
    rest.split(';').next().unwrap_or("")
}

#[tokio::test]
async fn hot_statements_go_along_their_index_whatever_the_statistics_say() {
    let execution = Kind::Execution;
    let key = ["partition", "id"].as_slice();
    let commit = ["partition", "commit_id"].as_slice();
    let ready = ["partition", "namespace", "lane", "kind", "capabilities", "concurrency_key", "ready_order", "id"];
    let rows = [
        (Stmt::Update(execution, PartMask::of(0)), "executions_pkey", key),
        (Stmt::Read(execution, PartMask::ALL), "executions_pkey", key),
        (Stmt::Unchanged(execution), "executions_pkey", key),
        (Stmt::Changed(execution), "executions_pkey", key),
        (Stmt::Delete(execution), "executions_pkey", key),
        (Stmt::EntryRemove(IndexId::Ready), "executions_ready_pkey", &ready),
        (Stmt::DueRemove, "due_pkey", &["partition", "timer", "at", "kind", "id"]),
        (Stmt::Take, "partitions_pkey", &["id"]),
        (Stmt::Feed, "partitions_pkey", &["id"]),
        (Stmt::Feed, "barred_pkey", commit),
        (Stmt::Standing, "barred_pkey", commit),
        (Stmt::Standing, "feed_pkey", commit),
        (Stmt::Resolve, "feed_pkey", commit),
    ];
    for size in SIZES {
        let mut link = session(size).await;
        for (stmt, index, columns) in &rows {
            let plan = plan(&mut link, &stmt.text()).await;
            let condition = entered(&plan, index);
            let whole = columns.iter().all(|column| condition.contains(&format!("({column} = ")));
            assert!(whole, "{stmt:?} with {size} rows does not enter {index} by all of {columns:?}: {plan}");
            assert!(!plan.contains("Seq Scan") && !plan.contains("Join Filter"), "{stmt:?} with {size} rows: {plan}");
        }
    }
}

fn walks() -> Vec<Walk> {
    let indexes = IndexId::ALL.into_iter().map(Target::Index);
    let records = Kind::ALL.into_iter().map(Target::Records);
    let targets = indexes.chain(records).chain([Target::Due, Target::Feed]);
    let walk = |target: Target, prefix: usize, bits: u8| Walk {
        target,
        prefix,
        after: bits & 1 != 0,
        until: bits & 2 != 0,
        descending: bits & 4 != 0,
        parts: (bits & 8 != 0).then_some(PartMask::of(0)),
        everywhere: bits & 16 != 0,
    };
    let of_target =
        |target: Target| (0..=target.columns()).flat_map(move |prefix| (0..32).map(move |bits| (prefix, bits)));
    let all = targets.flat_map(|target| of_target(target).map(move |(prefix, bits)| walk(target, prefix, bits)));
    all.filter(|walk| !walk.until || walk.prefix < walk.target.columns()).collect()
}

#[tokio::test]
async fn no_scan_sorts_or_reads_a_whole_table() {
    for size in SIZES {
        let mut link = session(size).await;
        for walk in walks() {
            let plan = plan(&mut link, &walk.text()).await;
            let sound = !plan.contains("Seq Scan") && !plan.contains("Sort") && plan.contains("Limit");
            assert!(sound, "{walk:?} with {size} rows: {plan}");
            // A place to go on after must be sought, not filtered for; only the key of a feed entry is looked at after.
            let by_feed_key = walk.target == Target::Feed && walk.after;
            assert!(!plan.contains("Filter") || by_feed_key, "{walk:?} with {size} rows: {plan}");
            let one_entry = walk.target == Target::Feed && walk.prefix == 1;
            let by_row = plan.contains("ROW(") || plan.contains("(id >") || plan.contains("(id <");
            assert!(!walk.after || by_row || one_entry, "{walk:?} with {size} rows: {plan}");
        }
    }
}

#[tokio::test]
async fn a_walk_over_a_full_partition_reads_no_more_than_its_page() {
    let mut link = session(3000).await;
    let target = Target::Index(IndexId::ByCreated);
    let after =
        Place { columns: vec![Value::Text("n".into()), Value::Int(1500)], key: Bytes::from_static(&[0xff; 16]) };
    let range = Range { prefix: vec![Value::Text("n".into())], after: Some(after), until: None };
    let scan = Scan { target, ranges: vec![range], limit: 4, descending: true, parts: Some(PartMask::NONE) };
    let asked = tokio::time::timeout(Duration::from_secs(10), pages(&mut link, Some(PartitionId(0)), &scan));
    let page = asked.await.unwrap().unwrap().remove(0);
    let created: Vec<_> = page.entries.iter().map(|entry| entry.place.columns[1].clone()).collect();
    assert_eq!(created, [1500, 1497, 1494, 1491].map(Value::Int));
    assert!(page.more);
    assert_eq!(sql::parts_of(Kind::Execution.table(), PartMask::NONE).count(), 0);
}
