TABLE ailing WITH (autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_threshold=1000)
    task uuid NOT NULL
    since bigint NOT NULL
    last bigint NOT NULL
    failures integer NOT NULL
    namespace integer NOT NULL
CREATE INDEX ailing_last ON public.ailing USING btree (last, task)
CREATE INDEX ailing_namespace ON public.ailing USING btree (namespace, last, task)
CREATE UNIQUE INDEX ailing_pkey ON public.ailing USING btree (task)

TABLE artifact
    id uuid NOT NULL
    size bigint NOT NULL
    at bigint NOT NULL
    created_at bigint NOT NULL
    used_at bigint NOT NULL
    state smallint NOT NULL
    sha256 bytea NOT NULL
    name text
    detail text
    kind smallint NOT NULL
    namespace integer NOT NULL
CREATE UNIQUE INDEX artifact_content ON public.artifact USING btree (namespace, sha256, size, kind) WHERE (state <> 3)
CREATE INDEX artifact_namespace ON public.artifact USING btree (namespace, id)
CREATE INDEX artifact_pending ON public.artifact USING btree (id) WHERE (state = 1)
CREATE UNIQUE INDEX artifact_pkey ON public.artifact USING btree (id)
CREATE INDEX artifact_used ON public.artifact USING btree (used_at, id)

TABLE attempt
    job uuid NOT NULL
    worker uuid NOT NULL
    server uuid NOT NULL
    picked_up_at bigint NOT NULL
    started_at bigint NOT NULL
    finished_at bigint NOT NULL
    attempt integer NOT NULL
    ending smallint NOT NULL
    reason text
    details text
    log_path text
    log_bytes bigint
    due_at bigint
    namespace integer
CREATE INDEX attempt_log_bytes ON public.attempt USING btree (namespace, log_bytes) WHERE (namespace IS NOT NULL)
CREATE UNIQUE INDEX attempt_pkey ON public.attempt USING btree (job, attempt)

TABLE audit
    seq bigint NOT NULL
    at bigint NOT NULL
    line text NOT NULL
    hash bytea NOT NULL
CREATE UNIQUE INDEX audit_pkey ON public.audit USING btree (seq)

TABLE audit_ends
    id bigint NOT NULL
    base_seq bigint NOT NULL
    base_hash bytea NOT NULL
    head_seq bigint NOT NULL
    head_hash bytea NOT NULL
    signature bytea NOT NULL
CREATE UNIQUE INDEX audit_ends_pkey ON public.audit_ends USING btree (id)

TABLE authority
    generation integer NOT NULL
    certificate bytea NOT NULL
    sealed_key bytea NOT NULL
    created_at bigint NOT NULL
    retired_at bigint
CREATE UNIQUE INDEX authority_pkey ON public.authority USING btree (generation)

TABLE backfill WITH (fillfactor=70, autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_threshold=500)
    id uuid NOT NULL
    schedule uuid NOT NULL
    version bigint NOT NULL
    created_at bigint NOT NULL
    reached bigint
    ended_at bigint
    total integer NOT NULL
    made integer NOT NULL
    passed_over integer NOT NULL
    succeeded integer NOT NULL
    failed integer NOT NULL
    cancelled integer NOT NULL
    state smallint NOT NULL
    schedule_name text NOT NULL
    spec text NOT NULL
    created_by text NOT NULL
    ended_by text
    note text
    namespace integer NOT NULL
CREATE INDEX backfill_ended ON public.backfill USING btree (ended_at) WHERE (state <> 1)
CREATE INDEX backfill_namespace ON public.backfill USING btree (namespace, id)
CREATE UNIQUE INDEX backfill_pkey ON public.backfill USING btree (id)
CREATE INDEX backfill_running ON public.backfill USING btree (id) WHERE (state = 1)
CREATE INDEX backfill_schedule ON public.backfill USING btree (schedule, id)

TABLE backfill_run
    backfill uuid NOT NULL
    schedule uuid NOT NULL
    job uuid NOT NULL
    at bigint NOT NULL
    state smallint
