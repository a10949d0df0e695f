table api_keys with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    name text C not null
    created_at bigint not null
    expires_at bigint
    last_used_at bigint
    body bytea external
table api_keys_by_name with (autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    name text C not null
    id bytea not null
table attempts with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    execution bytea not null
    number bigint not null
    state text C not null
    started_at bigint not null
    ended_at bigint not null
    body bytea external
    result bytea external
    detail bytea external
table audit with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    acted_at bigint not null
    principal text C not null
    verb text C not null
    target text C not null
    result text C not null
    body bytea external
table barred
    partition smallint not null
    commit_id uuid not null
    at bigint not null
table bulk_jobs with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    namespace text C not null
    role text C not null
    created_at bigint not null
    body bytea external
table continuations with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    namespace text C not null
    work text C not null
    created_at bigint not null
    body bytea external
table dead_letters with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    scanner text C not null
    parked_at bigint not null
    body bytea external
table dedups with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    namespace text C not null
    expires_at bigint
    body bytea external
table due with (autovacuum_vacuum_scale_factor=0.01)
    partition smallint not null
    timer smallint not null
    at bigint not null
    kind smallint not null
    id bytea not null
table edges with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    flow bytea not null
    upstream bytea not null
    downstream bytea not null
    state text C not null
    body bytea external
table executions with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    namespace text C not null
    lane text C not null
    kind text C not null
    capabilities text C not null
    concurrency_key bytea not null
    parent bytea
    created_at bigint not null
    state text C not null
    priority bigint not null
    ready_order bigint
    attempts bigint not null
    worker text C
    claim_ref bytea
    finished_at bigint
    updated_at bigint not null
    listed text C
    holder text C
    flow bytea
    member_no bigint
    live_in bytea
    hot bytea external
    spec bytea external
    tags bytea external
    trouble bytea external
    input bytea external
    checkpoint bytea external
    actions bytea external
    result bytea external
    member bytea external
    inlets bytea external
table executions_by_claim with (autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    claim_ref bytea not null
    id bytea not null
table executions_by_holder with (autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    namespace text C not null
    holder text C not null
    id bytea not null
table executions_by_state with (autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    namespace text C not null
    listed text C not null
    created_at bigint not null
    id bytea not null
table executions_live with (autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    live_in bytea not null
    id bytea not null
table executions_ready with (autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    namespace text C not null
    lane text C not null
    kind text C not null
    capabilities text C not null
    concurrency_key bytea not null
    ready_order bigint not null
    id bytea not null
table feed with (toast_tuple_target=8160)
    partition smallint not null
    seq bigint not null
    generation bigint not null
    now bigint not null
    commit_id uuid not null
    events bytea external
table flows with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    namespace text C not null
    created_at bigint not null
    kind text C not null
    name text C
    state text C not null
    members bigint not null
    live bigint not null
    finished_at bigint
    hot bytea external
    definition bytea external
    summary bytea external
    tags bytea external
    trouble bytea external
table meta
    key text not null
    value text not null
table nodes with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    name text C not null
    version text C not null
    started_at bigint not null
    seen_at bigint not null
    body bytea external
table partitions with (fillfactor=10, autovacuum_vacuum_threshold=200, autovacuum_vacuum_scale_factor=0.01)
    id smallint not null
    generation bigint not null
    seq bigint not null
    now bigint not null
    last uuid not null
table registers with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    subject text C not null
    body bytea external
table steps with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    execution bytea not null
    number bigint not null
    name text C not null
    attempt bigint not null
    recorded_at bigint not null
    bytes bigint not null
    body bytea external
    value bytea external
table tombstones with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    flow bytea not null
    member_no bigint not null
    body bytea external
table workers with (fillfactor=70, autovacuum_vacuum_scale_factor=0.01, autovacuum_analyze_scale_factor=0.05)
    partition smallint not null
    id bytea not null
    revision uuid not null
    namespace text C not null
    instance text C not null
    worker text C not null
    session bigint not null
    state text C not null
    version text C
    seen_at bigint not null
    body bytea external
CREATE UNIQUE INDEX api_keys_pkey ON weft.api_keys USING btree (partition, id)
CREATE UNIQUE INDEX api_keys_by_name_pkey ON weft.api_keys_by_name USING btree (partition, name, id)
CREATE UNIQUE INDEX attempts_pkey ON weft.attempts USING btree (partition, id)
CREATE INDEX audit_by_time ON weft.audit USING btree (partition, acted_at, id) WHERE (partition >= 0)
CREATE UNIQUE INDEX audit_pkey ON weft.audit USING btree (partition, id)
CREATE UNIQUE INDEX barred_pkey ON weft.barred USING btree (partition, commit_id)
CREATE UNIQUE INDEX bulk_jobs_pkey ON weft.bulk_jobs USING btree (partition, id)
CREATE UNIQUE INDEX continuations_pkey ON weft.continuations USING btree (partition, id)
CREATE UNIQUE INDEX dead_letters_pkey ON weft.dead_letters USING btree (partition, id)
CREATE UNIQUE INDEX dedups_pkey ON weft.dedups USING btree (partition, id)
CREATE UNIQUE INDEX due_pkey ON weft.due USING btree (partition, timer, at, kind, id)
CREATE UNIQUE INDEX edges_pkey ON weft.edges USING btree (partition, id)
CREATE INDEX executions_by_created ON weft.executions USING btree (partition, namespace, created_at, id) WHERE (partition >= 0)
CREATE INDEX executions_by_flow ON weft.executions USING btree (partition, flow, member_no, id) WHERE ((partition >= 0) AND (flow IS NOT NULL))
CREATE INDEX executions_children ON weft.executions USING btree (partition, parent, id) WHERE ((partition >= 0) AND (parent IS NOT NULL))
CREATE UNIQUE INDEX executions_pkey ON weft.executions USING btree (partition, id)
CREATE UNIQUE INDEX executions_by_claim_pkey ON weft.executions_by_claim USING btree (partition, claim_ref, id)
CREATE UNIQUE INDEX executions_by_holder_pkey ON weft.executions_by_holder USING btree (partition, namespace, holder, id)
CREATE UNIQUE INDEX executions_by_state_pkey ON weft.executions_by_state USING btree (partition, namespace, listed, created_at, id)
CREATE UNIQUE INDEX executions_live_pkey ON weft.executions_live USING btree (partition, live_in, id)
CREATE UNIQUE INDEX executions_ready_pkey ON weft.executions_ready USING btree (partition, namespace, lane, kind, capabilities, concurrency_key, ready_order, id)
CREATE INDEX feed_by_seq ON weft.feed USING btree (partition, seq, commit_id) WHERE (partition >= 0)
CREATE UNIQUE INDEX feed_pkey ON weft.feed USING btree (partition, commit_id)
CREATE INDEX flows_by_created ON weft.flows USING btree (partition, namespace, created_at, id) WHERE (partition >= 0)
CREATE UNIQUE INDEX flows_pkey ON weft.flows USING btree (partition, id)
CREATE UNIQUE INDEX meta_pkey ON weft.meta USING btree (key)
CREATE UNIQUE INDEX nodes_pkey ON weft.nodes USING btree (partition, id)
CREATE UNIQUE INDEX partitions_pkey ON weft.partitions USING btree (id)
CREATE UNIQUE INDEX registers_pkey ON weft.registers USING btree (partition, id)
CREATE UNIQUE INDEX steps_pkey ON weft.steps USING btree (partition, id)
CREATE INDEX tombstones_by_flow ON weft.tombstones USING btree (partition, flow, member_no, id) WHERE (partition >= 0)
CREATE UNIQUE INDEX tombstones_pkey ON weft.tombstones USING btree (partition, id)
CREATE INDEX workers_by_instance ON weft.workers USING btree (partition, namespace, instance, id) WHERE (partition >= 0)
CREATE UNIQUE INDEX workers_pkey ON weft.workers USING btree (partition, id)
CREATE OR REPLACE FUNCTION weft.guard(holds boolean)
 RETURNS boolean
 LANGUAGE plpgsql
AS $function$
begin
    if holds then
        return true;
    end if;
    raise exception 'a check of a commit does not hold' using errcode = 'WF001';
end
$function$
