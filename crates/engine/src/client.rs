//! The in-process API: every verb and read, in the name of one principal.

use crate::bulk::{self, BulkRequest, BulkView};
use crate::census::{self, Depths};
use crate::count::{self, BoundedCount, Counts, GroupBy};
use crate::engine::Shared;
use crate::explain::{Explanation, For};
use crate::history::{self, AttemptFilter, AttemptPage, HistoryPage, HistoryPlace};
use crate::notices::{Notices, Told};
use crate::partition::{Answer, Input, Job};
use crate::place;
use crate::reads::{self, ChildPage, ExecutionView, ListFilter, ListPage, ResultView, StepPage};
use crate::request::*;
use crate::telemetry::Activity;
use crate::verb::{Answered, Ask, Asked, Settle, Settled};
use crate::worker::{self, Beat, Heartbeat, LeasePage, Registered, Registration};
use crate::worker::{WorkerFilter, WorkerPage, WorkerTarget};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::oneshot;
use tracing::Span;
use tracing::field::Empty;
use weft_core::apply::Applied;
use weft_core::command::{self, Call, Command, Fence, Principal};
use weft_core::error::Rejection;
use weft_core::limits;
use weft_core::record::Attempt;
use weft_core::record::api_key::Reach;
use weft_core::record::execution::{AfterFailure, Outcome, PublicState};
use weft_core::reply::{Cancelled, ChildOutcome, Children, RecordedStep, Renewed, Reply, StepValue, Submitted};
use weft_core::text::Text;
use weft_core::{BulkId, CommitId, ExecutionId, PartitionId, Time};

/// Acts in one namespace, with the rights of its principal. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) principal: Principal,
    /// See `expecting`.
    expected: Option<CommitId>,
}

/// The reply to a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    pub outcome: Outcome,
    pub attempt: u32,
    pub cancel_was_requested: bool,
}

/// The reply to a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// The epoch that ended.
    pub epoch: u64,
    /// It had been revoked before.
    pub already: bool,
}

/// The reply to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// False if nobody held it.
    pub changed: bool,
    pub public_state: PublicState,
}

impl Client {
    pub(crate) fn new(shared: Arc<Shared>, principal: Principal) -> Self {
        Self { shared, principal, expected: None }
    }

    /// The same client, whose verbs on flows count only for a flow that is at this revision.
    pub fn expecting(self, expected: Option<CommitId>) -> Self {
        Self { expected, ..self }
    }

    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    // Submitting.

    pub async fn submit(&self, submission: Submission) -> Result<Answered<Submitted>, Rejection> {
        only(self.submit_batch(vec![submission]).await)
    }

    /// Items are independent: one that is refused never fails another. Answers are in order.
    pub async fn submit_batch(&self, submissions: Vec<Submission>) -> Vec<Result<Answered<Submitted>, Rejection>> {
        let bytes = submissions.iter().map(|item| item.input.as_ref().map_or(0, Bytes::len)).sum();
        // Items of one call that may go anywhere go together: they share a commit.
        let together = self.shared.next_partition(submissions.len());
        // A key may be bound in another partition than its place, if the store was imported.
        let keyed = submissions.iter().map(|item| item.idempotency_key.is_some().then(|| item.clone()));
        let keyed: Vec<Option<Submission>> = keyed.collect();
        let calls = submissions.into_iter().map(|item| self.submit_call(item, together)).collect();
        let mut replies = self.run(calls, bytes, Urgency::Normal).await;
        for (reply, item) in replies.iter_mut().zip(keyed) {
            if let (Err(Rejection::Elsewhere { partition }), Some(item)) = (&reply, item) {
                let call = self.submit_call_in(item, *partition);
                *reply = only(self.run(vec![call], 0, Urgency::Normal).await);
            }
        }
        let submitted = |reply| match reply {
            Reply::Submitted(submitted) => Ok(submitted),
            other => Err(other),
        };
        replies.into_iter().map(|reply| answered(reply, submitted)).collect()
    }