CREATE INDEX backfill_run_open ON public.backfill_run USING btree (backfill, at) WHERE (state IS NULL)
CREATE UNIQUE INDEX backfill_run_pkey ON public.backfill_run USING btree (backfill, at)
CREATE INDEX backfill_run_schedule ON public.backfill_run USING btree (schedule, at, backfill)

TABLE batch
    id uuid NOT NULL
    namespace integer NOT NULL
    name text
    made_at bigint NOT NULL
    made_by text NOT NULL
    requester integer
    due_at bigint NOT NULL
    tasks bytea NOT NULL
    members bytea NOT NULL
    status smallint NOT NULL
    state text NOT NULL
    wake_at bigint
    ended_at bigint
CREATE INDEX batch_ended ON public.batch USING btree (ended_at, id) WHERE (ended_at IS NOT NULL)
CREATE INDEX batch_listed ON public.batch USING btree (namespace, id)
CREATE INDEX batch_of_status ON public.batch USING btree (namespace, status, id)
CREATE UNIQUE INDEX batch_pkey ON public.batch USING btree (id)
CREATE INDEX batch_wake ON public.batch USING btree (wake_at, id) WHERE (wake_at IS NOT NULL)

TABLE calendar
    name text NOT NULL COLLATE C
    revision bigint NOT NULL
    changed_at bigint NOT NULL
    changed_by text NOT NULL
    dates text NOT NULL
    namespace integer NOT NULL
CREATE UNIQUE INDEX calendar_pkey ON public.calendar USING btree (namespace, name)

TABLE calendar_use
    calendar text NOT NULL COLLATE C
    schedule uuid NOT NULL
    shard smallint NOT NULL
    name text NOT NULL COLLATE C
    namespace integer NOT NULL
CREATE INDEX calendar_use_name ON public.calendar_use USING btree (namespace, calendar, name)
CREATE UNIQUE INDEX calendar_use_pkey ON public.calendar_use USING btree (namespace, calendar, schedule)
CREATE INDEX calendar_use_schedule ON public.calendar_use USING btree (schedule)

TABLE cancel_request
    job uuid NOT NULL
CREATE UNIQUE INDEX cancel_request_pkey ON public.cancel_request USING btree (job)

TABLE cluster_secret
    revision bigint NOT NULL
    stage_since bigint
    made_at bigint
    next_made_at bigint
    overlap bigint
    id smallint NOT NULL
    stage smallint NOT NULL
    cluster text
CREATE UNIQUE INDEX cluster_secret_pkey ON public.cluster_secret USING btree (id)

TABLE cluster_secret_server
    server uuid NOT NULL
    revision bigint NOT NULL
    confirmed_at bigint NOT NULL
CREATE UNIQUE INDEX cluster_secret_server_pkey ON public.cluster_secret_server USING btree (server)

TABLE delivery
    job uuid NOT NULL
    at bigint NOT NULL
    events integer NOT NULL
    rule text NOT NULL COLLATE C
    summary text NOT NULL
    namespace integer NOT NULL
CREATE INDEX delivery_namespace ON public.delivery USING btree (namespace, at, job)
CREATE UNIQUE INDEX delivery_pkey ON public.delivery USING btree (at, job)
CREATE INDEX delivery_rule ON public.delivery USING btree (namespace, rule, at, job)

TABLE dropped_log
    path text NOT NULL COLLATE C
CREATE UNIQUE INDEX dropped_log_pkey ON public.dropped_log USING btree (path)

TABLE duty
    name text NOT NULL COLLATE C
    owner uuid NOT NULL
    epoch bigint NOT NULL
    lease_until bigint NOT NULL
CREATE UNIQUE INDEX duty_pkey ON public.duty USING btree (name)

TABLE enrolment
    id uuid NOT NULL
    join_token uuid NOT NULL
    name text NOT NULL
    scope text NOT NULL
    key_sha256 bytea NOT NULL
    enrolled_at bigint NOT NULL
    renewed_at bigint NOT NULL
    expires_at bigint NOT NULL
    revoked_at bigint
    revision bigint NOT NULL
