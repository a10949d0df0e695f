//! Every limit of an execution, named. What can be configured has its ceiling beside it.

pub const INPUT_MAX: usize = 1 << 20;
pub const INPUT_CEILING: usize = 16 << 20;
pub const RESULT_MAX: usize = 1 << 20;
pub const RESULT_CEILING: usize = 16 << 20;
pub const CHECKPOINT_MAX: usize = 256 << 10;
pub const CHECKPOINT_CEILING: usize = 4 << 20;
pub const STEP_MAX: usize = 256 << 10;
pub const STEP_CEILING: usize = 4 << 20;
pub const STEP_NAME_MAX: usize = 200;
/// Recorded steps of one execution, and their bytes in sum.
pub const STEPS_MAX: u32 = 10_000;
pub const STEPS_BYTES_MAX: u64 = 64 << 20;
pub const STEPS_PER_CALL_MAX: usize = 256;
/// What a claim brings of them; the rest is read when asked.
pub const CLAIM_STEPS_MAX: u32 = 1000;
pub const CLAIM_STEPS_BYTES: u64 = 256 << 10;
pub const FAILURE_MESSAGE_MAX: usize = 4 << 10;
pub const FAILURE_DETAIL_MAX: usize = 64 << 10;
pub const REASON_MAX: usize = 1 << 10;
pub const PROGRESS_MESSAGE_MAX: usize = 1 << 10;
pub const NAME_MAX: usize = 64;
pub const KIND_MAX: usize = 128;
pub const CATEGORY_MAX: usize = 128;
pub const CATEGORIES_MAX: usize = 32;
pub const CONTENT_TYPE_MAX: usize = 128;
pub const WORKER_MAX: usize = 128;
/// Idempotency keys, concurrency keys and request ids: any bytes, not empty.
pub const KEY_MAX: usize = 256;
pub const TRACE_MAX: usize = 512;
pub const TAGS_MAX: usize = 64;
pub const TAG_KEY_MAX: usize = 64;
pub const TAG_VALUE_MAX: usize = 256;
pub const CAPS_MAX: usize = 64;
pub const CAP_TOKEN_MAX: usize = 64;
pub const CAPS_JOINED_MAX: usize = 4096;
pub const PRIORITY_MAX: u32 = 9000;

pub const BATCH_ITEMS_MAX: usize = 1000;
pub const BATCH_BYTES_MAX: usize = 16 << 20;
pub const CLAIM_MAX: usize = 256;
pub const CLAIM_LANES_MAX: usize = 64;
pub const CLAIM_KINDS_MAX: usize = 256;
pub const CLAIM_WAIT_MAX_MS: u64 = 60_000;
/// Candidates a claim may see refused before it answers with what it has.
pub const CLAIM_REFUSALS_MAX: usize = 256;
pub const CLAIM_BYTES_DEFAULT: usize = 4 << 20;

pub const LEASE_MS_MIN: u64 = 100;
pub const LEASE_MS_MAX: u64 = 3_600_000;
pub const LEASE_MS_DEFAULT: u64 = 30_000;
pub const GRACE_MAX_MS: u64 = 600_000;
pub const GRACE_DEFAULT_MS: u64 = 10_000;
pub const HORIZON_MS: u64 = 10 * 365 * DAY_MS;
pub const REQUEST_TTL_MS: u64 = 15 * 60_000;
pub const REQUEST_TTL_CEILING_MS: u64 = DAY_MS;
pub const RETENTION_MS_DEFAULT: u64 = DAY_MS;
pub const RETENTION_MS_MAX: u64 = HORIZON_MS;
pub const IDEMPOTENCY_TTL_MS_MIN: u64 = 60_000;
pub const IDEMPOTENCY_TTL_MS_MAX: u64 = 30 * DAY_MS;
pub const RETRIES_MAX: u32 = 1000;
pub const RECLAIMS_MAX: u32 = 100_000;
pub const REPLAYS_MAX: u32 = 1000;
pub const BACKOFF_MS_MAX: u64 = DAY_MS;
pub const MULTIPLIER_THOUSANDTHS_MIN: u32 = 1000;
pub const MULTIPLIER_THOUSANDTHS_MAX: u32 = 10_000;
pub const ATTEMPT_TIMEOUT_MS_MIN: u64 = 100;
pub const ATTEMPT_TIMEOUT_MS_MAX: u64 = 30 * DAY_MS;
pub const WAIT_CHILDREN_TIMEOUT_MS_MAX: u64 = 365 * DAY_MS;

