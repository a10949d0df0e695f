use crate::command::*;
use crate::filter::Filter;
use crate::id::{BulkId, ExecutionId, PartitionId};
use crate::kit::calls::{ann, call, fence, force_fail};
use crate::kit::{PARTITION, World};
use crate::limits::{BULK_KEEP_MS, BULK_PER_COMMIT, BULK_RECORDS_PER_COMMIT, REASON_MAX};
use crate::record::bulk_job::{Body, Counts, Job, Place, Share, Stage, Standing, Verb};
use crate::record::execution::PublicState;
use crate::record::{BulkJob, Key, Record};
use crate::reply::{Expired, Reply};
use crate::schema::Timer;
use crate::time::Time;
use crate::{Rejection, text::Text};

const DONE: Result<Reply, Rejection> = Ok(Reply::Noted);
const MORE: Result<Reply, Rejection> = Ok(Reply::Expired(Expired::More));

fn cancel() -> Verb {
    Verb::Cancel { reason: "over".into(), mode: CancelMode::Immediate, cascade: true }
}

fn of_state(state: PublicState) -> Filter {
    Filter { states: vec![state], ..Filter::default() }
}

fn starting(world: &mut World, filter: Filter, verb: Verb) -> StartBulk {
    let id = Some(BulkId::new(PARTITION, world.fresh()));
    StartBulk { id, partitions: PARTITION.0 + 1, filter, verb, dry_run: false, max: None }
}

fn submit(world: &mut World, count: usize) {
    for _ in 0..count {
        world.submit(|_| {});
    }
}

/// The job and its share in the one partition that the test has.
struct Bulk {
    id: BulkId,
}

impl Bulk {
    fn begin(world: &mut World, start: StartBulk) -> Self {
        let id = start.id.expect("an id");
        let left = start.max;
        assert_eq!(world.run(Command::StartBulk(Box::new(start))), Ok(Reply::BulkStarted(id)));
        let bulk = Self { id };
        assert_eq!(bulk.share_out(world, left, false, world.now), DONE);
        bulk
    }

    fn share_out(&self, world: &mut World, left: Option<u64>, stop: bool, told_at: Time) -> Result<Reply, Rejection> {
        let definition = self.job(world).definition;
        let share = ShareBulk { partition: PARTITION, job: self.id, definition, left, stop, told_at };
        engine(world, Command::ShareBulk(Box::new(share)))
    }

    fn job(&self, world: &World) -> Job {
        match world.record(BulkJob::key_of(self.id)) {
            Some(Record::BulkJob(record)) => match record.body {
                Body::Job(job) => job,
                Body::Share(_) => panic!("it is a job"),
            },
            _ => panic!("the job is there"),
        }
    }

    fn share(&self, world: &World) -> Share {
        match world.record(BulkJob::key_of_share(self.id, PARTITION)) {
            Some(Record::BulkJob(record)) => match record.body {
                Body::Share(share) => share,
                Body::Job(_) => panic!("it is a share"),
            },
            _ => panic!("the share is there"),
        }
    }

    fn advance(&self, world: &mut World, progress: BulkProgress) -> Result<Reply, Rejection> {
        let due = self.share(world).since;
        let key = Some(BulkJob::key_of_share(self.id, PARTITION));
        engine(world, Command::AdvanceBulk(AdvanceBulk { key, due, progress }))
    }

    /// The page that an engine which judges nothing would find.
    fn page(&self, world: &World, max: usize) -> BulkProgress {
        let share = self.share(world);
        let place = |id: ExecutionId, at| Place { at, uuid: id.uuid() };
        let mut all: Vec<Place> = world.executions().map(|it| place(it.id, it.hot.created_at.ms())).collect();
        all.sort();
        all.retain(|place| share.after.is_none_or(|after| *place > after) && place.at <= share.created_at.ms());
        let more = all.len() > max;
        all.truncate(max);
        BulkProgress::Page { after: share.after, through: all.last().copied(), found: all, more }
    }