CREATE INDEX enrolment_expires ON public.enrolment USING btree (expires_at, id)
CREATE UNIQUE INDEX enrolment_key ON public.enrolment USING btree (join_token, key_sha256)
CREATE UNIQUE INDEX enrolment_pkey ON public.enrolment USING btree (id)
CREATE UNIQUE INDEX enrolment_revision ON public.enrolment USING btree (revision)

TABLE enrolment_counter
    id integer NOT NULL
    revision bigint NOT NULL
CREATE UNIQUE INDEX enrolment_counter_pkey ON public.enrolment_counter USING btree (id)

TABLE history PARTITION BY RANGE (finished_at)
    id uuid NOT NULL
    finished_at bigint NOT NULL
    submitted_at bigint NOT NULL
    task bigint NOT NULL
    picked_up_at bigint
    started_at bigint
    due_at bigint
    next_attempt integer NOT NULL
    attempt integer
    worker integer
    server integer
    failures smallint NOT NULL
    node_failures smallint NOT NULL
    priority smallint NOT NULL
    state smallint NOT NULL
    ending smallint
    early boolean NOT NULL
    tracing_id text
    reason text
    output bytea
    input bytea
    details text
    log_path text
    log_bytes bigint
    source bytea
    namespace integer
    requester integer
CREATE INDEX history_early ON ONLY public.history USING btree (finished_at, id) WHERE early
CREATE INDEX history_log_bytes ON ONLY public.history USING btree (namespace, log_bytes) WHERE ((namespace IS NOT NULL) AND (log_bytes IS NOT NULL))
CREATE INDEX history_namespace ON ONLY public.history USING btree (namespace, id) WHERE (namespace IS NOT NULL)
CREATE INDEX history_task ON ONLY public.history USING btree (task, id)
CREATE INDEX history_tracing ON ONLY public.history USING btree (tracing_id, id) WHERE (tracing_id IS NOT NULL)
CREATE INDEX history_unsuccessful ON ONLY public.history USING btree (state, id) WHERE (state <> 1)

TABLE idempotency
    key text NOT NULL COLLATE C
    fingerprint bytea NOT NULL
    expires_at bigint NOT NULL
    answer bytea NOT NULL
    namespace integer NOT NULL
CREATE INDEX idempotency_expiry ON public.idempotency USING btree (expires_at)
CREATE UNIQUE INDEX idempotency_pkey ON public.idempotency USING btree (namespace, key)

TABLE identity_key
    id bigint NOT NULL
    changed bigint NOT NULL
    owner bigint
    created_at bigint NOT NULL
    expires_at bigint
    last_used_at bigint
    replaced_by bigint
    revoked_at bigint
    digest bytea NOT NULL
    name text NOT NULL COLLATE C
    namespace text NOT NULL COLLATE C
    rights text NOT NULL
    created_by text NOT NULL
    revoked_by text
CREATE INDEX identity_key_changed ON public.identity_key USING btree (changed)
CREATE UNIQUE INDEX identity_key_name ON public.identity_key USING btree (namespace, name) WHERE ((revoked_at IS NULL) AND (replaced_by IS NULL))
CREATE INDEX identity_key_owner ON public.identity_key USING btree (owner) WHERE ((owner IS NOT NULL) AND (revoked_at IS NULL))
CREATE UNIQUE INDEX identity_key_pkey ON public.identity_key USING btree (id)

TABLE identity_session
    id bigint NOT NULL
    changed bigint NOT NULL
    user_id bigint NOT NULL
    created_at bigint NOT NULL
    expires_at bigint NOT NULL
    last_used_at bigint NOT NULL
    ended_at bigint
    digest bytea NOT NULL
    address text
CREATE INDEX identity_session_changed ON public.identity_session USING btree (changed)
CREATE UNIQUE INDEX identity_session_pkey ON public.identity_session USING btree (id)
CREATE INDEX identity_session_user ON public.identity_session USING btree (user_id, created_at) WHERE (ended_at IS NULL)

