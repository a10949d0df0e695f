use crate::kit::bench::Bench;
use crate::kit::kinds::{Kind, Memory, OnSqlite, in_time};
use crate::kit::probe::Asked;
use crate::kit::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use weft_core::command::Fence;
use weft_core::record::execution::{Outcome, Policy, PublicState, Retry};
use weft_core::schema::{IndexId, PartMask, execution as schema};
use weft_core::{ExecutionId, Time};
use weft_engine::config::Filter;
use weft_engine::{
    AttemptFilter, Cancellation, Client, Completion, Config, Delaying, Engine, Failing, ForceFailing, GroupBy, Holding,
    ListFilter, Obstacle, Prioritising, Replaying, Revoking, Submission, Tagging, Waiting,
};
use weft_store::MemoryStore;
use weft_store_valkey::ValkeyStore;

#[tokio::test(start_paused = true)]
async fn ex_70_a_list_shows_each_execution_once_newest_first() {
    let kit = open_with(4, Default::default()).await;
    let mut ids = Vec::new();
    for n in 0..37 {
        pass(3).await;
        ids.push(kit.submit(Submission::new(if n % 2 == 0 { "even" } else { "odd" })).await);
    }
    for _ in 0..9 {
        let work = kit.claim().await;
        kit.client.complete(Completion::of(&work)).await.unwrap();
    }
    for ascending in [false, true] {
        let (mut seen, mut cursor) = (Vec::new(), None);
        loop {
            let filter = ListFilter { limit: Some(5), cursor, ascending, ..ListFilter::default() };
            let page = kit.client.list(filter).await.unwrap();
            seen.extend(page.executions.iter().map(|execution| execution.id));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let mut wanted = ids.clone();
        if !ascending {
            wanted.reverse();
        }
        assert_eq!(seen, wanted);
    }
    let odd = ListFilter { kind: Some("odd".into()), limit: Some(18), ..ListFilter::default() };
    let page = kit.client.list(odd.clone()).await.unwrap();
    assert_eq!((page.executions.len(), page.next_cursor), (18, None), "others follow, but none that is asked for");
    let page = kit.client.list(ListFilter { limit: Some(17), ..odd.clone() }).await.unwrap();
    let page = kit.client.list(ListFilter { cursor: page.next_cursor, ..odd }).await.unwrap();
    assert_eq!((page.executions.len(), page.next_cursor), (1, None));
    let counts = kit.client.count(ListFilter::default()).await.unwrap();
    let done: u64 = counts.iter().filter(|(key, _)| key.2 == PublicState::Completed).map(|(_, count)| count).sum();
    assert_eq!((done, counts.values().sum::<u64>()), (9, 37));
    let bad = ListFilter { cursor: Some("nonsense".into()), ..ListFilter::default() };
    assert_eq!(kit.client.list(bad).await.unwrap_err().code(), "invalid_cursor");
}

#[tokio::test(start_paused = true)]
async fn ex_70_a_state_that_is_named_twice_shows_and_counts_each_execution_once() {
    let bench = Bench::with(&Memory, 4, Filter::NONE).await;
    for _ in 0..5 {
        let id = bench.client.submit(Submission::new("mail")).await.unwrap().id;
        bench.client.hold(Holding::new(id, "look")).await.unwrap();
    }
    for states in [vec![PublicState::Held; 2], vec![PublicState::Held, PublicState::Failed, PublicState::Held]] {
        let filter = ListFilter { states, ..ListFilter::default() };
        for by in [GroupBy::default(), GroupBy::ALL] {
            let counted = bench.client.count_within(&filter, by, 1_000).await.unwrap();
            assert_eq!(counted.counts.into_values().sum::<u64>(), 5, "{filter:?} {by:?}");
        }
        let page = bench.client.list(filter).await.unwrap();
        assert_eq!((page.executions.len(), page.next_cursor), (5, None));
    }
}

/// Bytes that somebody else wrote into an index: short of a place, and with a key that is none.
#[tokio::test]
async fn ex_70_bytes_in_an_index_that_name_nothing_neither_hold_up_nor_end_a_walk() {
    let server = weft_servers::Valkey::start(&[]).unwrap();
    let mut options = weft_store_valkey::Options::from_url(&server.url()).unwrap();
    (options.partitions, options.migrate) = (2, weft_store_valkey::Migrate::Auto);
    let index = format!("{}:{{p0}}i:{}", options.prefix, IndexId::ByCreated.get().name).into_bytes();
    let engine = Engine::open(ValkeyStore::open(options).await.unwrap(), Config::default()).await.unwrap();
    let client = engine.client("shop").unwrap();
    for _ in 0..6 {
        client.submit(Submission::new("mail")).await.unwrap();
    }
    // More than any page holds, before and after everything else of the namespace, and some before all namespaces.
    let mut command = vec![b"ZADD".to_vec(), index, b"0".to_vec(), vec![1]];
    for number in 0..6_000u16 {
        let side = if number % 2 == 0 { 0 } else { 0xff };
        let bytes = [&[side][..], &number.to_be_bytes(), &[7; 9][..usize::from(number % 3) * 4]].concat();
        command.extend([b"0".to_vec(), [&b"shop\0\x01"[..], &bytes].concat()]);
    }
    server.connect().unwrap().command(&command).unwrap();
    in_time(async {
        for ascending in [false, true] {
            let filter = ListFilter { ascending, ..ListFilter::default() };
            let page = client.list(ListFilter { limit: Some(5), ..filter.clone() }).await.unwrap();
            assert_eq!((page.executions.len(), page.next_cursor.is_some()), (5, true));
            assert_eq!(client.count(filter.clone()).await.unwrap().into_values().sum::<u64>(), 6);
            let counted = client.count_within(&filter, GroupBy::default(), 60_000).await.unwrap();
            assert_eq!((counted.counts.into_values().sum::<u64>(), counted.at_least), (6, false));
        }
        assert_eq!(engine.namespaces(None, 10).await.unwrap(), [weft_core::text::Text::from("shop")]);
    })
    .await;
    engine.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn ex_70_a_count_reads_each_execution_once_and_says_when_its_time_was_over() {
    let bench = Bench::with(&Memory, 8, Filter::NONE).await;
    for _ in 0..50 {
        bench.client.submit(Submission::new("mail")).await.unwrap();
    }
    bench.probe.asked();
    let counted = bench.client.count_within(&ListFilter::default(), GroupBy::ALL, 1_000).await.unwrap();
    assert_eq!((counted.counts.values().sum::<u64>(), counted.at_least), (50, false));
    let asked = bench.probe.asked();
    let walks: Vec<_> = asked.iter().filter(|asked| asked.is_of(IndexId::ByCreated)).collect();
    assert!(walks.iter().all(|walk| matches!(walk, Asked::Scan(Some(_), _))), "no page is merged: {walks:?}");
    assert_eq!(walks.len(), 8);
    let counted = bench.client.count_within(&ListFilter::default(), GroupBy::ALL, 0).await.unwrap();
    assert_eq!((counted.counts.len(), counted.at_least), (0, true));
}

#[tokio::test(start_paused = true)]
async fn ex_70_a_count_loads_only_the_parts_that_its_groups_need() {
    let bench = Bench::with(&Memory, 4, Filter::NONE).await;
    for n in 0..20 {
        let id = bench.client.submit(Submission::new("mail")).await.unwrap().id;
        if n % 4 == 0 {
            bench.client.hold(Holding::new(id, "look")).await.unwrap();
        }
    }
    let by_state = GroupBy { state: true, ..GroupBy::default() };
    let in_state = |state| ListFilter { states: vec![state], ..ListFilter::default() };
    let tagged = ListFilter { tag: Some(("a".into(), "b".into())), ..ListFilter::default() };
    let hot = Some(PartMask::of(schema::HOT));
    let whole = hot.map(|hot| hot.with(PartMask::of(schema::SPEC)).with(PartMask::of(schema::MEMBER)));
    let with_tags = whole.map(|whole| whole.with(PartMask::of(schema::TAGS)));
    let rows = [
        (ListFilter::default(), GroupBy::default(), IndexId::ByCreated, None, 20),
        (in_state(PublicState::Held), by_state, IndexId::ByState, None, 5),
        (ListFilter::default(), by_state, IndexId::ByCreated, hot, 20),
        (in_state(PublicState::Waiting), GroupBy::default(), IndexId::ByCreated, hot, 15),
        (ListFilter::default(), GroupBy::ALL, IndexId::ByCreated, whole, 20),
        (tagged, GroupBy::default(), IndexId::ByCreated, with_tags, 0),
    ];
    for (filter, by, index, parts, total) in rows {
        bench.probe.asked();
        let counted = bench.client.count_within(&filter, by, 1_000).await.unwrap();
        assert_eq!((counted.counts.values().sum::<u64>(), counted.at_least), (total, false), "{filter:?} {by:?}");
        let asked = bench.probe.asked();
        // The first walk of a partition is the one that counts; another looks for members that nobody sees yet.
        let first = asked.iter().find_map(|asked| match asked {
            Asked::Scan(Some(_), scan) if asked.is_of(index) => Some(scan.parts),
            _ => None,
        });
        assert_eq!(first, Some(parts), "{filter:?} {by:?}");
    }
    let counted = bench.client.count_within(&ListFilter::default(), by_state, 1_000).await.unwrap();
    let states: Vec<_> = counted.counts.into_iter().map(|((.., state), count)| (state, count)).collect();
    assert_eq!(states, [(Some(PublicState::Waiting), 15), (Some(PublicState::Held), 5)]);
}

#[tokio::test(start_paused = true)]
async fn ex_70_a_count_at_its_end_when_its_time_is_over_is_exact() {
    let bench = Bench::with(&Memory, 8, Filter::NONE).await;
    bench.client.submit(Submission::new("mail")).await.unwrap();
    let failed = ListFilter { states: vec![PublicState::Failed], ..ListFilter::default() };
    for by in [GroupBy::default(), GroupBy::ALL] {
        let counted = bench.client.count_within(&failed, by, 0).await.unwrap();
        assert_eq!((counted.counts.len(), counted.at_least), (0, false), "there is none to count: {by:?}");
        let counted = bench.client.count_within(&ListFilter::default(), by, 0).await.unwrap();
        assert_eq!((counted.counts.len(), counted.at_least), (0, true), "one is not counted: {by:?}");
    }
}

/// All entries of a history, read in one page and in pages of one.
async fn told(client: &Client, id: ExecutionId) -> Vec<String> {
    let whole = client.history(id, None, 1_000).await.unwrap();
    let (mut pages, mut place) = (Vec::new(), None);
    loop {
        let page = client.history(id, place, 1).await.unwrap();
        pages.extend(page.entries);
        match page.next {
            Some(next) => place = Some(next.to_string().parse().unwrap()),
            None => break,
        }
    }
    assert_eq!(pages, whole.entries, "page by page it is the same");
    whole.entries.iter().map(|entry| entry.what.to_string()).collect()
}

#[tokio::test]
async fn ex_69_history_is_in_the_order_of_commits_within_one_millisecond() {
    // The node's own clock goes on in real time otherwise.
    tokio::time::pause();
    let memory = MemoryStore::new(1, Arc::new(|| Time::from_ms(1_000_000)));
    let engine = Engine::open(memory, Default::default()).await.unwrap();
    let times = history_of_a_full_life(&engine).await;
    tokio::time::resume();
    assert_eq!(times.len(), 1, "all at one time");
    // SQLite has the clock of the machine: among many some fall into one millisecond.
    let sqlite = OnSqlite::new();
    let engine = Engine::open(sqlite.open().await, Default::default()).await.unwrap();
    for _ in 0..20 {
        history_of_a_full_life(&engine).await;
    }
}

/// Leads an execution through every kind of entry, and answers all times of its history.
async fn history_of_a_full_life(engine: &Engine) -> BTreeSet<Time> {
    let client = engine.client("shop").unwrap();
    let id = client.submit(Submission::new("mail")).await.unwrap().id;
    client.change_priority(Prioritising::new(id, 7)).await.unwrap();
    let claim = async || client.claim(worker()).await.unwrap().executions.remove(0);
    claim().await;
    client.hold(Holding::new(id, "look")).await.unwrap();
    client.revoke(Revoking::new(id, "mine")).await.unwrap();
    client.release(id).await.unwrap();
    claim().await;
    client.cancel(Cancellation::new(id, "enough").graceful(60_000)).await.unwrap();
    client.cancel(Cancellation::new(id, "now")).await.unwrap();
    client.replay(Replaying::new(id, "again")).await.unwrap();
    let work = claim().await;
    client.complete(Completion::of(&work)).await.unwrap();
    client.set_tags(Tagging::new(id).set("seen", "yes")).await.unwrap();
    let what = told(&client, id).await;
    let expected = "submitted change_priority claimed hold revoke revoked release claimed cancel cancel cancelled replay \
                    claimed completed success set_tags";
    assert_eq!(what.join(" "), expected);
    client.history(id, None, 1_000).await.unwrap().entries.iter().map(|entry| entry.at).collect()
}

#[tokio::test(start_paused = true)]
async fn ex_69_history_tells_the_whole_life_in_order() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    kit.client.fail(Failing::of(&work).category("smtp").message("421").after_ms(100)).await.unwrap();
    let work = kit.client.claim(worker().wait_ms(1_000)).await.unwrap().executions.remove(0);
    kit.client.cancel(Cancellation::new(id, "enough")).await.unwrap();
    kit.client.replay(Replaying::new(id, "try once more")).await.unwrap();
    let last = kit.claim().await;
    kit.client.complete(Completion::of(&last)).await.unwrap();
    assert_ne!(work.epoch, last.epoch);
    let history = kit.client.history(id, None, 1_000).await.unwrap();
    let what: Vec<&str> = history.entries.iter().map(|entry| entry.what.as_ref()).collect();
    assert_eq!((history.dropped, history.next), (0, None));
    assert_eq!(what.first(), Some(&"submitted"));
    assert_eq!(what.last(), Some(&"success"));
    for word in ["claimed", "failed", "cancelled", "cancel", "replay", "completed"] {
        assert!(what.contains(&word), "{word} is in {what:?}");
    }
    assert_eq!(told(&kit.client, id).await, what);
    let attempts = kit.client.attempts(id, AttemptFilter::default()).await.unwrap().attempts;
    assert_eq!(attempts.iter().map(|attempt| attempt.index).collect::<Vec<_>>(), [0, 1, 2]);
}

#[tokio::test(start_paused = true)]
async fn ex_68_after_a_replay_the_old_result_is_not_shown() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    kit.client.complete(Completion::of(&work).result(&b"old"[..])).await.unwrap();
    kit.client.replay(Replaying::new(id, "again")).await.unwrap();
    assert_eq!(kit.client.result(id, 0).await.unwrap_err().code(), "execution_not_terminal");
    let work = kit.claim().await;
    kit.client.complete(Completion::of(&work)).await.unwrap();
    assert_eq!(kit.client.result(id, 0).await.unwrap().bytes, None, "EX-42");
}