    /// All of them or none, in one partition. A refusal names the first item that is refused. A repeat is recognised by the
    /// request id of the whole call; items have none of their own.
    pub async fn submit_atomic(
        &self,
        submissions: Vec<Submission>,
        request_id: Option<Bytes>,
    ) -> Result<Answered<Vec<Submitted>>, Rejection> {
        let partition = self.place_together(&submissions, request_id.as_deref())?;
        let items = submissions.into_iter().map(|item| {
            let id = ExecutionId::new(partition, self.shared.fresh_uuid());
            item.command(id, &self.shared.config.policy)
        });
        let items = items.enumerate().map(|(index, item)| item.map_err(|rejection| at_item(index, rejection)));
        let items = items.collect::<Result<Vec<_>, Rejection>>()?;
        let command = Command::SubmitAll(command::SubmitAll { items });
        let reply = self.one(self.call(command, request_id), Urgency::Normal).await;
        let reply = reply.map_err(|rejection| match rejection {
            Rejection::AtItem { index, rejection } if matches!(*rejection, Rejection::Elsewhere { .. }) => {
                at_item(index as usize, APART)
            }
            other => other,
        });
        answered(reply, |reply| match reply {
            Reply::SubmittedAll(submitted) => Ok(submitted),
            other => Err(other),
        })
    }

    /// The one partition that the parents and keys of all of them name; by the request id if they name none.
    fn place_together(&self, items: &[Submission], request_id: Option<&[u8]>) -> Result<PartitionId, Rejection> {
        let mut named = None;
        for (index, item) in items.iter().enumerate() {
            if item.request_id.is_some() {
                let refusal = Rejection::invalid("request_id", "is given for one item; give one for the whole call");
                return Err(at_item(index, refusal));
            }
            let placed = place::of_keys(&self.shared, &self.principal.namespace, item);
            let Some(partition) = placed.map_err(|rejection| at_item(index, rejection))? else { continue };
            if *named.get_or_insert(partition) != partition {
                return Err(at_item(index, APART));
            }
        }
        let by_request = || request_id.map(|id| place::of_key(&self.shared, &self.principal.namespace, id));
        Ok(named.or_else(by_request).unwrap_or_else(|| self.shared.next_partition(items.len())))
    }

    fn submit_call(&self, submission: Submission, together: PartitionId) -> Result<Call, Rejection> {
        let partition = place::of_submission(&self.shared, &self.principal.namespace, &submission, together)?;
        self.submit_call_in(submission, partition)
    }

    fn submit_call_in(&self, submission: Submission, partition: PartitionId) -> Result<Call, Rejection> {
        let id = ExecutionId::new(partition, self.shared.fresh_uuid());
        let request_id = submission.request_id.clone();
        let command = Command::Submit(Box::new(submission.command(id, &self.shared.config.policy)?));
        Ok(self.call(command, request_id))
    }

    // Working.

    pub async fn renew(&self, renewal: Renewal) -> Result<Answered<Renewed>, Rejection> {
        only(self.renew_batch(vec![renewal]).await)
    }

    /// One commit per partition, whatever the number of leases.
    pub async fn renew_batch(&self, renewals: Vec<Renewal>) -> Vec<Result<Answered<Renewed>, Rejection>> {
        let answers = self.ask_all(renewals).await;
        let mut last = None;
        for answer in &answers {
            self.shared.telemetry.renewals.answered(answer);
            let Ok(Some(holder)) = answer.as_ref().map(|renewed| renewed.holder.as_ref()) else { continue };
            // Usually all have one holder, and the roster need not be locked for each.
            if last != Some(holder) {
                worker::alive(&self.shared, &self.principal, &holder.0, holder.1);
                last = Some(holder);
            }
        }
        answers
    }

    /// The same, and what the processes should know that hold these leases.
    pub async fn renew_told(&self, renewals: Vec<Renewal>) -> (Vec<Result<Answered<Renewed>, Rejection>>, Told) {
        let answers = self.renew_batch(renewals).await;
        let renewed = answers.iter().filter_map(|answer| answer.as_ref().ok()?.holder.as_ref());
        let holders: BTreeSet<&Text> = renewed.map(|(instance, _)| instance).collect();
        let (mailboxes, now) = (&self.shared.hub.mailboxes, self.shared.now());
        let mut all = Told::default();
        for instance in holders {
            let told = mailboxes.seen(&self.principal.namespace, instance, now, None).take();
            all.notices.extend(told.notices);
            all.missed |= told.missed;
        }
        (answers, all)
    }

    /// Records steps; answers in order what stands under each name now.
    pub async fn record_steps(&self, recording: Recording) -> Result<Answered<Vec<RecordedStep>>, Rejection> {
        self.ask(recording).await
    }