/// Lost leases in a row that requeue at once; later ones wait `RECLAIM_BACKOFF_MS · 2^n`, up to the maximum.
pub const RECLAIM_FREE: u32 = 3;
pub const RECLAIM_BACKOFF_MS: u64 = 1_000;
pub const RECLAIM_BACKOFF_MAX_MS: u64 = 60_000;

/// What one priority point is worth in waiting time; the default outweighs 31 years.
pub const POINT_MS: u64 = 1_000_000_000_000;

pub const PURGE_PER_COMMIT: usize = 1000;
/// Steps that are removed in one commit, each with the record of its name.
pub const PURGE_STEPS_PER_COMMIT: u32 = 500;
pub const FANOUT_PER_COMMIT: usize = 1000;
/// Attempts that go with the execution itself; a longer history is left to a continuation.
pub const PURGE_INLINE_MAX: usize = 16;
/// Executions that one commit of a bulk job may meet; it ends earlier when it has changed so much.
pub const BULK_PER_COMMIT: usize = 250;
pub const BULK_RECORDS_PER_COMMIT: usize = 1000;
pub const BULK_BYTES_PER_COMMIT: usize = 2 << 20;
/// How long a bulk job is kept after its end.
pub const BULK_KEEP_MS: u64 = DAY_MS;
/// States that a filter may name.
pub const FILTER_STATES_MAX: usize = 16;
/// Flows. What one call may add, and what one commit may do of what is left.
pub const FLOW_MEMBERS_MAX: u32 = 100_000;
pub const FLOW_MEMBERS_CEILING: u32 = 1_000_000;
pub const FLOW_EDGES_MAX: u64 = 1_000_000;
pub const FLOW_EDGES_CEILING: u64 = 10_000_000;
/// In each direction.
pub const EDGES_PER_MEMBER_MAX: u32 = 10_000;
pub const EDGES_PER_MEMBER_CEILING: u32 = 100_000;
pub const FLOW_SUBMIT_MEMBERS_MAX: usize = 10_000;
pub const FLOW_SUBMIT_EDGES_MAX: usize = 50_000;
/// Members and edges together that one call adds to a flow that is there: one commit takes them all, and an edge may
/// write the members at its ends as well.
pub const FLOW_GROW_MAX: usize = FLOW_RECORDS_PER_COMMIT / 2;
/// Records that such a call may write, with the members whose ranks it raises and those it skips.
pub const FLOW_GROW_RECORDS_MAX: usize = 3_500;
pub const GROUPS_PER_MEMBER_MAX: usize = 16;
pub const NODE_KEY_MAX: usize = 128;
pub const INPUT_NAME_MAX: usize = 64;
pub const GROUP_NAME_MAX: usize = 64;
pub const FLOW_RECORDS_PER_COMMIT: usize = 3_000;
pub const SIBLINGS_PER_COMMIT: usize = 256;
/// Siblings that are cancelled in the commit that decides their group. All others are fenced by it too, so it need not
/// grow with them; what is over is left to the commits right behind it.
pub const SIBLINGS_AT_ONCE: usize = 16;
/// Out-edges of a sibling that are looked at before it is kept as needed.
pub const NEED_LOOKS_MAX: u32 = 1_000;
pub const CYCLE_VISITS_MAX: u32 = 10_000;
/// Edges of a skipped member whose upstreams have ended otherwise since, or live again, when it is replayed.
pub const REPLAY_EDGES_MAX: usize = 2_500;
pub const VERIFY_PAGE: usize = 500;
/// How long after a change the counters of a flow are compared with a recount.
pub const VERIFY_AFTER_MS: u64 = 15_000;
/// Longest pause before the next recount of a flow that keeps changing.
pub const VERIFY_MAX_MS: u64 = 600_000;
/// Members that one pass recounts; a flow with more members is recounted alone.
pub const VERIFY_PER_PASS: usize = 5_000;
pub const AUDIT_FIRST_MS: u64 = 600_000;
pub const AUDIT_MAX_MS: u64 = DAY_MS;
/// When members that could not be cancelled are looked at again.
pub const CANCEL_AGAIN_MS: u64 = 15_000;
pub const INPUTS_INLINE_MAX: usize = 1 << 20;
pub const INPUTS_INLINE_CEILING: usize = 16 << 20;
pub const SEAL_BY_MS: u64 = DAY_MS;
pub const SEAL_BY_CEILING_MS: u64 = 30 * DAY_MS;
/// How long a graph that is written in several commits may stay half written.
pub const BUILD_MS: u64 = 300_000;
/// Problems of a graph that one answer lists.
pub const PROBLEMS_MAX: usize = 20;
/// What a resolved edge may write: itself and its downstream; a skipped one a continuation as well.
const RECORDS_PER_EDGE_MAX: usize = 3;
const _: () = assert!(FANOUT_PER_COMMIT * RECORDS_PER_EDGE_MAX + 500 <= RECORDS_PER_COMMIT_MAX);
const _: () = assert!(FLOW_RECORDS_PER_COMMIT + 500 <= RECORDS_PER_COMMIT_MAX);
const _: () = assert!(FLOW_GROW_RECORDS_MAX + 500 <= BATCH_RECORDS_MAX);
const _: () = assert!(BULK_RECORDS_PER_COMMIT + REPLAY_EDGES_MAX + 500 <= BATCH_RECORDS_MAX);
const _: () = assert!(FLOW_GROW_MAX * 2 < FLOW_GROW_RECORDS_MAX);
pub const ACTIONS_MAX: usize = 256;
pub const LEASE_EPISODES_MAX: usize = 64;
pub const LIST_LIMIT_DEFAULT: usize = 50;
pub const LIST_LIMIT_MAX: usize = 1000;