#[tokio::test(start_paused = true)]
async fn ex_72_explain_names_every_reason() {
    let kit = open().await;
    let id = kit.submit(Submission::new("train").needs("gpu").needs("a100")).await;
    let codes = |explanation: &weft_engine::Explanation| -> Vec<&'static str> {
        explanation.reasons.iter().map(Obstacle::code).collect()
    };
    assert_eq!(codes(&kit.client.explain(id).await.unwrap()), ["no_worker"]);
    kit.client.claim(worker().offers("gpu")).await.unwrap();
    let explanation = kit.client.explain(id).await.unwrap();
    let Obstacle::NoWorker(why) = &explanation.reasons[0] else { panic!("{explanation:?}") };
    assert!(format!("{why:?}").contains("a100"));
    kit.client.hold(Holding::new(id, "budget talk")).await.unwrap();
    let both = ["operator_hold", "no_worker"];
    assert_eq!(codes(&kit.client.explain(id).await.unwrap()), both, "each keeps it from running");
    kit.client.release(id).await.unwrap();
    let work = kit.client.claim(worker().offers("gpu").offers("a100")).await.unwrap().executions.remove(0);
    let explanation = kit.client.explain(id).await.unwrap();
    assert!(explanation.running);
    assert_eq!(codes(&explanation), ["running"]);
    kit.client.complete(Completion::of(&work)).await.unwrap();
    assert_eq!(codes(&kit.client.explain(id).await.unwrap()), ["done"]);
    kit.submit(Submission::new("mail")).await;
    pass(5).await;
    let second = kit.submit(Submission::new("mail")).await;
    assert_eq!(codes(&kit.client.explain(second).await.unwrap()), ["behind"]);
}

