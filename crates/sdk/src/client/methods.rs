//! A method for every operation of the API, named as the operation is.

use super::Client;
use crate::Error;
use weft_api::{Args, Operation, op};

/// One row per operation: its name, the parts of its path, what else it takes, and which operation it is.
macro_rules! methods {
    ($($(#[$doc:meta])+ $name:ident($($part:ident),*) $takes:ident $op:ident;)+) => {
        /// The operations that have a method.
        #[cfg(test)]
        const METHODS: &[&str] = &[$(stringify!($name),)+];

        impl Client {
            $(methods!(@one $(#[$doc])+ $name($($part),*) $takes $op);)+
        }
    };
    (@one $(#[$doc:meta])+ $name:ident($($part:ident),*) nothing $op:ident) => {
        $(#[$doc])+
        pub async fn $name(&self, $($part: impl Into<String>),*) -> Result<<op::$op as Operation>::Reply, Error> {
            self.call::<op::$op>(Args { path: [$($part.into()),*], ..Args::default() }).await
        }
    };
    (@one $(#[$doc:meta])+ $name:ident($($part:ident),*) query $op:ident) => {
        $(#[$doc])+
        pub async fn $name(
            &self,
            $($part: impl Into<String>,)*
            query: <op::$op as Operation>::Query,
        ) -> Result<<op::$op as Operation>::Reply, Error> {
            self.call::<op::$op>(Args { path: [$($part.into()),*], query, ..Args::default() }).await
        }
    };
    (@one $(#[$doc:meta])+ $name:ident($($part:ident),*) body $op:ident) => {
        $(#[$doc])+
        pub async fn $name(
            &self,
            $($part: impl Into<String>,)*
            body: <op::$op as Operation>::Body,
        ) -> Result<<op::$op as Operation>::Reply, Error> {
            self.call::<op::$op>(Args::new([$($part.into()),*], Default::default(), body)).await
        }
    };
}

methods! {
    /// Submits an execution; `submit` is the same with less to write.
    submit_execution() body SubmitExecution;
    /// Submits many executions; `submit_batch` is the same with less to write.
    submit_executions() body SubmitExecutions;
    /// One page of executions.
    list_executions() query ListExecutions;
    /// Counts executions, exactly.
    count_executions() query CountExecutions;
    /// Cancels many executions.
    cancel_executions() body CancelExecutions;
    /// An execution; waits for it if the query says so.
    get_execution(execution) query GetExecution;
    /// The bytes of its input.
    get_input(execution) nothing GetInput;
    /// The bytes of its result.
    get_result(execution) query GetResult;
    /// The bytes of its checkpoint.
    get_checkpoint(execution) nothing GetCheckpoint;
    /// One page of its attempts, in order.
    list_attempts(execution) query ListAttempts;
    /// One of its attempts.
    get_attempt(execution, index) nothing GetAttempt;
    /// The bytes of the result of an attempt.
    get_attempt_result(execution, index) nothing GetAttemptResult;
    /// What happened to it, in order.
    get_history(execution) query GetHistory;
    /// One page of the executions it spawned.
    list_children(execution) query ListChildren;
    /// Why it is not running, or why a worker that the query names does not get it.
    explain_execution(execution) query ExplainExecution;
    /// One page of its recorded steps, in order.
    list_steps(execution) query ListSteps;
    /// One of its recorded steps.
    get_step(execution, name) nothing GetStep;
    /// Cancels an execution.
    cancel_execution(execution) body CancelExecution;
    /// Runs an ended execution again.
    replay_execution(execution) body ReplayExecution;
    /// Moves the start of a delayed execution.
    reschedule_execution(execution) body RescheduleExecution;
    /// Changes its priority.
    set_priority(execution) body SetPriority;
    /// Changes its tags.
    set_tags(execution) body SetTags;
    /// Keeps it from running.
    hold_execution(execution) body HoldExecution;
    /// Lets a held execution run.
    release_execution(execution) body ReleaseExecution;
    /// Takes its lease away.
    revoke_execution(execution) body RevokeExecution;
    /// Ends it with success.
    force_complete(execution) body ForceComplete;
    /// Ends it as failed.
    force_fail(execution) body ForceFail;
    /// Removes an ended execution.
    purge_execution(execution) query PurgeExecution;
    /// Submits a flow; `flow` is the same with less to write.
    submit_flow() body SubmitFlow;
    /// One page of flows.
    list_flows() query ListFlows;
    /// A flow; waits for it if the query says so.
    get_flow(flow) query GetFlow;
    /// One page of its members, in the order they were added.
    list_members(flow) query ListMembers;
    /// One page of its edges, upstream by upstream.
    list_edges(flow) query ListEdges;
    /// One page of its groups of edges, member by member.
    list_groups(flow) query ListGroups;
    /// A group of edges, and what it waits for.
    get_group(flow, member, name) nothing GetGroup;
    /// One page of its nodes and then its edges, to draw it.
    get_graph(flow) query GetGraph;
    /// Why it is not done.
    explain_flow(flow) nothing ExplainFlow;
    /// Adds members and edges.
    add_members(flow) body AddMembers;
    /// Adds edges.
    add_edges(flow) body AddEdges;
    /// Says that edges are known, and that it may finish.
    seal_flow(flow) body SealFlow;
    /// Declares its outcome.
    finish_flow(flow) body FinishFlow;
    /// Cancels a flow.
    cancel_flow(flow) body CancelFlow;
    /// Changes its tags, or stops its growth.
    change_flow(flow) body ChangeFlow;
    /// Replays every member that counts against it.
    replay_flow(flow) body ReplayFlow;
    /// Removes a flow that is done, with all its members.
    purge_flow(flow) query PurgeFlow;
    /// Begins a job that does something to every execution of a filter.
    start_bulk() body StartBulk;
    /// How far such a job is.
    get_bulk(job) nothing GetBulk;
    /// Stops such a job; what it has done stays done.
    stop_bulk(job) body StopBulk;
    /// Claims work, and waits for it if asked. A `Worker` does this by itself, as all that follows up to the registry.
    claim() body Claim;
    /// Renews leases.
    renew() body Renew;
    /// Completes work.
    complete() body Complete;
    /// Fails work.
    fail() body Fail;
    /// Ends leases of several kinds of work.
    settle() body Settle;
    /// Tells how far work is, saves a checkpoint.
    progress() body Progress;
    /// Hands work back until a time.
    delay() body Delay;
    /// Hands work back until children have ended.
    wait_children() body WaitChildren;
    /// Cancels work that is held.
    cancel_held() body CancelHeld;
    /// Changes tags of work that is held.
    tag_held() body TagHeld;
    /// Records steps.
    record_steps() body RecordSteps;
    /// Reads recorded steps of work that is held.
    read_steps() body ReadSteps;
    /// Reads how children of work that is held have ended.
    read_children() body ReadChildren;
    /// Submits children of work that is held.
    spawn_children() body SpawnChildren;
    /// Adds members and edges to the flow of work that is held.
    add_own_members() body AddOwnMembers;
    /// Adds edges to the flow of work that is held.
    add_own_edges() body AddOwnEdges;
    /// Says that edges are known, in the flow of work that is held.
    seal_own_members() body SealOwnMembers;
    /// Declares the outcome of the flow of work that is held.
    finish_own_flow() body FinishOwnFlow;
    /// The bytes of an input of work that is held.
    read_input() body ReadInput;
    /// Reads inputs of work that is held.
    read_inputs() body ReadInputs;
    /// Registers a worker process.
    register_worker() body RegisterWorker;
    /// A worker is alive, and tells what it holds.
    heartbeat(instance) body Heartbeat;
    /// A worker process ends.
    deregister_worker(instance) query DeregisterWorker;
    /// One page of workers.
    list_workers() query ListWorkers;
    /// A worker.
    get_worker(instance) nothing GetWorker;
    /// One page of what a worker holds.
    list_leases(instance) query ListLeases;
    /// Tells workers to take no more work.
    drain_workers() body DrainWorkers;
    /// Lets workers take work again.
    undrain_workers() body UndrainWorkers;
    /// Gives what a worker holds to others.
    mark_worker_dead(instance) body MarkWorkerDead;
    /// Creates an API key. Its secret is only in this reply.
    create_key() body CreateKey;
    /// One page of API keys.
    list_keys() query ListKeys;
    /// An API key.
    get_key(key) nothing GetKey;
    /// Changes an API key.
    change_key(key) body ChangeKey;
    /// Gives an API key another secret, which is only in this reply.
    rotate_key(key) body RotateKey;
    /// Revokes an API key.
    revoke_key(key) nothing RevokeKey;
    /// One page of what operators and administrators did.
    list_audit() query ListAudit;
    /// Whether the audit log is as it was written.
    verify_audit() nothing VerifyAudit;
    /// Version and store of the node that answers.
    get_version() nothing GetVersion;
    /// Durability and limits.
    get_capabilities() nothing GetCapabilities;
    /// One page of namespaces, with exact counts of their executions.
    list_namespaces() query ListNamespaces;
    /// Rates, depths and latencies of a namespace.
    get_stats() nothing GetStats;
    /// What is set on the node that answers, and where that came from; secrets are not shown.
    get_config() nothing GetConfig;
    /// The nodes of this deployment.
    list_nodes() nothing ListNodes;
    /// Lets a node drain and stop, named by its id or its name.
    drain_node(node) body DrainNode;
    /// The scanners of the node that answers, and how they are doing.
    list_scanners() nothing ListScanners;
    /// One page of the items that scanners could not handle.
    list_parked() query ListParked;
    /// Lets a parked item be tried again, at once.
    retry_parked(item) body RetryParked;
    /// Gives a parked item up.
    discard_parked(item) body DiscardParked;
    /// Lets up to a thousand parked items be tried again, at once.
    retry_all_parked() body RetryAllParked;
}

#[cfg(test)]
mod tests {
    use super::METHODS;
    use std::collections::BTreeSet;

    /// Methods that are written by hand elsewhere: this one answers a stream.
    const BY_HAND: &[&str] = &["notices"];
    /// For the tools that look after a server, and for people; they are no part of the API under `/v1` that clients use.
    const NOT_FOR_CLIENTS: &[&str] = &["healthz", "readyz", "metrics", "openapi"];

    #[test]
    fn sdk_1_every_operation_of_the_document_has_a_method() {
        let document = weft_api::document("0");
        let paths = document["paths"].as_object().expect("the document has paths");
        let methods = paths.values().filter_map(|path| path.as_object()).flat_map(|path| path.values());
        let told: BTreeSet<&str> = methods.filter_map(|method| method["operationId"].as_str()).collect();
        let known: BTreeSet<&str> = METHODS.iter().chain(BY_HAND).chain(NOT_FOR_CLIENTS).copied().collect();
        let without: Vec<_> = told.difference(&known).collect();
        assert_eq!(without, [&""; 0], "give each a row in this file");
        let unknown: Vec<_> = known.difference(&told).collect();
        assert_eq!(unknown, [&""; 0], "the document has no such operation");
    }
}