    fn walk(&self, world: &mut World) -> Counts {
        while self.share(world).stage == Stage::Walking {
            let page = self.page(world, BULK_PER_COMMIT);
            assert_eq!(self.advance(world, page), MORE);
        }
        self.share(world).counts
    }
}

fn engine(world: &mut World, command: Command) -> Result<Reply, Rejection> {
    world.call(&Call { principal: Principal::engine(), ..call(command) })
}

fn counts(matched: u64, done: u64, refused: &[(&str, u64)]) -> Counts {
    let refused = refused.iter().map(|(code, count)| (Text::from(*code), *count)).collect();
    Counts { matched, done, refused, unreadable: 0 }
}

#[test]
fn api_40_the_filter_is_judged_on_the_record_as_it_is_when_it_is_met() {
    let mut world = World::new();
    let ids: Vec<_> = (0..4).map(|_| world.submit(|_| {})).collect();
    let other = world.submit(|cmd| cmd.lane = "other".into());
    let filter = Filter { lane: Some("mail".into()), ..of_state(PublicState::Waiting) };
    let start = starting(&mut world, filter, cancel());
    let bulk = Bulk::begin(&mut world, start);
    let page = bulk.page(&world, BULK_PER_COMMIT);
    // Between the look and the commit one is taken and one is gone.
    world.claim(ids[1]);
    world.run(force_fail(ids[2])).unwrap();
    world.run(Command::Purge(Purge { id: ids[2], reason: "".into() })).unwrap();
    assert_eq!(bulk.advance(&mut world, page), MORE);
    assert_eq!(bulk.share(&world).counts, counts(2, 2, &[]));
    let states = [ids[0], ids[1], ids[3], other].map(|id| world.execution(id).public_state().name());
    assert_eq!(states, ["cancelled", "active", "cancelled", "waiting"]);
}

#[test]
fn api_40_refusals_are_counted_by_their_code_and_leave_nothing_behind() {
    let mut world = World::new();
    let [ready, ended, active] = [(), (), ()].map(|()| world.submit(|_| {}));
    world.run(force_fail(ended)).unwrap();
    let held = fence(&world.claim(active));
    let before = world.execution(ended);
    let start = starting(&mut world, Filter::default(), Verb::Revoke { reason: "away".into(), hold: false });
    let bulk = Bulk::begin(&mut world, start);
    let expected = counts(3, 1, &[("execution_not_active", 1), ("execution_terminal", 1)]);
    assert_eq!(bulk.walk(&mut world), expected);
    assert_eq!(world.execution(ended), before);
    assert_eq!(world.execution(ready).public_state(), PublicState::Waiting);
    assert_eq!(world.run(crate::kit::calls::renew(active, held)).unwrap_err().code(), "lease_revoked");
}

#[test]
fn api_40_the_verb_is_done_in_the_name_of_the_caller() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let start = starting(&mut world, Filter::default(), Verb::Hold { reason: "look".into(), revoke: false });
    let bulk = Bulk::begin(&mut world, start);
    bulk.walk(&mut world);
    let action = world.execution(id).actions().kept.iter().last().cloned().expect("it is in the history");
    assert_eq!((&*action.verb, &action.by, &*action.reason), ("hold", &ann().name, "look"));
}

#[test]
fn api_40_another_namespace_is_out_of_reach() {
    let mut world = World::new();
    let id = world.submit(|_| {});
    let start = starting(&mut world, Filter::default(), cancel());
    let job = start.id.expect("an id");
    let stranger = Principal::all("other", "eve");
    let command = Command::StartBulk(Box::new(start));
    world.call(&Call { principal: stranger.clone(), ..call(command) }).unwrap();
    let bulk = Bulk { id: job };
    bulk.share_out(&mut world, None, false, Time::ZERO).unwrap();
    assert_eq!(bulk.walk(&mut world), Counts::default());
    assert_eq!(world.execution(id).public_state(), PublicState::Waiting);
    assert_eq!(world.run(Command::StopBulk(StopBulk { id: job })), Err(Rejection::BulkNotFound));
}

