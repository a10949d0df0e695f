//! A state at rest: no scanner changes anything in it, however often it runs.

use crate::kit::bench::Bench;
use crate::kit::flows::*;
use crate::kit::kinds::Kind;
use crate::kit::plant::{self, Records};
use crate::kit::worker;
use weft_core::Time;
use weft_core::record::{Key, Record};

use weft_core::schema::PartMask;
use weft_engine::flow::FlowSubmission;
use weft_engine::{Cancellation, Submission};

/// The records, without what a verifier writes about its look at a flow.
fn at_rest(records: Records) -> Vec<(Key, Option<Record>)> {
    let decoded = records.into_iter().map(|(key, found)| {
        let mut record = Record::decode(key, &found.parts, PartMask::ALL).ok();
        if let Some(Record::Flow(flow)) = &mut record {
            (flow.summary.verified_at, flow.summary.verified_no) = (None, None);
            (flow.hot.verify_at, flow.hot.doubt) = (None, None);
            // The verdict is a write of the flow like any other, and moves its time.
            flow.hot.updated_at = Time::ZERO;
        }
        (key, record)
    });
    decoded.collect()
}

pub async fn sr_93_scanners_change_nothing_at_rest_but_when_it_was_verified(kind: impl Kind) {
    let bench = Bench::new(&kind).await;
    let line = || FlowSubmission::new("line").member("a", work()).member("b", work()).edge("a", "b");
    let [done, open] = [bench.submit(line()).await, bench.submit(line().deadline_in_ms(3_600_000)).await];
    bench.work_off().await;
    assert_eq!((state(&bench.client, done).await, state(&bench.client, open).await), ("completed", "completed"));
    bench.submit(line()).await;
    for lane in ["waits", "held", "late", "over"] {
        let submission = Submission::new("mail").lane(lane);
        let delay_ms = if lane == "late" { 3_600_000 } else { 0 };
        let id = bench.client.submit(submission.delay_ms(delay_ms).deadline_in_ms(7_200_000)).await.unwrap().id;
        if lane == "over" {
            bench.client.cancel(Cancellation::new(id, "not needed")).await.unwrap();
        }
    }
    let held = bench.client.claim(worker().lane("held").lease_ms(600_000)).await.unwrap().executions;
    assert_eq!(held.len(), 1);
    // Every flow is to be verified by now, and nothing else is due.
    bench.pass(20_000).await;
    let before = at_rest(plant::records(&*bench.store, P0).await);
    let events = bench.events().await;
    let mut processed = 0;
    for _ in 0..2 {
        for (scanner, _) in weft_engine::scanner::intervals() {
            let report = bench.scan(scanner).await;
            assert_eq!(report.errors, 0, "{scanner}: {report:?}");
            processed += report.processed;
            let after = at_rest(plant::records(&*bench.store, P0).await);
            for (was, is) in before.iter().zip(&after) {
                assert_eq!(was, is, "{scanner}");
            }
            assert_eq!(before.len(), after.len(), "{scanner}");
        }
    }
    assert!(processed >= 3, "the flows were verified: {processed}");
    assert_eq!(bench.events().await, events, "and nothing is told");
}