/// Failures of a scanner on one item: tries in a row, then a pause of some cycles that doubles, then it is parked.
pub const FAIL_THRESHOLD: u32 = 3;
pub const BACKOFF_CYCLES: u64 = 10;
pub const BACKOFF_ROUNDS: u32 = 5;
pub const TROUBLE_PAUSE_MAX_MS: u64 = 3_600_000;
pub const TROUBLE_ERROR_MAX: usize = 1 << 10;
/// How long a dead letter of an entry that belongs to no record is kept.
pub const POISON_KEPT_MS: u64 = 30 * DAY_MS;

/// A node that was not heard of for so long is not counted on.
pub const NODE_TTL_MS: u64 = 10_000;
pub const NODE_HEARTBEAT_MS: u64 = 3_000;
/// How long the record of a silent node stays, as a witness.
pub const NODE_KEEP_MS: u64 = DAY_MS;

/// A worker process that was not seen for its ttl is silent. That it was seen is written every third of it.
pub const WORKER_TTL_MS_MIN: u64 = 5_000;
pub const WORKER_TTL_MS_MAX: u64 = 600_000;
pub const WORKER_TTL_MS_DEFAULT: u64 = 60_000;
/// Notices that are kept in memory for one worker process.
pub const NOTICES_KEPT: usize = 1_000;
/// How long the record of one that is dead or drained stays.
pub const WORKER_KEEP_MS: u64 = 3_600_000;
/// How often the leases of one that drains are looked at.
pub const WORKER_LOOK_MS: u64 = 2_000;
/// The same while some are to be ended that were too many for one go.
pub const WORKER_GO_ON_MS: u64 = 100;
/// Until then every node knows that a session has ended, and no more leases are taken in its name.
pub const WORKER_LAG_MS: u64 = 10_000;
/// A lease of this age that its worker does not list was forgotten, and is not one that is on its way.
pub const UNKNOWN_AGE_MS: u64 = 5_000;
pub const HOLDING_MAX: usize = 10_000;
pub const VERSION_MAX: usize = 128;
pub const HOST_MAX: usize = 256;
const _: () = assert!(WORKER_TTL_MS_MAX * 4 / 3 < WORKER_KEEP_MS);
/// API keys of a deployment.
pub const KEYS_MAX: usize = 1000;
/// Lasting administrators beyond [`KEYS_MAX`] that a caller without a key, inside of a process, may make: the way back in
/// where the secret of the last one is lost and nobody can revoke another key.
pub const KEYS_RESERVED: usize = 8;
pub const KEY_NAMESPACES_MAX: usize = 64;
/// How long the old secret of a key stays good after a rotation.
pub const KEY_OVERLAP_MS_DEFAULT: u64 = DAY_MS;
pub const KEY_OVERLAP_MS_MAX: u64 = 30 * DAY_MS;
/// The use of a key is written down once in this time.
pub const KEY_TOUCH_MS: u64 = 3_600_000;