#[test]
fn api_40_whoever_may_not_call_a_verb_may_not_call_it_in_bulk() {
    let mut world = World::new();
    let reschedule = Verb::Reschedule { start: When::InMs(5), reason: "".into() };
    let too_long = Verb::Hold { reason: "r".repeat(REASON_MAX + 1).into(), revoke: false };
    let cases = [
        (Scopes::SUBMIT, cancel(), None, "forbidden"),
        (Scopes::OPERATE, reschedule, None, "forbidden"),
        (Scopes::ALL, too_long, None, "payload_too_large"),
        (Scopes::ALL, cancel(), Some(0), "invalid_argument"),
    ];
    for (scopes, verb, max, code) in cases {
        let start = StartBulk { max, ..starting(&mut world, Filter::default(), verb) };
        let principal = Principal { scopes, ..ann() };
        let refused = world.call(&Call { principal, ..call(Command::StartBulk(Box::new(start))) });
        assert_eq!(refused.unwrap_err().code(), code);
    }
    assert!(world.is_swept());
}

#[test]
fn api_40_a_dry_run_counts_what_would_be_done_and_changes_nothing() {
    let mut world = World::new();
    let ids: Vec<_> = (0..5).map(|_| world.submit(|_| {})).collect();
    world.run(force_fail(ids[0])).unwrap();
    let start = StartBulk { dry_run: true, ..starting(&mut world, Filter::default(), cancel()) };
    let bulk = Bulk::begin(&mut world, start);
    let (before, facts): (Vec<_>, _) = (world.executions().collect(), world.facts().len());
    assert_eq!(bulk.walk(&mut world), counts(5, 4, &[("execution_terminal", 1)]));
    assert_eq!(world.executions().collect::<Vec<_>>(), before);
    assert_eq!(world.facts().len(), facts, "nothing is told either");
}

#[test]
fn api_40_a_page_that_was_found_for_another_place_is_not_walked() {
    let mut world = World::new();
    submit(&mut world, 3);
    let start = starting(&mut world, Filter::default(), Verb::Purge { reason: "".into() });
    let bulk = Bulk::begin(&mut world, start);
    let page = bulk.page(&world, 2);
    assert_eq!(bulk.advance(&mut world, page.clone()), MORE);
    let share = bulk.share(&world);
    assert_eq!(share.counts, counts(2, 0, &[("execution_not_terminal", 2)]));
    assert_eq!(bulk.advance(&mut world, page), MORE, "another node was slower");
    assert_eq!(bulk.share(&world), share);
    assert_eq!(bulk.walk(&mut world).matched, 3);
}

#[test]
fn api_40_one_commit_does_a_bounded_part() {
    let mut world = World::new();
    let count = BULK_PER_COMMIT + 50;
    submit(&mut world, count);
    let start = starting(&mut world, Filter::default(), cancel());
    let bulk = Bulk::begin(&mut world, start);
    let page = bulk.page(&world, count);
    assert_eq!(bulk.advance(&mut world, page), MORE);
    assert_eq!(bulk.share(&world).counts.done, BULK_PER_COMMIT as u64, "though the page had more");
    assert!(world.touched.len() <= BULK_RECORDS_PER_COMMIT);
    assert_eq!(bulk.walk(&mut world), counts(count as u64, count as u64, &[]));
}

#[test]
fn api_40_many_records_per_execution_make_a_commit_shorter() {
    let mut world = World::new();
    for _ in 0..80 {
        let id = world.submit(|_| {});
        for _ in 0..16 {
            world.claim(id);
            let revoke = Revoke { id, expected_epoch: None, reason: "again".into(), hold: false };
            world.run(Command::Revoke(revoke)).unwrap();
        }
        world.run(force_fail(id)).unwrap();
    }
    let start = starting(&mut world, Filter::default(), Verb::Purge { reason: "".into() });
    let bulk = Bulk::begin(&mut world, start);
    let page = bulk.page(&world, BULK_PER_COMMIT);
    assert_eq!(bulk.advance(&mut world, page), MORE);
    let done = bulk.share(&world).counts.done;
    assert!((1..80).contains(&done), "{done} of 80");
    assert!(world.touched.len() <= BULK_RECORDS_PER_COMMIT + 20, "{}", world.touched.len());
    assert_eq!(bulk.walk(&mut world), counts(80, 80, &[]));
    assert_eq!(world.executions().count(), 0);
}

