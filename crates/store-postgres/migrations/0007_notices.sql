-- What people may want to be told, in order of the number; written with what it is about and removed when it is dealt with.
-- Every row leaves soon, and the next look begins where the last ones were: dead rows must not pile up there.
CREATE TABLE notice (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at         bigint NOT NULL,
    task       uuid,
    job        uuid,
    -- The schedule and its planned time: both or none.
    schedule   uuid,
    planned_at bigint,
    lateness   bigint,
    count      integer NOT NULL,
    shard      smallint NOT NULL,
    kind       smallint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Who is told of what. What waits to be sent changes with every dispatch, so that there is room for versions of a row in its page.
CREATE TABLE notification_rule (
    version    bigint NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    revision   integer NOT NULL,
    name       text COLLATE "C" PRIMARY KEY,
    created_by text NOT NULL,
    changed_by text NOT NULL,
    -- JSON, as what the user wrote down and what waits to be sent.
    spec       text NOT NULL,
    state      text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Tasks that have failed and not succeeded since.
CREATE TABLE ailing (
    task     uuid PRIMARY KEY,
    since    bigint NOT NULL,
    last     bigint NOT NULL,
    failures integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
CREATE INDEX ailing_last ON ailing (last, task);

-- Messages that were handed to jobs. Those of rules that are gone stay for as long.
CREATE TABLE delivery (
    job     uuid NOT NULL,
    at      bigint NOT NULL,
    events  integer NOT NULL,
    rule    text COLLATE "C" NOT NULL,
    summary text NOT NULL,
    PRIMARY KEY (at, job)
);
CREATE INDEX delivery_rule ON delivery (rule, at, job);

-- Past times of a schedule that somebody wants to run after all. Those of schedules that are gone stay for as long.
CREATE TABLE backfill (
    id            uuid PRIMARY KEY,
    schedule      uuid NOT NULL,
    version       bigint NOT NULL,
    created_at    bigint NOT NULL,
    reached       bigint,
    ended_at      bigint,
    total         integer NOT NULL,
    made          integer NOT NULL,
    passed_over   integer NOT NULL,
    succeeded     integer NOT NULL,
    failed        integer NOT NULL,
    cancelled     integer NOT NULL,
    state         smallint NOT NULL,
    schedule_name text NOT NULL,
    spec          text NOT NULL,
    created_by    text NOT NULL,
    ended_by      text,
    note          text
-- Room for a new version of a row in its page: what a step changes is in no index.
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);
CREATE INDEX backfill_schedule ON backfill (schedule, id);
CREATE INDEX backfill_running ON backfill (id) WHERE state = 1;
CREATE INDEX backfill_ended ON backfill (ended_at) WHERE state <> 1;

-- Times of backfills that got a job.
CREATE TABLE backfill_run (
    backfill uuid NOT NULL,
    schedule uuid NOT NULL,
    job      uuid NOT NULL,
    at       bigint NOT NULL,
    -- How the job ended, when that was seen.
    state    smallint,
    PRIMARY KEY (backfill, at)
);
CREATE INDEX backfill_run_schedule ON backfill_run (schedule, at, backfill);
CREATE INDEX backfill_run_open ON backfill_run (backfill, at) WHERE state IS NULL;

-- Locked by who adds one of them, so that two at once do not go past a limit.
INSERT INTO meta (key, value) VALUES ('rules', ''), ('backfills', '');