pub const AUDIT_KEPT_MS: u64 = 365 * DAY_MS;
/// Bytes of one text in an entry of the audit log; what is longer is cut.
pub const AUDIT_TEXT_MAX: usize = 512;

/// What every store takes in one commit.
pub const RECORDS_PER_COMMIT_MAX: usize = 4096;
pub const BYTES_PER_COMMIT_MAX: usize = 20 << 20;
/// What commands may fill of it; the rest is for what is kept beside them, such as replies and the audit log.
pub const BATCH_RECORDS_MAX: usize = RECORDS_PER_COMMIT_MAX - 96;

pub const DAY_MS: u64 = 24 * 3_600_000;

/// A batch call is applied in one commit per partition: its items, each with an attempt or a dedup row, must fit.
const RECORDS_PER_ITEM_MAX: usize = 3;
const _: () = assert!(BATCH_ITEMS_MAX * RECORDS_PER_ITEM_MAX <= RECORDS_PER_COMMIT_MAX);
const _: () = assert!(CLAIM_MAX * RECORDS_PER_ITEM_MAX <= RECORDS_PER_COMMIT_MAX);
const _: () = assert!(PURGE_PER_COMMIT * RECORDS_PER_ITEM_MAX <= RECORDS_PER_COMMIT_MAX);
/// A step is two records; a call that carries steps joins a batch that is nearly full.
const _: () = assert!(2000 + STEPS_PER_CALL_MAX * 2 + RECORDS_PER_ITEM_MAX <= RECORDS_PER_COMMIT_MAX);
const _: () = assert!(PURGE_STEPS_PER_COMMIT as usize * 2 <= PURGE_PER_COMMIT);
const _: () = assert!(BATCH_BYTES_MAX + (4 << 20) <= BYTES_PER_COMMIT_MAX);
const _: () = assert!((HORIZON_MS as u128 + POINT_MS as u128 * PRIORITY_MAX as u128) < (1 << 53));

/// The limits that a deployment may raise, up to their ceilings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub input_max: usize,
    pub result_max: usize,
    pub checkpoint_max: usize,
    pub step_max: usize,
    pub request_ttl_ms: u64,
    /// How long entries of the audit log are kept.
    pub audit_kept_ms: u64,
    pub flow_members_max: u32,
    pub flow_edges_max: u64,
    pub edges_per_member_max: u32,
    pub inputs_inline_max: usize,
    pub seal_by_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            input_max: INPUT_MAX,
            result_max: RESULT_MAX,
            checkpoint_max: CHECKPOINT_MAX,
            step_max: STEP_MAX,
            request_ttl_ms: REQUEST_TTL_MS,
            audit_kept_ms: AUDIT_KEPT_MS,
            flow_members_max: FLOW_MEMBERS_MAX,
            flow_edges_max: FLOW_EDGES_MAX,
            edges_per_member_max: EDGES_PER_MEMBER_MAX,
            inputs_inline_max: INPUTS_INLINE_MAX,
            seal_by_ms: SEAL_BY_MS,
        }
    }
}