    pub async fn complete(&self, completion: Completion) -> Result<Answered<Completed>, Rejection> {
        self.ask(completion).await
    }

    pub async fn complete_batch(&self, completions: Vec<Completion>) -> Vec<Result<Answered<Completed>, Rejection>> {
        self.ask_all(completions).await
    }

    pub async fn fail(&self, failing: Failing) -> Result<Answered<AfterFailure>, Rejection> {
        self.ask(failing).await
    }

    pub async fn fail_batch(&self, failings: Vec<Failing>) -> Vec<Result<Answered<AfterFailure>, Rejection>> {
        self.ask_all(failings).await
    }

    /// Several ways of being done with work in one call: one commit per partition, and items that are independent.
    pub async fn settle_batch(&self, items: Vec<Settle>) -> Vec<Result<Answered<Settled>, Rejection>> {
        self.ask_all(items).await
    }

    /// Answers how long the lease still lasts.
    pub async fn progress(&self, progress: Progressing) -> Result<Answered<u64>, Rejection> {
        self.ask(progress).await
    }

    /// Answers until when it waits.
    pub async fn delay(&self, delaying: Delaying) -> Result<Answered<Time>, Rejection> {
        self.ask(delaying).await
    }

    pub async fn wait_children(&self, waiting: Waiting) -> Result<Answered<Children>, Rejection> {
        self.ask(waiting).await
    }

    /// Notices for one worker process: cancels and lost leases, as they are committed on this node. They are hints: a
    /// worker that misses one learns by the rejection of its next call.
    pub fn notices(&self, instance: impl Into<Text>) -> Notices {
        self.notices_after(instance, None)
    }

    /// The same, beginning after the number of the one that was heard last.
    pub fn notices_after(&self, instance: impl Into<Text>, last: Option<u64>) -> Notices {
        let now = self.shared.now();
        let mailbox = self.shared.hub.mailboxes.seen(&self.principal.namespace, &instance.into(), now, None);
        Notices::open(mailbox, last, now)
    }

    // Being a worker process.

    /// Enters a worker process, or refreshes what is known of it. With another boot id than before another session
    /// begins, and calls of the one before are refused.
    pub async fn register(&self, registration: Registration) -> Result<Registered, Rejection> {
        worker::register(&self.shared, &self.principal, registration).await
    }

    /// The process lives. Compares what it holds with what the engine knows, if it tells.
    pub async fn heartbeat(&self, heartbeat: Heartbeat) -> Result<Beat, Rejection> {
        worker::heartbeat(&self.shared, &self.principal, heartbeat).await
    }

    /// The process goes; answers how many leases went to others.
    pub async fn deregister(&self, instance: impl Into<Text>, session: Option<u64>) -> Result<u32, Rejection> {
        self.deregister_once(instance, session, None).await
    }

    /// The same; a repeat with the same request id is no refusal, though the record may be gone.
    pub async fn deregister_once(
        &self,
        instance: impl Into<Text>,
        session: Option<u64>,
        request_id: Option<Bytes>,
    ) -> Result<u32, Rejection> {
        worker::deregister(&self.shared, &self.principal, &instance.into(), session, request_id).await
    }

    /// Tells worker processes to take no more work; answers which were told.
    pub async fn drain(
        &self,
        target: WorkerTarget,
        reason: impl Into<Text>,
        deadline_ms: Option<u64>,
    ) -> Result<Vec<Text>, Rejection> {
        worker::drain(&self.shared, &self.principal, target, reason.into(), deadline_ms).await
    }

    /// Lets worker processes take work again; answers which were told.
    pub async fn undrain(&self, target: WorkerTarget) -> Result<Vec<Text>, Rejection> {
        worker::undrain(&self.shared, &self.principal, target).await
    }

    /// Gives a worker process up; answers how many leases went to others at once. The rest follow.
    pub async fn mark_dead(&self, instance: impl Into<Text>, reason: impl Into<Text>) -> Result<u32, Rejection> {
        worker::mark_dead(&self.shared, &self.principal, &instance.into(), reason.into()).await
    }

    /// The registry, by the names of the processes.
    pub async fn workers(&self, filter: WorkerFilter) -> Result<WorkerPage, Rejection> {
        worker::list(&self.shared, &self.principal, &filter).await
    }

    pub async fn worker(&self, instance: impl Into<Text>) -> Result<worker::Body, Rejection> {
        self.worker_revised(instance).await.map(|(body, _)| body)
    }

