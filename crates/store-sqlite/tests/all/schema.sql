CREATE TABLE api_keys (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    name text collate binary not null,
    created_at integer not null,
    expires_at integer,
    last_used_at integer,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE INDEX api_keys_by_name on api_keys (partition, name, id);
CREATE TABLE attempts (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    execution blob not null,
    number integer not null,
    state text collate binary not null,
    started_at integer not null,
    ended_at integer not null,
    body blob,
    result blob,
    detail blob,
    primary key (partition, id)
) without rowid;
CREATE TABLE audit (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    acted_at integer not null,
    principal text collate binary not null,
    verb text collate binary not null,
    target text collate binary not null,
    result text collate binary not null,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE INDEX audit_by_time on audit (partition, acted_at, id);
CREATE TABLE barred (
    partition integer not null,
    commit_id blob not null,
    at integer not null,
    primary key (partition, commit_id)
) without rowid;
CREATE TABLE bulk_jobs (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    namespace text collate binary not null,
    role text collate binary not null,
    created_at integer not null,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE TABLE continuations (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    namespace text collate binary not null,
    work text collate binary not null,
    created_at integer not null,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE TABLE dead_letters (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    scanner text collate binary not null,
    parked_at integer not null,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE TABLE dedups (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    namespace text collate binary not null,
    expires_at integer,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE TABLE due (
    partition integer not null,
    timer integer not null,
    at integer not null,
    kind integer not null,
    id blob not null,
    primary key (partition, timer, at, kind, id)
) without rowid;
CREATE TABLE edges (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    flow blob not null,
    upstream blob not null,
    downstream blob not null,
    state text collate binary not null,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE TABLE executions (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    namespace text collate binary not null,
    lane text collate binary not null,
    kind text collate binary not null,
    capabilities text collate binary not null,
    concurrency_key blob not null,
    parent blob,
    created_at integer not null,
    state text collate binary not null,
    priority integer not null,
    ready_order integer,
    attempts integer not null,
    worker text collate binary,
    claim_ref blob,
    finished_at integer,
    updated_at integer not null,
    listed text collate binary,
    holder text collate binary,
    flow blob,
    member_no integer,
    live_in blob,
    hot blob,
    spec blob,
    tags blob,
    trouble blob,
    input blob,
    checkpoint blob,
    actions blob,
    result blob,
    member blob,
    inlets blob,
    primary key (partition, id)
);
CREATE INDEX executions_by_claim on executions (partition, claim_ref, id) where claim_ref is not null;
CREATE INDEX executions_by_created on executions (partition, namespace, created_at, id);
CREATE INDEX executions_by_flow on executions (partition, flow, member_no, id) where flow is not null;
CREATE INDEX executions_by_holder on executions (partition, namespace, holder, id) where holder is not null;
CREATE INDEX executions_by_state on executions (partition, namespace, listed, created_at, id) where listed is not null;
CREATE INDEX executions_children on executions (partition, parent, id) where parent is not null;
CREATE INDEX executions_live on executions (partition, live_in, id) where live_in is not null;
CREATE INDEX executions_ready on executions (partition, namespace, lane, kind, capabilities, concurrency_key, ready_order, id) where ready_order is not null;
CREATE TABLE feed (
    partition integer not null,
    seq integer not null,
    generation integer not null,
    now integer not null,
    commit_id blob not null,
    events blob,
    primary key (partition, seq)
) without rowid;
CREATE TABLE flows (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    namespace text collate binary not null,
    created_at integer not null,
    kind text collate binary not null,
    name text collate binary,
    state text collate binary not null,
    members integer not null,
    live integer not null,
    finished_at integer,
    hot blob,
    definition blob,
    summary blob,
    tags blob,
    trouble blob,
    primary key (partition, id)
) without rowid;
CREATE INDEX flows_by_created on flows (partition, namespace, created_at, id);
CREATE TABLE large_parts (
    partition integer not null,
    kind integer not null,
    id blob not null,
    part integer not null,
    bytes blob not null,
    primary key (partition, kind, id, part)
);
CREATE TABLE meta (
    key text not null primary key,
    value blob not null
) without rowid;
CREATE TABLE nodes (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    name text collate binary not null,
    version text collate binary not null,
    started_at integer not null,
    seen_at integer not null,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE TABLE partitions (
    id integer not null primary key,
    generation integer not null,
    seq integer not null,
    now integer not null,
    last blob not null default x'00000000000000000000000000000000'
);
CREATE TABLE registers (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    subject text collate binary not null,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE TABLE steps (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    execution blob not null,
    number integer not null,
    name text collate binary not null,
    attempt integer not null,
    recorded_at integer not null,
    bytes integer not null,
    body blob,
    value blob,
    primary key (partition, id)
) without rowid;
CREATE TABLE tombstones (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    flow blob not null,
    member_no integer not null,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE INDEX tombstones_by_flow on tombstones (partition, flow, member_no, id);
CREATE TABLE workers (
    partition integer not null,
    id blob not null,
    revision blob not null,
    large integer not null,
    namespace text collate binary not null,
    instance text collate binary not null,
    worker text collate binary not null,
    session integer not null,
    state text collate binary not null,
    version text collate binary,
    seen_at integer not null,
    body blob,
    primary key (partition, id)
) without rowid;
CREATE INDEX workers_by_instance on workers (partition, namespace, instance, id);