#[tokio::test(start_paused = true)]
async fn ex_72_a_retry_is_explained_with_its_number_its_failure_and_the_workers_that_match() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    kit.client.fail(Failing::of(&work).category("smtp").message("421 try later").after_ms(60_000)).await.unwrap();
    let explanation = kit.client.explain(id).await.unwrap();
    let [Obstacle::NotBefore { retry: Some(retry), workers, .. }] = &explanation.reasons[..] else {
        panic!("{explanation:?}")
    };
    assert_eq!((retry.number, retry.max, *workers), (1, 3, 1));
    assert_eq!(retry.failure, Some(("smtp".into(), "421 try later".into())));
}

#[tokio::test(start_paused = true)]
async fn ex_69_one_attempt_is_read_by_its_number() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    kit.client.fail(Failing::of(&work).detail(&b"trace"[..]).after_ms(0)).await.unwrap();
    kit.client.claim(worker().wait_ms(1_000)).await.unwrap();
    let (failed, _) = kit.client.attempt(id, 0).await.unwrap();
    assert_eq!(failed.detail().map(|bytes| bytes.as_ref()), Some(&b"trace"[..]));
    let (open, _) = kit.client.attempt(id, 1).await.unwrap();
    assert_eq!((open.state.name(), open.result()), ("running", None));
    assert_eq!(kit.client.attempt(id, 2).await.unwrap_err().code(), "not_found");
}