#[test]
fn api_40_a_maximum_is_exact_and_counts_what_was_done() {
    let mut world = World::new();
    let ids: Vec<_> = (0..6).map(|_| world.submit(|_| {})).collect();
    world.run(force_fail(ids[1])).unwrap();
    let start = StartBulk { max: Some(3), ..starting(&mut world, Filter::default(), cancel()) };
    let bulk = Bulk::begin(&mut world, start);
    assert_eq!(bulk.job(&world).shares[1..], [Standing::Ahead; PARTITION.0 as usize], "one after the other");
    assert_eq!(bulk.walk(&mut world), counts(4, 3, &[("execution_terminal", 1)]));
    let open = world.executions().filter(|execution| !execution.is_done()).count();
    assert_eq!(open, 2);
}

#[test]
fn api_40_with_a_maximum_the_next_partition_gets_what_is_left() {
    let mut world = World::new();
    let start = StartBulk { max: Some(10), ..starting(&mut world, Filter::default(), cancel()) };
    let bulk = Bulk::begin(&mut world, start);
    let report = |partition, done| {
        let counts = counts(done, done, &[]);
        Command::ReportBulk(ReportBulk { job: bulk.id, partition: PartitionId(partition), counts })
    };
    assert_eq!(engine(&mut world, report(0, 4)), DONE);
    assert_eq!(engine(&mut world, report(0, 4)), DONE, "a second report counts for nothing");
    let job = bulk.job(&world);
    assert_eq!((job.counts.done, job.left(), job.owed().collect::<Vec<_>>()), (4, Some(6), vec![PartitionId(1)]));
    assert_eq!(engine(&mut world, report(1, 6)), DONE);
    let job = bulk.job(&world);
    assert_eq!((job.counts.done, job.ended_at), (10, Some(world.now)), "nobody else is asked");
}

#[test]
fn api_40_a_stop_ends_the_walk_and_a_start_that_comes_after_it_begins_nothing() {
    let mut world = World::new();
    submit(&mut world, 4);
    let start = starting(&mut world, Filter::default(), cancel());
    let bulk = Bulk::begin(&mut world, start);
    let page = bulk.page(&world, 1);
    bulk.advance(&mut world, page).unwrap();
    let stop = || Command::StopBulk(StopBulk { id: bulk.id });
    assert_eq!(world.run(stop()), DONE);
    assert_eq!(world.run(stop()), DONE, "a second stop is harmless");
    let page = bulk.page(&world, 10);
    assert_eq!(bulk.share_out(&mut world, None, true, Time::ZERO), DONE);
    assert_eq!(bulk.advance(&mut world, page), MORE);
    assert_eq!((bulk.share(&world).stage, bulk.share(&world).counts.done), (Stage::Reporting, 1));

    let other = starting(&mut world, Filter::default(), cancel());
    let id = other.id.expect("an id");
    world.run(Command::StartBulk(Box::new(other))).unwrap();
    world.run(Command::StopBulk(StopBulk { id })).unwrap();
    let late = Bulk { id };
    assert_eq!(late.share_out(&mut world, None, true, Time::ZERO), DONE);
    assert_eq!(late.share_out(&mut world, None, false, Time::ZERO), DONE, "sent before the stop, by another node");
    assert_eq!(late.share(&world).stage, Stage::Reporting);
}