    /// The same with the revision of its record; none while its entry is on its way.
    pub async fn worker_revised(
        &self,
        instance: impl Into<Text>,
    ) -> Result<(worker::Body, Option<CommitId>), Rejection> {
        worker::get(&self.shared, &self.principal, &instance.into()).await
    }

    /// What a worker process holds, in all partitions.
    pub async fn leases(
        &self,
        instance: impl Into<Text>,
        cursor: Option<ExecutionId>,
        limit: usize,
    ) -> Result<LeasePage, Rejection> {
        worker::leases::leases(&self.shared, &self.principal, &instance.into(), cursor, limit).await
    }

    // Repeats of calls that are more than one command.

    /// What was answered to this call, if it is a repeat: under the same id, by the same principal.
    pub async fn kept(&self, verb: &str, id: Bytes, fingerprint: [u8; 32]) -> Result<Option<Bytes>, Rejection> {
        self.keep_answer(verb, id, fingerprint, None).await
    }

    /// Keeps what is answered to this call; answers what was kept, which is another one's if that was earlier.
    pub async fn keep(
        &self,
        verb: &str,
        id: Bytes,
        fingerprint: [u8; 32],
        answer: Bytes,
    ) -> Result<Option<Bytes>, Rejection> {
        self.keep_answer(verb, id, fingerprint, Some(answer)).await
    }

    async fn keep_answer(
        &self,
        verb: &str,
        id: Bytes,
        fingerprint: [u8; 32],
        answer: Option<Bytes>,
    ) -> Result<Option<Bytes>, Rejection> {
        let partition = place::of_key(&self.shared, &self.principal.namespace, &id);
        let command = Command::KeepAnswer(command::KeepAnswer { partition, verb: verb.into(), fingerprint, answer });
        // Small, and about something that has happened: load of others is no reason to lose it.
        match self.one(self.call(command, Some(id)), Urgency::Urgent).await?.reply {
            Reply::Answer(answer) => Ok(answer),
            other => Err(unexpected(other)),
        }
    }

    // Steering.

    pub async fn cancel(&self, cancellation: Cancellation) -> Result<Answered<Cancelled>, Rejection> {
        self.ask(cancellation).await
    }

    pub async fn cancel_batch(&self, cancellations: Vec<Cancellation>) -> Vec<Result<Answered<Cancelled>, Rejection>> {
        self.ask_all(cancellations).await
    }

    /// Moves the start of a delayed execution; answers the old and the new time.
    pub async fn reschedule(&self, rescheduling: Rescheduling) -> Result<Answered<(Time, Time)>, Rejection> {
        self.ask(rescheduling).await
    }

    /// Answers the priority it had.
    pub async fn change_priority(&self, prioritising: Prioritising) -> Result<Answered<u32>, Rejection> {
        self.ask(prioritising).await
    }

    /// Answers all tags it has afterwards.
    pub async fn set_tags(&self, tagging: Tagging) -> Result<Answered<Arc<BTreeMap<Text, Text>>>, Rejection> {
        self.ask(tagging).await
    }

    /// Takes the lease away.
    pub async fn revoke(&self, revoking: Revoking) -> Result<Answered<Revoked>, Rejection> {
        self.ask(revoking).await
    }

    /// Keeps it from running; false if it was held already.
    pub async fn hold(&self, holding: Holding) -> Result<Answered<bool>, Rejection> {
        self.ask(holding).await
    }

    pub async fn release(&self, releasing: impl Into<Releasing>) -> Result<Answered<Released>, Rejection> {
        self.ask(releasing.into()).await
    }

    pub async fn force_complete(&self, forcing: ForceCompleting) -> Result<Answered<Outcome>, Rejection> {
        self.ask(forcing).await
    }

    pub async fn force_fail(&self, forcing: ForceFailing) -> Result<Answered<Outcome>, Rejection> {
        self.ask(forcing).await
    }

    /// Removes an ended execution now, whatever its retention says.
    pub async fn purge(&self, purging: impl Into<Purging>) -> Result<Answered<()>, Rejection> {
        self.ask(purging.into()).await
    }

    /// Opens an ended execution again; answers its state and how often it was replayed.
    pub async fn replay(&self, replaying: Replaying) -> Result<Answered<(PublicState, u32)>, Rejection> {
        self.ask(replaying).await
    }