#[tokio::test(start_paused = true)]
async fn ex_69_a_caller_waits_for_a_state_or_the_end() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let began = tokio::time::Instant::now();
    let view = kit.client.wait(id, None, 500).await.unwrap();
    assert_eq!((view.public_state, began.elapsed().as_millis()), (PublicState::Waiting, 500), "the time was up");
    let at_once = kit.client.wait(id, Some(PublicState::Waiting), 60_000).await.unwrap();
    assert_eq!((at_once.public_state, began.elapsed().as_millis()), (PublicState::Waiting, 500));

    let client = kit.client.clone();
    let waiting = tokio::spawn(async move { client.wait(id, Some(PublicState::Active), 60_000).await.unwrap() });
    linger(300).await;
    let work = kit.claim().await;
    assert_eq!(waiting.await.unwrap().public_state, PublicState::Active);
    assert_eq!(began.elapsed().as_millis(), 800, "it was told, and did not come to look");

    let client = kit.client.clone();
    let waiting = tokio::spawn(async move { client.wait(id, Some(PublicState::Held), 60_000).await.unwrap() });
    linger(10).await;
    kit.client.complete(Completion::of(&work)).await.unwrap();
    assert_eq!(waiting.await.unwrap().public_state, PublicState::Completed, "it will never be held");
    assert_eq!(kit.client.wait(id, None, 60_001).await.unwrap_err().code(), "invalid_argument");
}

