-- Times are microseconds since 1970 in UTC. Codes for states and endings are in src/codec.rs.
-- Numbers that core counts without a sign are kept with the same bits. Wide columns come
-- first in the tables that many rows go through, so that no row has holes.

-- shard_count, generation and fingerprint (src/instance.rs), and `history`, which is locked
-- while partitions are made or dropped.
CREATE TABLE meta (
    key   text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

-- Room in each page for the versions that renewals leave behind.
CREATE TABLE shard (
    id          smallint PRIMARY KEY,
    epoch       bigint NOT NULL,
    owner       uuid,
    lease_until bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

-- Jobs refer to a task by its number, which is 8 bytes shorter than its id and never given again.
-- A row stays as long as a job needs it; then it goes if it has no name or was deleted.
CREATE TABLE task (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         uuid NOT NULL UNIQUE,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    -- The latest due time of its jobs, to a day.
    used_until bigint NOT NULL,
    revision   bigint NOT NULL,
    deleted    boolean NOT NULL,
    name       text COLLATE "C",
    digest     bytea UNIQUE,
    kind       text NOT NULL,
    queue      text NOT NULL,
    spec       text NOT NULL
);
CREATE UNIQUE INDEX task_live_name ON task (name) WHERE NOT deleted AND name IS NOT NULL;
CREATE INDEX task_unlisted ON task (used_until) WHERE deleted OR name IS NULL;

-- Workers and servers, by a number that is 12 bytes shorter; history has two in each row.
CREATE TABLE node (
    number  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id      uuid NOT NULL UNIQUE,
    -- To a day; src/nodes.rs.
    used_at bigint NOT NULL
);

-- Jobs that wait or run, in the order in which they are loaded. Found by id without an
-- index: the id names the shard and the first due time.
CREATE TABLE job (
    id            uuid NOT NULL,
    due_at        bigint NOT NULL,
    submitted_at  bigint NOT NULL,
    task          bigint NOT NULL,
    next_attempt  integer NOT NULL,
    shard         smallint NOT NULL,
    failures      smallint NOT NULL,
    node_failures smallint NOT NULL,
    priority      smallint NOT NULL,
    moved         boolean NOT NULL,
    tracing_id    text,
    input         bytea,
    PRIMARY KEY (shard, due_at, id)
-- Every job leaves a dead row behind, and they must not wait for a fifth of a long backlog.
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 1000);
-- A job that a retry moved is no longer where its id says.
CREATE INDEX job_moved ON job (id) WHERE moved;
CREATE INDEX job_urgent ON job (shard, due_at, id) WHERE priority > 0;

-- All that one shard started in one batch, in one row; src/transitions/starts.rs has the layout.
CREATE TABLE start_batch (
    epoch  bigint NOT NULL,
    seq    bigint NOT NULL,
    server uuid NOT NULL,
    shard  smallint NOT NULL,
    starts bytea NOT NULL,
    PRIMARY KEY (shard, epoch, seq)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
-- Ids do not shrink; trying costs more than it saves.
ALTER TABLE start_batch ALTER starts SET STORAGE EXTERNAL;

-- Finished jobs, each with its last attempt. A partition is dropped when all in it is old;
-- src/partitions.rs makes them, each with a unique index on id.
CREATE TABLE history (
    id            uuid NOT NULL,
    finished_at   bigint NOT NULL,
    submitted_at  bigint NOT NULL,
    task          bigint NOT NULL,
    picked_up_at  bigint,
    started_at    bigint,
    -- Only if it is not the one in the id.
    due_at        bigint,
    next_attempt  integer NOT NULL,
    attempt       integer,
    worker        integer,
    server        integer,
    failures      smallint NOT NULL,
    node_failures smallint NOT NULL,
    priority      smallint NOT NULL,
    state         smallint NOT NULL,
    ending        smallint,
    -- It finished before it was first due, so that retention by id misses it.
    early         boolean NOT NULL,
    tracing_id    text,
    reason        text,
    output        bytea,
    input         bytea
) PARTITION BY RANGE (finished_at);
CREATE INDEX history_task ON history (task, id);
CREATE INDEX history_unsuccessful ON history (state, id) WHERE state <> 1;
CREATE INDEX history_early ON history (finished_at, id) WHERE early;

-- Attempts that did not end their job.
CREATE TABLE attempt (
    job          uuid NOT NULL,
    worker       uuid NOT NULL,
    server       uuid NOT NULL,
    picked_up_at bigint NOT NULL,
    started_at   bigint NOT NULL,
    finished_at  bigint NOT NULL,
    attempt      integer NOT NULL,
    ending       smallint NOT NULL,
    reason       text,
    PRIMARY KEY (job, attempt)
);

CREATE TABLE cancel_request (
    job uuid PRIMARY KEY
);

CREATE TABLE stale_outcome (
    job     uuid NOT NULL,
    worker  uuid NOT NULL,
    at      bigint NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL,
    PRIMARY KEY (job, attempt, worker)
);
CREATE INDEX stale_outcome_at ON stale_outcome (at);

CREATE TABLE log (
    job     uuid NOT NULL,
    begins  bigint NOT NULL,
    attempt integer NOT NULL,
    bytes   bytea NOT NULL,
    PRIMARY KEY (job, attempt, begins)
);

CREATE TABLE idempotency (
    key         text COLLATE "C" PRIMARY KEY,
    fingerprint bytea NOT NULL,
    expires_at  bigint NOT NULL,
    answer      bytea NOT NULL
);
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

-- The servers that use this store.
CREATE TABLE member (
    id         uuid PRIMARY KEY,
    started_at bigint NOT NULL,
    seen_at    bigint NOT NULL,
    lag        bigint NOT NULL,
    workers    integer NOT NULL,
    running    integer NOT NULL,
    address    text NOT NULL,
    version    text NOT NULL,
    roles      text[] NOT NULL
);

-- What one server does for all.
CREATE TABLE duty (
    name        text COLLATE "C" PRIMARY KEY,
    owner       uuid NOT NULL,
    epoch       bigint NOT NULL,
    lease_until bigint NOT NULL
);