    // Reading.

    pub async fn get(&self, id: ExecutionId) -> Result<ExecutionView, Rejection> {
        reads::get(&self.shared, &self.principal, id).await
    }

    /// The outcome and result; waits up to `wait_ms` for the end.
    pub async fn result(&self, id: ExecutionId, wait_ms: u64) -> Result<ResultView, Rejection> {
        reads::result(&self.shared, &self.principal, id, wait_ms).await
    }

    /// Waits up to `wait_ms` until it has ended, or is in the state `until`, and answers how it stands then.
    pub async fn wait(
        &self,
        id: ExecutionId,
        until: Option<PublicState>,
        wait_ms: u64,
    ) -> Result<ExecutionView, Rejection> {
        reads::wait(&self.shared, &self.principal, id, until, wait_ms).await
    }

    /// One attempt with result and failure detail, and its revision.
    pub async fn attempt(&self, id: ExecutionId, index: u32) -> Result<(Attempt, CommitId), Rejection> {
        history::attempt(&self.shared, &self.principal, id, index).await
    }

    /// The recorded steps of the current run after the one with the number `after`, in their order.
    pub async fn steps(&self, id: ExecutionId, after: Option<u32>, limit: usize) -> Result<StepPage, Rejection> {
        reads::steps(&self.shared, &self.principal, id, None, after, limit).await
    }

    /// The same for the holder of the lease: refused once it is not.
    pub async fn held_steps(
        &self,
        id: ExecutionId,
        fence: Fence,
        after: Option<u32>,
        limit: usize,
    ) -> Result<StepPage, Rejection> {
        self.principal.scopes.need(command::Scopes::WORK, "work")?;
        reads::steps(&self.shared, &self.principal, id, Some(fence), after, limit).await
    }

    /// What is recorded under a name, and its revision.
    pub async fn step(&self, id: ExecutionId, name: &str) -> Result<(StepValue, CommitId), Rejection> {
        reads::step(&self.shared, &self.principal, id, name).await
    }

    /// The children it has spawned, in the order of their ids, which is that of their making.
    pub async fn children(
        &self,
        id: ExecutionId,
        cursor: Option<ExecutionId>,
        limit: usize,
    ) -> Result<ChildPage, Rejection> {
        reads::children(&self.shared, &self.principal, id, cursor, limit).await
    }

    /// How children of a held execution have ended, in the order of `ids`, for the holder of its lease: as many as fit,
    /// at least one.
    pub async fn held_children(
        &self,
        id: ExecutionId,
        fence: Fence,
        ids: &[ExecutionId],
    ) -> Result<Vec<ChildOutcome>, Rejection> {
        self.principal.scopes.need(command::Scopes::WORK, "work")?;
        reads::held_children(&self.shared, &self.principal, id, fence, ids).await
    }

    /// Attempts in order, the open one last.
    pub async fn attempts(&self, id: ExecutionId, filter: AttemptFilter) -> Result<AttemptPage, Rejection> {
        history::attempts(&self.shared, &self.principal, id, filter).await
    }

    /// What happened to it, in order, from where the page before ended.
    pub async fn history(
        &self,
        id: ExecutionId,
        place: Option<HistoryPlace>,
        limit: usize,
    ) -> Result<HistoryPage, Rejection> {
        history::history(&self.shared, &self.principal, id, place, limit).await
    }

    pub async fn list(&self, filter: ListFilter) -> Result<ListPage, Rejection> {
        reads::list(&self.shared, &self.principal, filter).await
    }

    /// Exact numbers by (lane, kind, public state) of the executions that `list` would show, however long it takes.
    pub async fn count(&self, filter: ListFilter) -> Result<Counts, Rejection> {
        let grouped = count::count(&self.shared, &self.principal, &filter, GroupBy::ALL, None).await?.counts;
        let whole =
            grouped.into_iter().filter_map(|((lane, kind, state), count)| Some(((lane?, kind?, state?), count)));
        Ok(whole.collect())
    }

    /// Numbers of the executions that `list` would show, lower bounds once `within_ms` have passed. The fewer fields they
    /// are grouped by, the less is loaded.
    pub async fn count_within(
        &self,
        filter: &ListFilter,
        by: GroupBy,
        within_ms: u64,
    ) -> Result<BoundedCount, Rejection> {
        let until = self.shared.runtime.clock() + within_ms;
        count::count(&self.shared, &self.principal, filter, by, Some(until)).await
    }