#[tokio::test(start_paused = true)]
async fn ex_70_a_long_walk_shows_each_unchanged_one_once_while_others_come_and_go() {
    const COUNT: usize = 100_000;
    let kit = open_with(4, Default::default()).await;
    let mut unchanged = BTreeSet::new();
    let mut changing = Vec::new();
    while unchanged.len() + changing.len() < COUNT {
        pass(1).await;
        for submitted in kit.client.submit_batch(vec![Submission::new("mail").delay_ms(3_600_000); 1_000]).await {
            let id = submitted.unwrap().value.id;
            match (unchanged.len() + changing.len()).is_multiple_of(100) {
                true => changing.push(id),
                false => drop(unchanged.insert(id)),
            }
        }
    }
    let (mut seen, mut cursor) = (BTreeSet::new(), None);
    loop {
        let page = kit.client.list(ListFilter { limit: Some(1_000), cursor, ..ListFilter::default() }).await.unwrap();
        for execution in &page.executions {
            let again = !seen.insert(execution.id);
            assert!(!again || !unchanged.contains(&execution.id), "{} came twice", execution.id);
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
        kit.submit(Submission::new("late")).await;
        for id in changing.split_off(changing.len().saturating_sub(10)) {
            kit.client.cancel(Cancellation::new(id, "meanwhile")).await.unwrap();
        }
    }
    assert!(unchanged.is_subset(&seen), "{} are missing", unchanged.difference(&seen).count());
}

#[tokio::test(start_paused = true)]
async fn ex_70_a_list_is_narrowed_by_the_time_of_the_end() {
    let kit = open().await;
    let mut ends = Vec::new();
    for _ in 0..3 {
        kit.submit(Submission::new("mail")).await;
        let work = kit.claim().await;
        kit.client.complete(Completion::of(&work)).await.unwrap();
        ends.push((work.id, kit.client.result(work.id, 0).await.unwrap().at));
        pass(100).await;
    }
    kit.submit(Submission::new("open")).await;
    let list = |from, until| {
        let filter = ListFilter { finished_from: from, finished_until: until, ascending: true, ..Default::default() };
        let client = kit.client.clone();
        async move { client.list(filter).await.unwrap().executions.into_iter().map(|one| one.id).collect::<Vec<_>>() }
    };
    assert_eq!(list(Some(ends[1].1), None).await, [ends[1].0, ends[2].0]);
    assert_eq!(list(None, Some(ends[1].1)).await, [ends[0].0, ends[1].0]);
    assert_eq!(list(Some(ends[1].1), Some(ends[1].1)).await, [ends[1].0]);
}

#[tokio::test(start_paused = true)]
async fn ex_70_children_are_listed_page_by_page() {
    let kit = open_with(4, Default::default()).await;
    let parent = kit.submit(Submission::new("parent")).await;
    let work = kit.claim().await;
    let mut children = Vec::new();
    for _ in 0..7 {
        children.push(kit.submit(Submission::new("child").child_of(&work)).await);
        pass(1).await;
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let page = kit.client.children(parent, cursor, 3).await.unwrap();
        seen.extend(page.children.iter().map(|child| child.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, children);
    let stranger = kit.engine.client("other").unwrap();
    assert_eq!(stranger.children(parent, None, 3).await.unwrap_err().code(), "execution_not_found");
}

#[tokio::test(start_paused = true)]
async fn ex_70_attempts_are_listed_with_the_one_that_runs() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    kit.claim().await;
    let attempts = kit.client.attempts(id, AttemptFilter::default()).await.unwrap().attempts;
    assert_eq!(attempts.len(), 1);
    assert_eq!((attempts[0].result(), attempts[0].detail()), (None, None), "it has none yet");
}

#[tokio::test(start_paused = true)]
async fn ex_70_attempts_come_in_pages_of_bounded_size() {
    let kit = open().await;
    let policy = Policy { retry: Retry { max_retries: 9, ..Retry::default() }, ..Policy::default() };
    let id = kit.submit(Submission::new("mail").policy(policy)).await;
    for round in 0..6 {
        let work = kit.client.claim(worker().wait_ms(1_000)).await.unwrap().executions.remove(0);
        let detail = vec![round; 64 << 10];
        kit.client.fail(Failing::of(&work).detail(detail).after_ms(0)).await.unwrap();
    }
    let page = |from, limit, payloads| kit.client.attempts(id, AttemptFilter { from, limit, payloads });
    let first = page(0, 4, false).await.unwrap();
    assert_eq!((first.attempts.len(), first.next), (4, Some(4)));
    let rest = page(4, 4, true).await.unwrap();
    assert_eq!((rest.attempts.len(), rest.next), (2, None));
    assert_eq!(rest.attempts[1].detail().map(|detail| (detail[0], detail.len())), Some((5, 64 << 10)));
    let listed = kit.client.list(ListFilter::default()).await.unwrap();
    assert_eq!(listed.failures[0].as_ref().map(|failure| &*failure.category), Some("application"));
}

#[tokio::test(start_paused = true)]
async fn ex_61_what_an_operator_says_of_an_execution_that_never_ran_is_kept() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    kit.client.force_fail(ForceFailing::new(id, "no such order", "cleaning up")).await.unwrap();
    let failure = kit.client.get(id).await.unwrap().last_failure.unwrap();
    assert_eq!((&*failure.category, &*failure.message), ("operator", "no such order"));
    // The same of one that ran and waits to run again: its own failure is not the last word.
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    kit.client.fail(Failing::of(&work).category("smtp").message("421")).await.unwrap();
    kit.client.force_fail(ForceFailing::new(id, "given up", "")).await.unwrap();
    assert_eq!(&*kit.client.get(id).await.unwrap().last_failure.unwrap().message, "given up");
}

#[tokio::test(start_paused = true)]
async fn ex_72_others_come_first_wherever_they_are_if_the_same_worker_takes_them() {
    let kit = open_with(4, Default::default()).await;
    kit.client.claim(worker().kind("mail").kind("sms")).await.unwrap();
    for n in 0..20 {
        kit.submit(Submission::new("sms").idempotency_key(format!("k{n}"))).await;
        kit.submit(Submission::new("fax").idempotency_key(format!("f{n}"))).await;
    }
    pass(5).await;
    let id = kit.submit(Submission::new("mail")).await;
    let explanation = kit.client.explain(id).await.unwrap();
    assert_eq!(explanation.reasons, [Obstacle::Behind { count: 20, exact: true }], "a fax is for nobody here");
}

#[tokio::test(start_paused = true)]
async fn ex_72_an_end_is_explained_with_its_failure() {
    let kit = open().await;
    let id = kit.submit(Submission::new("mail")).await;
    let work = kit.claim().await;
    kit.client.fail(Failing::of(&work).category("smtp").message("550 no such user").never()).await.unwrap();
    let explanation = kit.client.explain(id).await.unwrap();
    let [Obstacle::Done { failure, .. }] = &explanation.reasons[..] else { panic!("{explanation:?}") };
    assert_eq!(*failure, Some(("smtp".into(), "550 no such user".into())));
}

#[tokio::test(start_paused = true)]
async fn ex_72_children_that_are_waited_for_are_named() {
    let kit = open().await;
    let id = kit.submit(Submission::new("report")).await;
    let work = kit.claim().await;
    let mut children = Vec::new();
    for _ in 0..3 {
        children.push(kit.submit(Submission::new("page").lane("pages").child_of(&work)).await);
    }
    kit.client.wait_children(Waiting::of(&work)).await.unwrap();
    let page = kit.client.claim(worker().lane("pages")).await.unwrap().executions.remove(0);
    kit.client.complete(Completion::of(&page)).await.unwrap();
    let explanation = kit.client.explain(id).await.unwrap();
    let Obstacle::Children { total, waiting, unfinished, needed, met, .. } = &explanation.reasons[0] else {
        panic!("{explanation:?}")
    };
    assert_eq!((*total, *waiting, *needed, *met), (3, 2, 3, 1));
    children.retain(|child| *child != page.id);
    assert_eq!(BTreeSet::from_iter(unfinished), BTreeSet::from_iter(&children));
}

#[tokio::test(start_paused = true)]
async fn api_11_times_beyond_all_times_are_bounds_like_others() {
    let kit = open().await;
    kit.submit(Submission::new("mail")).await;
    let filter = ListFilter { created_until: Some(weft_core::Time::from_ms(u64::MAX)), ..Default::default() };
    assert_eq!(kit.client.list(filter).await.unwrap().executions.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ex_47_only_the_holder_reads_how_its_children_ended_and_as_many_as_fit() {
    let kit = open().await;
    let parent = kit.submit(Submission::new("parent")).await;
    let held = kit.claim().await;
    let fence = Fence { lease: held.lease, epoch: held.epoch };
    let mut children = Vec::new();
    for _ in 0..7 {
        children.push(kit.submit(Submission::new("child").child_of(&held)).await);
    }
    let other = kit.submit(Submission::new("nobody's")).await;
    for work in kit.client.claim(worker().kind("child").max(6)).await.unwrap().executions {
        kit.client.complete(Completion::of(&work).result(vec![b'x'; 1 << 20])).await.unwrap();
    }
    let mut read = Vec::new();
    while read.len() < children.len() {
        let page = kit.client.held_children(parent, fence, &children[read.len()..]).await.unwrap();
        let results = page.iter().filter(|child| child.result.is_some()).count();
        assert!(!page.is_empty() && results <= 4, "no more than 4 MiB: {results}");
        read.extend(page);
    }
    assert_eq!(read.iter().map(|child| child.id).collect::<Vec<_>>(), children, "in the order asked");
    let ended = read.iter().filter(|child| child.outcome == Some(Outcome::Success) && child.result.is_some()).count();
    assert_eq!((ended, read.iter().filter(|child| child.outcome.is_none()).count()), (6, 1));

    let refused = async |fence, ids: &[ExecutionId]| {
        kit.client.held_children(parent, fence, ids).await.unwrap_err().code().to_string()
    };
    assert_eq!(refused(fence, &[other]).await, "not_a_child");
    assert_eq!(refused(fence, &[]).await, "invalid_argument");
    kit.client.delay(Delaying::of(&held)).await.unwrap();
    kit.client.claim(worker().kind("parent")).await.unwrap();
    assert_eq!(refused(fence, &children).await, "stale_lease");
}