#[test]
fn api_40_who_was_told_of_the_start_is_told_of_the_stop() {
    let mut world = World::new();
    let start = starting(&mut world, Filter::default(), cancel());
    let bulk = Bulk::begin(&mut world, start);
    let all: Vec<u16> = (0..=PARTITION.0).collect();
    let told = |world: &mut World, stopped| {
        let due = bulk.job(world).owed_since;
        let progress = BulkProgress::Told { partitions: all.clone(), stopped };
        engine(world, Command::AdvanceBulk(AdvanceBulk { key: Some(BulkJob::key_of(bulk.id)), due, progress }))
    };
    world.at(5).run(Command::StopBulk(StopBulk { id: bulk.id })).unwrap();
    assert_eq!(told(&mut world, false), MORE);
    assert_eq!(bulk.job(&world).owed().count(), all.len(), "what was sent before the stop told nobody of it");
    assert_eq!(told(&mut world, true), MORE);
    assert_eq!(bulk.job(&world).shares, [Standing::Told; PARTITION.0 as usize + 1]);
    assert!(world.due.iter().all(|entry| entry.key != BulkJob::key_of(bulk.id).to_bytes().as_slice()));
}

#[test]
fn api_40_a_job_is_kept_for_a_day_after_its_end_and_never_walked_again() {
    let mut world = World::new();
    world.submit(|_| {});
    let start = StartBulk { partitions: 1, ..starting(&mut world, Filter::default(), cancel()) };
    let bulk = Bulk::begin(&mut world, start);
    let told_at = world.now;
    let counted = bulk.walk(&mut world);
    world.at(1_000);
    let report = ReportBulk { job: bulk.id, partition: PartitionId(0), counts: counted.clone() };
    assert_eq!(engine(&mut world, Command::ReportBulk(report)), DONE);
    assert_eq!(bulk.advance(&mut world, BulkProgress::Reported), Ok(Reply::Expired(Expired::Fired)));
    assert_eq!(bulk.share_out(&mut world, None, false, told_at), DONE);
    assert_eq!(bulk.share(&world).stage, Stage::Over, "a start that is late finds it over");
    let job = bulk.job(&world);
    assert_eq!((job.counts, job.ended_at), (counted, Some(Time::from_ms(1_000))));

    world.at(1_000 + BULK_KEEP_MS).scan();
    let left = |world: &World| world.records.keys().any(|key| matches!(key, Key::BulkJob(..)));
    assert!(!left(&world));
    let definition = job.definition;
    let share = ShareBulk { partition: PARTITION, job: bulk.id, definition, left: None, stop: false, told_at };
    assert_eq!(engine(&mut world, Command::ShareBulk(Box::new(share))), DONE);
    assert!(!left(&world), "a start that is a day late begins nothing");
}

#[test]
fn sr_22_a_job_that_cannot_go_on_backs_off_and_is_let_go_by_an_operator() {
    let mut world = World::new();
    let start = starting(&mut world, Filter::default(), cancel());
    let bulk = Bulk::begin(&mut world, start);
    let key = BulkJob::key_of_share(bulk.id, PARTITION);
    let entry = |world: &World| {
        let bytes = key.to_bytes();
        world.due.iter().find(|entry| entry.timer() == Some(Timer::Bulk) && entry.key == bytes.as_slice()).cloned()
    };
    let mut fails = 0;
    let parked = |world: &World| world.records.keys().any(|key| matches!(key, Key::DeadLetter(..)));
    while !parked(&world) {
        let entry = entry(&world).expect("it is tried again");
        world.at(entry.at.ms());
        let command = Command::RecordTrouble(RecordTrouble {
            key: Some(key),
            timer: Timer::Bulk,
            due: entry.at,
            scanner: "dependency_reconciler".into(),
            interval_ms: 15_000,
            error: "no way".into(),
            fresh: world.fresh(),
        });
        engine(&mut world, command).unwrap();
        fails += 1;
        assert!(fails < 100);
    }
    let letter = world.records.keys().find_map(|key| match key {
        Key::DeadLetter(_, letter) => Some(*letter),
        _ => None,
    });
    let letter = letter.expect("a dead letter");
    world.run(Command::RetryParked(RetryParked { letter, partition: PARTITION })).unwrap();
    assert!(entry(&world).is_some_and(|entry| entry.at <= world.now), "it is due again");
    assert_eq!(bulk.walk(&mut world), Counts::default());
}