    /// What this node has seen of the namespace lately.
    pub fn activity(&self) -> Activity {
        let own = Reach::Some([self.principal.namespace.clone()].into());
        self.shared.telemetry.activity(&own, self.shared.now(), self.shared.started_at)
    }

    /// How much waits and runs in the namespace, counted up to a bound; at most two seconds old.
    pub async fn depths(&self) -> Result<Arc<Depths>, Rejection> {
        census::depths(&self.shared, &self.principal.namespace).await
    }

    /// Why it is not running.
    pub async fn explain(&self, id: ExecutionId) -> Result<Explanation, Rejection> {
        crate::explain::explain(&self.shared, &self.principal, id, For::Anybody).await
    }

    /// Why this worker process does not get it.
    pub async fn explain_for(&self, id: ExecutionId, instance: impl Into<Text>) -> Result<Explanation, Rejection> {
        crate::explain::explain(&self.shared, &self.principal, id, For::Instance(&instance.into())).await
    }

    // Bulk jobs.

    /// Starts one verb for all executions that a filter names. The job goes on by itself, over restarts and on whatever
    /// node is there.
    pub async fn start_bulk(&self, request: BulkRequest) -> Result<Answered<BulkView>, Rejection> {
        let id = bulk::fresh_id(&self.shared, &self.principal, request.request_id.as_deref());
        let (command, request_id) = request.command(id, self.shared.description.partitions);
        let started = answered(self.one(self.call(command, request_id), Urgency::Normal).await, |reply| match reply {
            Reply::BulkStarted(id) => Ok(id),
            other => Err(other),
        })?;
        // Whoever may start a job hears what became of the start, also if it may look after no other.
        let value = bulk::read(&self.shared, &self.principal, started.value).await?;
        Ok(Answered { value, repeated: started.repeated })
    }

    /// Starts a bulk job and waits up to `wait_ms` for its end; answers how far it is then.
    pub async fn start_bulk_and_wait(&self, request: BulkRequest, wait_ms: u64) -> Result<BulkView, Rejection> {
        weft_core::text::check_range("wait_ms", wait_ms, 0, weft_core::limits::CLAIM_WAIT_MAX_MS)?;
        let deadline = self.shared.runtime.clock() + wait_ms;
        let started = self.start_bulk(request).await?.value;
        bulk::wait(&self.shared, &self.principal, started, deadline).await
    }

    /// How far a bulk job is.
    pub async fn bulk(&self, id: BulkId) -> Result<BulkView, Rejection> {
        self.principal.scopes.need(command::Scopes::OPERATE, "operate")?;
        bulk::read(&self.shared, &self.principal, id).await
    }

    /// Ends a bulk job. What it has done stays done; a partition that is at it may finish the commit it is in.
    pub async fn stop_bulk(&self, id: BulkId, request_id: Option<Bytes>) -> Result<Answered<BulkView>, Rejection> {
        let command = Command::StopBulk(command::StopBulk { id });
        let stopped = self.one(self.call(command, request_id), Urgency::Urgent).await?;
        let value = self.bulk(id).await?;
        Ok(Answered { value, repeated: stopped.repeated })
    }

    // Sending.

    pub(crate) fn call(&self, command: Command, request_id: Option<Bytes>) -> Call {
        Call { principal: self.principal.clone(), request_id, expected_revision: self.expected, command }
    }

    async fn ask<A: Ask>(&self, request: A) -> Result<Answered<A::Answer>, Rejection> {
        only(self.ask_all(vec![request]).await)
    }

    /// Items are independent: one that is refused never fails another. Answers are in order.
    async fn ask_all<A: Ask>(&self, requests: Vec<A>) -> Vec<Result<Answered<A::Answer>, Rejection>> {
        let bytes = requests.iter().map(Ask::bytes).sum();
        let calls = requests.into_iter().map(|request| {
            let Asked { command, request_id, expected_revision } = request.asked(self.shared.runtime.random());
            Ok(Call { expected_revision, ..self.call(command, request_id) })
        });
        let replies = self.run(calls.collect(), bytes, A::URGENCY).await;
        replies.into_iter().map(|reply| answered(reply, A::answer)).collect()
    }

    pub(crate) async fn one(&self, call: Call, urgency: Urgency) -> Answer {
        only(self.run(vec![Ok(call)], 0, urgency).await)
    }