TABLE identity_user
    id bigint NOT NULL
    changed bigint NOT NULL
    created_at bigint NOT NULL
    changed_at bigint NOT NULL
    deleted_at bigint
    revision integer NOT NULL
    disabled boolean NOT NULL
    name text NOT NULL COLLATE C
    mail text
    role text NOT NULL
    password text
    created_by text NOT NULL
    changed_by text NOT NULL
    openid_issuer text COLLATE C
    openid_subject text COLLATE C
CREATE INDEX identity_user_changed ON public.identity_user USING btree (changed)
CREATE UNIQUE INDEX identity_user_name ON public.identity_user USING btree (name) WHERE (deleted_at IS NULL)
CREATE UNIQUE INDEX identity_user_openid ON public.identity_user USING btree (openid_issuer, openid_subject) WHERE ((deleted_at IS NULL) AND (openid_subject IS NOT NULL))
CREATE UNIQUE INDEX identity_user_pkey ON public.identity_user USING btree (id)

TABLE job WITH (autovacuum_vacuum_scale_factor=0.05, autovacuum_vacuum_threshold=5000, autovacuum_analyze_scale_factor=0.1, autovacuum_analyze_threshold=1000)
    id uuid NOT NULL
    due_at bigint NOT NULL
    submitted_at bigint NOT NULL
    task bigint NOT NULL
    next_attempt integer NOT NULL
    shard smallint NOT NULL
    failures smallint NOT NULL
    node_failures smallint NOT NULL
    priority smallint NOT NULL
    moved boolean NOT NULL
    tracing_id text
    input bytea
    source bytea
    late_from bigint
    give_backs text
    namespace integer
    requester integer
CREATE INDEX job_given_back ON public.job USING btree (late_from, id) WHERE (late_from IS NOT NULL)
CREATE INDEX job_moved ON public.job USING btree (id) WHERE moved
CREATE INDEX job_namespace ON public.job USING btree (namespace, id) WHERE (namespace IS NOT NULL)
CREATE UNIQUE INDEX job_pkey ON public.job USING btree (shard, due_at, id)
CREATE INDEX job_tracing ON public.job USING btree (tracing_id, id) WHERE (tracing_id IS NOT NULL)
CREATE INDEX job_tracked ON public.job USING btree (shard, id) WHERE (source >= '\x80'::bytea)
CREATE INDEX job_urgent ON public.job USING btree (shard, due_at, id) WHERE (priority > 0)

TABLE job_action
    job uuid NOT NULL
    at bigint NOT NULL
    requester integer NOT NULL
    kind smallint NOT NULL
CREATE UNIQUE INDEX job_action_pkey ON public.job_action USING btree (job, at)

TABLE join_token
    id uuid NOT NULL
    secret_sha256 bytea NOT NULL
    scope text NOT NULL
    uses_max bigint NOT NULL
    uses bigint NOT NULL
    created_at bigint NOT NULL
    created_by text NOT NULL
    expires_at bigint NOT NULL
    revoked_at bigint
CREATE INDEX join_token_expires ON public.join_token USING btree (expires_at, id)
CREATE UNIQUE INDEX join_token_pkey ON public.join_token USING btree (id)

TABLE log
    job uuid NOT NULL
    begins bigint NOT NULL
    attempt integer NOT NULL
    bytes bytea NOT NULL
    marks bytea
CREATE UNIQUE INDEX log_pkey ON public.log USING btree (job, attempt, begins)

TABLE member
    id uuid NOT NULL
    started_at bigint NOT NULL
    seen_at bigint NOT NULL
    lag bigint NOT NULL
    workers integer NOT NULL
    running integer NOT NULL
    address text NOT NULL
    version text NOT NULL
    roles text[] NOT NULL
    zone_data text NOT NULL
CREATE UNIQUE INDEX member_pkey ON public.member USING btree (id)

TABLE meta
    key text NOT NULL COLLATE C
    value text NOT NULL
CREATE UNIQUE INDEX meta_pkey ON public.meta USING btree (key)

TABLE migration
    version integer NOT NULL
    name text NOT NULL
    checksum bytea NOT NULL
    applied_at bigint NOT NULL
