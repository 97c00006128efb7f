CREATE TABLE ailing (
    task     BLOB NOT NULL PRIMARY KEY,
    since    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    failures INTEGER NOT NULL
, namespace INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;

CREATE INDEX ailing_last ON ailing (last);

CREATE INDEX ailing_namespace ON ailing (namespace, last, task);

CREATE TABLE artifact (
    id         BLOB NOT NULL PRIMARY KEY,
    name       TEXT,
    size       INTEGER NOT NULL,
    sha256     BLOB NOT NULL,
    state      INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    detail     TEXT,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL
, kind INTEGER NOT NULL DEFAULT 1, namespace INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;

CREATE INDEX artifact_pending ON artifact (id) WHERE state = 1;

CREATE INDEX artifact_used ON artifact (used_at, id);

CREATE UNIQUE INDEX artifact_content ON artifact (namespace, sha256, size, kind) WHERE state <> 3;

CREATE INDEX artifact_namespace ON artifact (namespace, id);

CREATE TABLE attempt (
    job          BLOB NOT NULL,
    attempt      INTEGER NOT NULL,
    worker       BLOB NOT NULL,
    server       BLOB NOT NULL,
    picked_up_at INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    finished_at  INTEGER NOT NULL,
    ending       INTEGER NOT NULL,
    reason       TEXT, details TEXT, log_path TEXT, log_bytes INTEGER, due_at INTEGER, namespace INTEGER,
    PRIMARY KEY (job, attempt)
) STRICT, WITHOUT ROWID;

CREATE INDEX attempt_log_bytes ON attempt (namespace, log_bytes) WHERE namespace IS NOT NULL;

CREATE TABLE audit (
    seq  INTEGER PRIMARY KEY,
    at   INTEGER NOT NULL,
    -- Byte for byte: the hash is that of the line and of the hash before it.
    line TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;

CREATE TABLE audit_ends (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    base_seq  INTEGER NOT NULL,
    base_hash BLOB NOT NULL,
    head_seq  INTEGER NOT NULL,
    head_hash BLOB NOT NULL,
    -- Of the head.
    signature BLOB NOT NULL
) STRICT;

CREATE TABLE authority (
    generation INTEGER PRIMARY KEY,
    certificate BLOB NOT NULL,
    sealed_key BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    retired_at INTEGER
) STRICT;

CREATE TABLE backfill (
    id            BLOB NOT NULL PRIMARY KEY,
    schedule      BLOB NOT NULL,
    schedule_name TEXT NOT NULL,
    spec          TEXT NOT NULL,
    created_at    INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    version       INTEGER NOT NULL,
    state         INTEGER NOT NULL,
    reached       INTEGER,
    total         INTEGER NOT NULL,
    made          INTEGER NOT NULL,
    passed_over   INTEGER NOT NULL,
    succeeded     INTEGER NOT NULL,
    failed        INTEGER NOT NULL,
    cancelled     INTEGER NOT NULL,
    ended_at      INTEGER,
    ended_by      TEXT,
    note          TEXT
, namespace INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;

CREATE INDEX backfill_schedule ON backfill (schedule, id);

CREATE INDEX backfill_running ON backfill (id) WHERE state = 1;

CREATE INDEX backfill_ended ON backfill (ended_at) WHERE state <> 1;

CREATE INDEX backfill_namespace ON backfill (namespace, id);

CREATE TABLE backfill_run (
    backfill BLOB NOT NULL,
    at       INTEGER NOT NULL,
    schedule BLOB NOT NULL,
    job      BLOB NOT NULL,
    state    INTEGER,
    PRIMARY KEY (backfill, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX backfill_run_open ON backfill_run (backfill, at) WHERE state IS NULL;

CREATE INDEX backfill_run_time ON backfill_run (schedule, at, backfill);

CREATE TABLE batch (
    id        BLOB PRIMARY KEY,
    namespace INTEGER NOT NULL,
    name      TEXT,
    made_at   INTEGER NOT NULL,
    made_by   TEXT NOT NULL,
    requester INTEGER,
    due_at    INTEGER NOT NULL,
    tasks     BLOB NOT NULL,
    members   BLOB NOT NULL,
    status    INTEGER NOT NULL,
    state     TEXT NOT NULL,
    wake_at   INTEGER,
    ended_at  INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX batch_listed ON batch (namespace, id);

CREATE INDEX batch_of_status ON batch (namespace, status, id);

CREATE INDEX batch_wake ON batch (wake_at, id) WHERE wake_at IS NOT NULL;

CREATE INDEX batch_ended ON batch (ended_at, id) WHERE ended_at IS NOT NULL;

CREATE TABLE "calendar" (
    revision   INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace  INTEGER NOT NULL,
    name       TEXT NOT NULL,
    -- A list as JSON.
    dates      TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    UNIQUE (namespace, name)
) STRICT;

CREATE TABLE "calendar_use" (
    namespace INTEGER NOT NULL,
    calendar  TEXT NOT NULL,
    schedule  BLOB NOT NULL,
    shard     INTEGER NOT NULL,
    name      TEXT NOT NULL,
    PRIMARY KEY (namespace, calendar, schedule)
) STRICT, WITHOUT ROWID;

CREATE INDEX calendar_use_name ON calendar_use (namespace, calendar, name);

CREATE INDEX calendar_use_schedule ON calendar_use (schedule);

CREATE TABLE cancel_request (
    job BLOB NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE cluster_secret (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    revision     INTEGER NOT NULL,
    -- 0 settled, 1 announced, 2 signing
    stage        INTEGER NOT NULL,
    -- NULL: there never was a rotation.
    stage_since  INTEGER,
    made_at      INTEGER,
    next_made_at INTEGER,
    overlap      INTEGER,
    -- What the cluster is called in certificates. NULL: the name follows from the secret.
    cluster      TEXT
) STRICT;

CREATE TABLE cluster_secret_server (
    server       BLOB PRIMARY KEY,
    revision     INTEGER NOT NULL,
    confirmed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE delivery (
    at      INTEGER NOT NULL,
    job     BLOB NOT NULL,
    rule    TEXT NOT NULL,
    events  INTEGER NOT NULL,
    summary TEXT NOT NULL, namespace INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (at, job)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_rule ON delivery (namespace, rule, at, job);

CREATE INDEX delivery_namespace ON delivery (namespace, at, job);

CREATE TABLE dropped_log (
    path TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE duty (
    name        TEXT NOT NULL PRIMARY KEY,
    owner       BLOB NOT NULL,
    epoch       INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE enrolment (
    id          BLOB NOT NULL PRIMARY KEY,
    join_token  BLOB NOT NULL,
    name        TEXT NOT NULL,
    scope       TEXT NOT NULL,
    -- Of its public key.
    key_sha256  BLOB NOT NULL,
    enrolled_at INTEGER NOT NULL,
    renewed_at  INTEGER NOT NULL,
    -- Its latest certificate's.
    expires_at  INTEGER NOT NULL,
    revoked_at  INTEGER,
    revision    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX enrolment_key ON enrolment (join_token, key_sha256);

CREATE UNIQUE INDEX enrolment_revision ON enrolment (revision);

CREATE INDEX enrolment_expires ON enrolment (expires_at, id);

CREATE TABLE enrolment_counter (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL
) STRICT;

CREATE TABLE history (
    id            BLOB NOT NULL PRIMARY KEY,
    task          INTEGER NOT NULL,
    state         INTEGER NOT NULL,
    due_at        INTEGER NOT NULL,
    submitted_at  INTEGER NOT NULL,
    finished_at   INTEGER NOT NULL,
    -- 1 when it finished before it was first due, so that retention by id misses it.
    early         INTEGER NOT NULL,
    next_attempt  INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    node_failures INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    attempt       INTEGER,
    worker        BLOB,
    server        BLOB,
    picked_up_at  INTEGER,
    started_at    INTEGER,
    ending        INTEGER,
    tracing_id    TEXT,
    reason        TEXT,
    output        BLOB,
    input         BLOB
, details TEXT, log_path TEXT, log_bytes INTEGER, source BLOB, namespace INTEGER, requester INTEGER) STRICT, WITHOUT ROWID;

CREATE INDEX history_task ON history (task, id);

CREATE INDEX history_unsuccessful ON history (state, id) WHERE state <> 1;

CREATE INDEX history_early ON history (finished_at) WHERE early = 1;

CREATE INDEX history_tracing ON history (tracing_id, id) WHERE tracing_id IS NOT NULL;

CREATE INDEX history_namespace ON history (namespace, id) WHERE namespace IS NOT NULL;

CREATE INDEX history_log_bytes ON history (namespace, log_bytes) WHERE namespace IS NOT NULL AND log_bytes IS NOT NULL;

CREATE TABLE "idempotency" (
    namespace   INTEGER NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    answer      BLOB NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT;

CREATE INDEX idempotency_expiry ON idempotency (expires_at);

CREATE TABLE identity_key (
    id           INTEGER PRIMARY KEY,
    changed      INTEGER NOT NULL,
    -- The SHA-256 of the secret.
    digest       BLOB NOT NULL,
    name         TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    -- A role or a list of rights, as JSON.
    rights       TEXT NOT NULL,
    owner        INTEGER,
    created_at   INTEGER NOT NULL,
    created_by   TEXT NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    replaced_by  INTEGER,
    revoked_at   INTEGER,
    revoked_by   TEXT
) STRICT;

CREATE INDEX identity_key_changed ON identity_key (changed);

CREATE INDEX identity_key_owner ON identity_key (owner) WHERE owner IS NOT NULL AND revoked_at IS NULL;

CREATE UNIQUE INDEX identity_key_name ON identity_key (namespace, name) WHERE revoked_at IS NULL AND replaced_by IS NULL;

CREATE TABLE identity_session (
    id           INTEGER PRIMARY KEY,
    changed      INTEGER NOT NULL,
    digest       BLOB NOT NULL,
    user_id      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    ended_at     INTEGER,
    address      TEXT
) STRICT;

CREATE INDEX identity_session_user ON identity_session (user_id, created_at) WHERE ended_at IS NULL;

CREATE INDEX identity_session_changed ON identity_session (changed);

CREATE TABLE identity_user (
    id         INTEGER PRIMARY KEY,
    changed    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    mail       TEXT,
    role       TEXT NOT NULL,
    -- What argon2id made of it, with its parameters and salt.
    password   TEXT,
    disabled   INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    deleted_at INTEGER
, openid_issuer TEXT, openid_subject TEXT) STRICT;

CREATE UNIQUE INDEX identity_user_name ON identity_user (name) WHERE deleted_at IS NULL;

CREATE INDEX identity_user_changed ON identity_user (changed);

CREATE UNIQUE INDEX identity_user_openid ON identity_user (openid_issuer, openid_subject)
    WHERE deleted_at IS NULL AND openid_subject IS NOT NULL;

CREATE TABLE job (
    shard         INTEGER NOT NULL,
    due_at        INTEGER NOT NULL,
    id            BLOB NOT NULL,
    task          INTEGER NOT NULL,
    moved         INTEGER NOT NULL,
    next_attempt  INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    node_failures INTEGER NOT NULL,
    priority      INTEGER NOT NULL,
    submitted_at  INTEGER NOT NULL,
    tracing_id    TEXT,
    input         BLOB, source BLOB, give_backs TEXT, late_from INTEGER, namespace INTEGER, requester INTEGER,
    PRIMARY KEY (shard, due_at, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX job_moved ON job (id) WHERE moved = 1;

CREATE INDEX job_urgent ON job (shard, due_at, id) WHERE priority > 0;

CREATE INDEX job_tracked ON job (shard, id) WHERE source >= x'80';

CREATE INDEX job_given_back ON job (late_from, id) WHERE late_from IS NOT NULL;

CREATE INDEX job_tracing ON job (tracing_id, id) WHERE tracing_id IS NOT NULL;

CREATE INDEX job_namespace ON job (namespace, id) WHERE namespace IS NOT NULL;

CREATE TABLE job_action (
    job       BLOB NOT NULL,
    at        INTEGER NOT NULL,
    kind      INTEGER NOT NULL,
    requester INTEGER NOT NULL,
    PRIMARY KEY (job, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE join_token (
    id            BLOB NOT NULL PRIMARY KEY,
    secret_sha256 BLOB NOT NULL,
    -- Namespace, queues, labels and kinds, as JSON.
    scope         TEXT NOT NULL,
    uses_max      INTEGER NOT NULL,
    uses          INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    expires_at    INTEGER NOT NULL,
    revoked_at    INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX join_token_expires ON join_token (expires_at, id);

CREATE TABLE log (
    job     BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    offset  INTEGER NOT NULL,
    bytes   BLOB NOT NULL, marks BLOB,
    PRIMARY KEY (job, attempt, offset)
) STRICT;

CREATE TABLE member (
    id         BLOB NOT NULL PRIMARY KEY,
    address    TEXT NOT NULL,
    version    TEXT NOT NULL,
    roles      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    workers    INTEGER NOT NULL,
    running    INTEGER NOT NULL,
    lag        INTEGER NOT NULL
, zone_data TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE migration (
             version INTEGER PRIMARY KEY,
             name TEXT NOT NULL,
             checksum BLOB NOT NULL,
             applied_at INTEGER NOT NULL
         ) STRICT;

CREATE TABLE namespace (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    deleted_at INTEGER,
    spec       TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX namespace_name ON namespace (name) WHERE deleted_at IS NULL;

CREATE INDEX namespace_deleted ON namespace (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE namespace_counter (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL,
    last_id  INTEGER NOT NULL
) STRICT;

CREATE TABLE notice (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    kind       INTEGER NOT NULL,
    shard      INTEGER NOT NULL,
    task       BLOB,
    job        BLOB,
    -- The schedule and the planned time, both or neither.
    schedule   BLOB,
    planned_at INTEGER,
    count      INTEGER NOT NULL,
    lateness   INTEGER
) STRICT;

CREATE TABLE "notification_rule" (
    namespace  INTEGER NOT NULL,
    name       TEXT NOT NULL,
    spec       TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    version    INTEGER NOT NULL,
    -- Last: a long one does not get between the others.
    state      TEXT,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE occurrence (
    schedule   BLOB NOT NULL,
    at         INTEGER NOT NULL,
    shard      INTEGER NOT NULL,
    slot       INTEGER NOT NULL,
    verdict    INTEGER NOT NULL,
    decided_at INTEGER NOT NULL,
    marks      INTEGER NOT NULL,
    count      INTEGER NOT NULL,
    job        BLOB,
    reason     TEXT, started_at INTEGER, requested_by TEXT,
    PRIMARY KEY (schedule, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX occurrence_queued ON occurrence (shard, schedule, at) WHERE verdict = 2;

CREATE INDEX occurrence_decided ON occurrence (at) WHERE verdict <> 2;

CREATE TABLE queue (
    namespace  INTEGER NOT NULL,
    name       TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    -- 0 active, 1 paused, 2 draining
    state      INTEGER NOT NULL,
    state_at   INTEGER NOT NULL,
    state_by   TEXT NOT NULL,
    note       TEXT,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    spec       TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE queue_counter (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL
) STRICT;

CREATE TABLE requester (
    id        INTEGER PRIMARY KEY,
    kind      TEXT NOT NULL,
    name      TEXT NOT NULL,
    -- The person behind it, or 0.
    person    INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX requester_name ON requester (name, kind, person);

CREATE TABLE rerun (
    job          BLOB NOT NULL,
    at           INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    next_attempt INTEGER NOT NULL
) STRICT;

CREATE INDEX rerun_job ON rerun (job, at, next_attempt);

CREATE TABLE running_place (
    namespace INTEGER NOT NULL,
    server    BLOB NOT NULL,
    running   INTEGER NOT NULL,
    places    INTEGER NOT NULL,
    waiting   INTEGER NOT NULL,
    served_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, server)
) STRICT, WITHOUT ROWID;

CREATE TABLE running_server (
    server BLOB NOT NULL PRIMARY KEY,
    seq    INTEGER NOT NULL,
    shards BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE schedule (
    shard      INTEGER NOT NULL,
    id         BLOB NOT NULL,
    name       TEXT NOT NULL,
    task       INTEGER NOT NULL,
    spec       TEXT NOT NULL,
    -- A list as JSON; NULL when it is empty.
    calendars  TEXT,
    priority   INTEGER,
    revision   INTEGER NOT NULL,
    since      INTEGER NOT NULL,
    paused_at  INTEGER,
    paused_by  TEXT,
    pause_note TEXT,
    skip_until INTEGER,
    runs       INTEGER NOT NULL,
    failures   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    -- Last: a long one does not get between the others.
    input      BLOB, last_success INTEGER, namespace INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (shard, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX schedule_task ON schedule (task);

CREATE UNIQUE INDEX schedule_name ON schedule (namespace, name);

CREATE INDEX schedule_paused ON schedule (namespace, name) WHERE paused_at IS NOT NULL;

CREATE TABLE schedule_change (
    number      INTEGER PRIMARY KEY,
    schedule    BLOB NOT NULL,
    at          INTEGER NOT NULL,
    who         TEXT NOT NULL,
    kind        INTEGER NOT NULL,
    note        TEXT,
    former_spec TEXT
) STRICT;

CREATE INDEX schedule_change_of ON schedule_change (schedule);

CREATE INDEX schedule_change_at ON schedule_change (at);

CREATE TABLE sealed_key (
    label    TEXT PRIMARY KEY,
    root_key BLOB NOT NULL,
    sealed   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE "secret" (
    namespace  INTEGER NOT NULL,
    name       TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE "secret_use" (
    namespace INTEGER NOT NULL,
    secret    TEXT NOT NULL,
    task      BLOB NOT NULL,
    PRIMARY KEY (namespace, secret, task)
) STRICT, WITHOUT ROWID;

CREATE INDEX secret_use_task ON secret_use (task);

CREATE TABLE shard (
    id          INTEGER PRIMARY KEY,
    epoch       INTEGER NOT NULL,
    owner       BLOB,
    lease_until INTEGER NOT NULL
, watermark INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE sqlite_sequence(name,seq);

CREATE TABLE stale_outcome (
    job     BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    worker  BLOB NOT NULL,
    at      INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (job, attempt, worker)
) STRICT, WITHOUT ROWID;

CREATE INDEX stale_outcome_at ON stale_outcome (at);

CREATE TABLE start_batch (
    shard  INTEGER NOT NULL,
    epoch  INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    server BLOB NOT NULL,
    starts BLOB NOT NULL,
    PRIMARY KEY (shard, epoch, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE submission_rate (
    namespace  INTEGER NOT NULL PRIMARY KEY,
    paid_until INTEGER NOT NULL
) STRICT;

CREATE TABLE "task" (
    number     INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE,
    namespace  INTEGER NOT NULL,
    name       TEXT,
    revision   INTEGER NOT NULL,
    deleted    INTEGER NOT NULL,
    digest     BLOB,
    kind       TEXT NOT NULL,
    queue      TEXT NOT NULL,
    spec       TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    -- The latest due time of its jobs, to a day.
    used_until INTEGER NOT NULL,
    artifact   BLOB,
    waits      INTEGER NOT NULL
, created_by TEXT, changed_by TEXT) STRICT;

CREATE UNIQUE INDEX task_live_name ON task (namespace, name) WHERE deleted = 0 AND name IS NOT NULL;

CREATE UNIQUE INDEX task_digest ON task (namespace, digest) WHERE digest IS NOT NULL;

CREATE INDEX task_unlisted ON task (used_until) WHERE deleted = 1 OR name IS NULL;

CREATE INDEX task_artifact ON task (artifact, id) WHERE artifact IS NOT NULL;

CREATE INDEX task_queue ON task (namespace, queue) WHERE deleted = 0 AND name IS NOT NULL;

CREATE TABLE task_file (
    artifact BLOB NOT NULL,
    task     BLOB NOT NULL,
    PRIMARY KEY (artifact, task)
) STRICT, WITHOUT ROWID;

CREATE INDEX task_file_task ON task_file (task);

CREATE TABLE worker (
    id            BLOB NOT NULL PRIMARY KEY,
    name          TEXT NOT NULL,
    host          TEXT,
    version       TEXT NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at  INTEGER NOT NULL,
    -- When it said that it leaves.
    left_at       INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX worker_last_seen ON worker (last_seen_at, id);

CREATE TABLE workflow (
    namespace INTEGER NOT NULL,
    name      TEXT NOT NULL,
    version   INTEGER NOT NULL,
    spec      TEXT NOT NULL,
    made_at   INTEGER NOT NULL,
    made_by   TEXT NOT NULL,
    PRIMARY KEY (namespace, name, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow_output (
    run    BLOB NOT NULL,
    node   INTEGER NOT NULL,
    item   INTEGER NOT NULL,
    output BLOB NOT NULL,
    PRIMARY KEY (run, node, item)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow_run (
    id        BLOB PRIMARY KEY,
    namespace INTEGER NOT NULL,
    workflow  TEXT NOT NULL,
    version   INTEGER NOT NULL,
    made_at   INTEGER NOT NULL,
    made_by   TEXT NOT NULL,
    input     BLOB,
    tasks     BLOB NOT NULL,
    status    INTEGER NOT NULL,
    state     TEXT NOT NULL,
    wake_at   INTEGER,
    ended_at  INTEGER
, packed BLOB) STRICT, WITHOUT ROWID;

CREATE INDEX workflow_run_listed ON workflow_run (namespace, id);

CREATE INDEX workflow_run_of_workflow ON workflow_run (namespace, workflow, id);

CREATE INDEX workflow_run_ended ON workflow_run (ended_at, id) WHERE ended_at IS NOT NULL;

CREATE INDEX workflow_run_wake ON workflow_run (wake_at, id) WHERE wake_at IS NOT NULL;