    async fn run(&self, calls: Vec<Result<Call, Rejection>>, bytes: usize, urgency: Urgency) -> Vec<Answer> {
        if calls.len() > limits::BATCH_ITEMS_MAX {
            let refusal = Rejection::invalid("items", "a batch has at most 1000 items");
            return calls.iter().map(|_| Err(refusal.clone())).collect();
        }
        if bytes > limits::BATCH_BYTES_MAX && calls.len() > 1 {
            let (limit, got) = (limits::BATCH_BYTES_MAX as u64, bytes as u64);
            return calls.iter().map(|_| Err(Rejection::PayloadTooLarge { field: "items", limit, got })).collect();
        }
        self.shared.run(calls, urgency).await
    }
}

/// Which mailbox a call goes to: what keeps leases alive or ends work is not held up by submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    Urgent,
    Normal,
}

/// The keys of some items name one partition, those of others another.
const APART: Rejection = Rejection::invalid("items", "cannot be done as one: their keys or parents are kept apart");

fn at_item(index: usize, rejection: Rejection) -> Rejection {
    Rejection::AtItem { index: index as u32, rejection: Box::new(rejection) }
}

/// Takes the answer out of a reply. The core answers each command with its own kind of reply.
pub(crate) fn answered<T>(answer: Answer, take: impl Fn(Reply) -> Result<T, Reply>) -> Result<Answered<T>, Rejection> {
    let Applied { reply, repeated } = answer?;
    take(reply).map(|value| Answered { value, repeated }).map_err(unexpected)
}

pub(crate) fn unexpected(reply: Reply) -> Rejection {
    Rejection::internal(format!("unexpected reply {reply:?}"))
}

fn only<T>(mut answers: Vec<Result<T, Rejection>>) -> Result<T, Rejection> {
    answers.pop().unwrap_or_else(|| Err(Rejection::internal("a call was not answered")))
}

/// One command in a trace. It lasts until it is answered; many of them share a commit.
fn command_span(call: &Call, partition: PartitionId) -> Span {
    let verb = call.command.verb();
    let span = tracing::debug_span!("command", verb, %partition, execution = Empty, refused = Empty);
    if !span.is_disabled()
        && let place::About::Execution(id) = place::about(&call.command)
    {
        span.record("execution", tracing::field::display(id));
    }
    span
}

/// Of the calls of one job: where their answers belong, and their spans.
type Places = Vec<(usize, Span)>;

impl Shared {
    /// Sends calls to their partitions and gathers the answers in order.
    pub(crate) async fn run(&self, calls: Vec<Result<Call, Rejection>>, urgency: Urgency) -> Vec<Answer> {
        let mut answers: Vec<Option<Answer>> = Vec::with_capacity(calls.len());
        let mut jobs: BTreeMap<PartitionId, (Places, Vec<Call>)> = BTreeMap::new();
        for (at, call) in calls.into_iter().enumerate() {
            match call.and_then(|call| place::of_call(self, &call).map(|partition| (partition, call))) {
                Ok((partition, call)) => {
                    let (places, calls) = jobs.entry(partition).or_default();
                    places.push((at, command_span(&call, partition)));
                    calls.push(call);
                    answers.push(None);
                }
                Err(rejection) => answers.push(Some(Err(rejection))),
            }
        }
        let mut waiting = Vec::with_capacity(jobs.len());
        for (partition, (places, calls)) in jobs {
            let (reply, answer) = oneshot::channel();
            let sent = self.send(partition, Input::Job(Job::new(calls, reply)), urgency);
            waiting.push((places, sent.map(|()| answer)));
        }
        for (places, sent) in waiting {
            let replies = match sent {
                Ok(answer) => answer.await.unwrap_or_else(|_| {
                    let gone = Rejection::Unavailable { retry_after_ms: 100, outcome_unknown: true };
                    places.iter().map(|_| Err(gone.clone())).collect()
                }),
                Err(rejection) => places.iter().map(|_| Err(rejection.clone())).collect(),
            };
            for ((at, span), reply) in places.into_iter().zip(replies) {
                if let Err(rejection) = &reply {
                    span.record("refused", rejection.code());
                }
                answers[at] = Some(reply);
            }
        }
        let unanswered = || Err(Rejection::internal("a call was not answered"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(unanswered)).collect()
    }
}