CREATE UNIQUE INDEX migration_pkey ON public.migration USING btree (version)

TABLE namespace
    id integer NOT NULL
    revision integer NOT NULL
    created_at bigint NOT NULL
    changed_at bigint NOT NULL
    deleted_at bigint
    name text NOT NULL COLLATE C
    created_by text NOT NULL
    changed_by text NOT NULL
    spec text NOT NULL
CREATE INDEX namespace_deleted ON public.namespace USING btree (deleted_at) WHERE (deleted_at IS NOT NULL)
CREATE UNIQUE INDEX namespace_name ON public.namespace USING btree (name) WHERE (deleted_at IS NULL)
CREATE UNIQUE INDEX namespace_pkey ON public.namespace USING btree (id)

TABLE namespace_counter
    id integer NOT NULL
    last_id integer NOT NULL
    revision bigint NOT NULL
CREATE UNIQUE INDEX namespace_counter_pkey ON public.namespace_counter USING btree (id)

TABLE node
    number integer NOT NULL
    id uuid NOT NULL
    used_at bigint NOT NULL
CREATE UNIQUE INDEX node_id_key ON public.node USING btree (id)
CREATE UNIQUE INDEX node_pkey ON public.node USING btree (number)

TABLE notice WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000)
    seq bigint NOT NULL
    at bigint NOT NULL
    task uuid
    job uuid
    schedule uuid
    planned_at bigint
    lateness bigint
    count integer NOT NULL
    shard smallint NOT NULL
    kind smallint NOT NULL
CREATE UNIQUE INDEX notice_pkey ON public.notice USING btree (seq)

TABLE notification_rule WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=200)
    version bigint NOT NULL
    created_at bigint NOT NULL
    changed_at bigint NOT NULL
    revision integer NOT NULL
    name text NOT NULL COLLATE C
    created_by text NOT NULL
    changed_by text NOT NULL
    spec text NOT NULL
    state text
    namespace integer NOT NULL
CREATE UNIQUE INDEX notification_rule_pkey ON public.notification_rule USING btree (namespace, name)

TABLE occurrence PARTITION BY RANGE (at)
    schedule uuid NOT NULL
    job uuid
    at bigint NOT NULL
    slot bigint
    decided_at bigint NOT NULL
    count integer NOT NULL
    shard smallint NOT NULL
    verdict smallint NOT NULL
    marks smallint NOT NULL
    reason text
    started_at bigint
    requested_by text
CREATE UNIQUE INDEX occurrence_pkey ON ONLY public.occurrence USING btree (schedule, at)
CREATE INDEX occurrence_queued ON ONLY public.occurrence USING btree (shard, schedule, at) WHERE (verdict = 2)

TABLE queue
    state_at bigint NOT NULL
    changed_at bigint NOT NULL
    namespace integer NOT NULL
    revision integer NOT NULL
    state smallint NOT NULL
    name text NOT NULL COLLATE C
    state_by text NOT NULL
    changed_by text NOT NULL
    note text
    spec text NOT NULL
CREATE UNIQUE INDEX queue_pkey ON public.queue USING btree (namespace, name)

TABLE queue_counter
    revision bigint NOT NULL
    id integer NOT NULL
CREATE UNIQUE INDEX queue_counter_pkey ON public.queue_counter USING btree (id)

TABLE requester
    id integer NOT NULL
    person bigint NOT NULL
    kind text NOT NULL COLLATE C
    name text NOT NULL COLLATE C
CREATE UNIQUE INDEX requester_name ON public.requester USING btree (name, kind, person)
CREATE UNIQUE INDEX requester_pkey ON public.requester USING btree (id)

TABLE rerun
    job uuid NOT NULL
    at bigint NOT NULL
    next_attempt integer NOT NULL
    state smallint NOT NULL
CREATE INDEX rerun_job ON public.rerun USING btree (job, at, next_attempt)

