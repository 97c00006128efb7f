-- The schedule that made a job, and the time that it stands for; core's schedule/source.rs has the layout. A column
-- without a default costs the rows that are there nothing, and partitions of history get it with the table.
ALTER TABLE job ADD COLUMN source bytea;
ALTER TABLE history ADD COLUMN source bytea;
-- The first bit says that the owner must know when the job ends: a new one reads these at once.
CREATE INDEX job_tracked ON job (shard, id) WHERE source >= '\x80'::bytea;

-- Found by id without another index: the id names the shard.
CREATE TABLE schedule (
    id         uuid NOT NULL,
    task       uuid NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    -- Times after this are decided about by this definition.
    since      bigint NOT NULL,
    skip_until bigint,
    paused_at  bigint,
    revision   integer NOT NULL,
    runs       integer NOT NULL,
    shard      smallint NOT NULL,
    failures   smallint NOT NULL,
    priority   smallint,
    name       text COLLATE "C" NOT NULL,
    spec       text NOT NULL,
    created_by text NOT NULL,
    changed_by text NOT NULL,
    paused_by  text,
    pause_note text,
    -- Their names, in order; mostly none.
    calendars  jsonb,
    input      bytea,
    PRIMARY KEY (shard, id)
-- Room for a new version of a row in its page: what changes is in no index.
) WITH (fillfactor = 90);
CREATE UNIQUE INDEX schedule_name ON schedule (name);
CREATE INDEX schedule_task ON schedule (task, name);

-- The ledger: what became of each planned time. Partitions are made and dropped like those of history; src/partitions.rs.
CREATE TABLE occurrence (
    schedule   uuid NOT NULL,
    job        uuid,
    at         bigint NOT NULL,
    -- Only if it is not `at`.
    slot       bigint,
    decided_at bigint NOT NULL,
    count      integer NOT NULL,
    shard      smallint NOT NULL,
    verdict    smallint NOT NULL,
    marks      smallint NOT NULL,
    reason     text,
    PRIMARY KEY (schedule, at)
) PARTITION BY RANGE (at);
CREATE INDEX occurrence_queued ON occurrence (shard, schedule, at) WHERE verdict = 2;

-- What was done to schedules, in order of the number. Those of schedules that are gone stay for as long.
CREATE TABLE schedule_change (
    schedule    uuid NOT NULL,
    number      bigint GENERATED ALWAYS AS IDENTITY,
    at          bigint NOT NULL,
    kind        smallint NOT NULL,
    who         text NOT NULL,
    note        text,
    former_spec text,
    PRIMARY KEY (schedule, number)
);
CREATE INDEX schedule_change_at ON schedule_change (at);

-- Up to where all planned times of a shard have their verdicts. Not in `shard`, whose rows are locked by every batch and
-- renewed all the time. Room in each page for the versions that are left behind.
CREATE TABLE watermark (
    shard smallint PRIMARY KEY,
    at    bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

-- Dates as JSON. Revisions are counted in `meta`, so that none comes twice.
CREATE TABLE calendar (
    name       text COLLATE "C" PRIMARY KEY,
    revision   bigint NOT NULL,
    changed_at bigint NOT NULL,
    changed_by text NOT NULL,
    dates      text NOT NULL
);
INSERT INTO meta (key, value) VALUES ('calendars', '0');

-- Which schedules refer to a calendar, which need not exist; by name for people.
CREATE TABLE calendar_use (
    calendar text COLLATE "C" NOT NULL,
    schedule uuid NOT NULL,
    shard    smallint NOT NULL,
    name     text COLLATE "C" NOT NULL,
    PRIMARY KEY (calendar, schedule)
);
CREATE INDEX calendar_use_name ON calendar_use (calendar, name);
