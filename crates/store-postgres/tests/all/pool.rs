//! How many connections a node uses.

use crate::records::{apply, insert, key};
use crate::server::{name, sql, with};
use weft_core::PartitionId;
use weft_store_postgres::PostgresStore;

/// The usual limit of a server is a hundred for all nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_many_partitions_share_a_few_connections() {
    let program = name();
    let options = with(&program, &format!("application_name={program}")).partitions(64);
    let store = PostgresStore::open(options).await.unwrap();
    let all = (0..64).map(PartitionId).map(|partition| apply(&store, partition, vec![insert(key(partition, 1), b"x")]));
    futures_util::future::join_all(all).await;
    let count = "select count(*) from pg_stat_activity where application_name = $1";
    let open: i64 = sql().await.query_one(count, &[&program]).await.unwrap().get(0);
    assert!((8..=21).contains(&open), "sixteen that commit, four that read and the bell at most, not {open}");
}