TABLE running_place WITH (fillfactor=20, autovacuum_vacuum_threshold=200, autovacuum_vacuum_scale_factor=0)
    namespace integer NOT NULL
    server uuid NOT NULL
    running bigint NOT NULL
    places bigint NOT NULL
    waiting bigint NOT NULL
    served_at bigint NOT NULL
CREATE UNIQUE INDEX running_place_pkey ON public.running_place USING btree (namespace, server)

TABLE running_server WITH (fillfactor=20, autovacuum_vacuum_threshold=200, autovacuum_vacuum_scale_factor=0)
    server uuid NOT NULL
    seq bigint NOT NULL
    shards bytea NOT NULL
CREATE UNIQUE INDEX running_server_pkey ON public.running_server USING btree (server)

TABLE schedule WITH (fillfactor=90)
    id uuid NOT NULL
    task uuid NOT NULL
    created_at bigint NOT NULL
    changed_at bigint NOT NULL
    since bigint NOT NULL
    skip_until bigint
    paused_at bigint
    revision integer NOT NULL
    runs integer NOT NULL
    shard smallint NOT NULL
    failures smallint NOT NULL
    priority smallint
    name text NOT NULL COLLATE C
    spec text NOT NULL
    created_by text NOT NULL
    changed_by text NOT NULL
    paused_by text
    pause_note text
    calendars jsonb
    input bytea
    last_success bigint
    namespace integer NOT NULL
CREATE UNIQUE INDEX schedule_name ON public.schedule USING btree (namespace, name)
CREATE UNIQUE INDEX schedule_pkey ON public.schedule USING btree (shard, id)
CREATE INDEX schedule_task ON public.schedule USING btree (task, name)

TABLE schedule_change
    schedule uuid NOT NULL
    number bigint NOT NULL
    at bigint NOT NULL
    kind smallint NOT NULL
    who text NOT NULL
    note text
    former_spec text
CREATE INDEX schedule_change_at ON public.schedule_change USING btree (at)
CREATE UNIQUE INDEX schedule_change_pkey ON public.schedule_change USING btree (schedule, number)

TABLE sealed_key
    label text NOT NULL COLLATE C
    root_key bytea NOT NULL
    sealed bytea NOT NULL
CREATE UNIQUE INDEX sealed_key_pkey ON public.sealed_key USING btree (label)

TABLE secret
    created_at bigint NOT NULL
    changed_at bigint NOT NULL
    revision integer NOT NULL
    namespace integer NOT NULL
    name text NOT NULL COLLATE C
    created_by text NOT NULL
    changed_by text NOT NULL
    sealed bytea NOT NULL
CREATE UNIQUE INDEX secret_pkey ON public.secret USING btree (namespace, name)

TABLE secret_use
    task uuid NOT NULL
    namespace integer NOT NULL
    secret text NOT NULL COLLATE C
CREATE UNIQUE INDEX secret_use_pkey ON public.secret_use USING btree (namespace, secret, task)
CREATE INDEX secret_use_task ON public.secret_use USING btree (task)

TABLE shard WITH (fillfactor=10, autovacuum_vacuum_threshold=200, autovacuum_vacuum_scale_factor=0)
    id smallint NOT NULL
    epoch bigint NOT NULL
    owner uuid
    lease_until bigint NOT NULL
CREATE UNIQUE INDEX shard_pkey ON public.shard USING btree (id)

TABLE stale_outcome
    job uuid NOT NULL
    worker uuid NOT NULL
    at bigint NOT NULL
    attempt integer NOT NULL
    outcome text NOT NULL
CREATE INDEX stale_outcome_at ON public.stale_outcome USING btree (at)
CREATE UNIQUE INDEX stale_outcome_pkey ON public.stale_outcome USING btree (job, attempt, worker)

TABLE start_batch WITH (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=1000)
    epoch bigint NOT NULL
    seq bigint NOT NULL
    server uuid NOT NULL
    shard smallint NOT NULL
    starts bytea NOT NULL STORAGE e
CREATE UNIQUE INDEX start_batch_pkey ON public.start_batch USING btree (shard, epoch, seq)

TABLE submission_rate WITH (fillfactor=20)
    namespace integer NOT NULL
    paid_until bigint NOT NULL
CREATE UNIQUE INDEX submission_rate_pkey ON public.submission_rate USING btree (namespace)

TABLE task
    number bigint NOT NULL
    id uuid NOT NULL
    created_at bigint NOT NULL
    updated_at bigint NOT NULL
    used_until bigint NOT NULL
    revision bigint NOT NULL
    deleted boolean NOT NULL
    name text COLLATE C
    digest bytea
    kind text NOT NULL
    queue text NOT NULL
    spec text NOT NULL
    artifact uuid
    waits boolean NOT NULL
    namespace integer NOT NULL
    created_by text
    changed_by text
CREATE INDEX task_artifact ON public.task USING btree (artifact, id) WHERE (artifact IS NOT NULL)
CREATE UNIQUE INDEX task_digest_key ON public.task USING btree (namespace, digest) WHERE (digest IS NOT NULL)
CREATE UNIQUE INDEX task_id_key ON public.task USING btree (id)
CREATE UNIQUE INDEX task_live_name ON public.task USING btree (namespace, name) WHERE ((NOT deleted) AND (name IS NOT NULL))
CREATE UNIQUE INDEX task_pkey ON public.task USING btree (number)
CREATE INDEX task_queue ON public.task USING btree (((namespace)::bigint), queue COLLATE "C") WHERE ((NOT deleted) AND (name IS NOT NULL))
CREATE INDEX task_unlisted ON public.task USING btree (used_until) WHERE (deleted OR (name IS NULL))

TABLE task_file
    artifact uuid NOT NULL
    task uuid NOT NULL
CREATE UNIQUE INDEX task_file_pkey ON public.task_file USING btree (artifact, task)
CREATE INDEX task_file_task ON public.task_file USING btree (task)

TABLE watermark WITH (fillfactor=10, autovacuum_vacuum_threshold=200, autovacuum_vacuum_scale_factor=0)
    shard smallint NOT NULL
    at bigint NOT NULL
CREATE UNIQUE INDEX watermark_pkey ON public.watermark USING btree (shard)

TABLE worker
    id uuid NOT NULL
    name text NOT NULL
    host text
    version text NOT NULL
    first_seen_at bigint NOT NULL
    last_seen_at bigint NOT NULL
    left_at bigint
CREATE INDEX worker_last_seen ON public.worker USING btree (last_seen_at, id)
CREATE UNIQUE INDEX worker_pkey ON public.worker USING btree (id)

TABLE workflow
    namespace integer NOT NULL
    name text NOT NULL COLLATE C
    version integer NOT NULL
    spec text NOT NULL
    made_at bigint NOT NULL
    made_by text NOT NULL
CREATE UNIQUE INDEX workflow_pkey ON public.workflow USING btree (namespace, name, version)

TABLE workflow_output
    run uuid NOT NULL
    node integer NOT NULL
    item integer NOT NULL
    output bytea NOT NULL
CREATE UNIQUE INDEX workflow_output_pkey ON public.workflow_output USING btree (run, node, item)

TABLE workflow_run WITH (fillfactor=50)
    id uuid NOT NULL
    namespace integer NOT NULL
    workflow text NOT NULL COLLATE C
    version integer NOT NULL
    made_at bigint NOT NULL
    made_by text NOT NULL
    input bytea
    tasks bytea NOT NULL
    status smallint NOT NULL
    state text NOT NULL
    wake_at bigint
    ended_at bigint
    packed bytea
    stamp bigint
CREATE INDEX workflow_run_ended ON public.workflow_run USING btree (ended_at, id) WHERE (ended_at IS NOT NULL)
CREATE INDEX workflow_run_listed ON public.workflow_run USING btree (namespace, id)
CREATE INDEX workflow_run_of_workflow ON public.workflow_run USING btree (namespace, workflow, id)
CREATE UNIQUE INDEX workflow_run_pkey ON public.workflow_run USING btree (id)
CREATE INDEX workflow_run_wake ON public.workflow_run USING btree (wake_at, id) WHERE (wake_at IS NOT NULL)
