-- When tasks run, again and again. A row is written when its definition or its state changes, not when it fires.
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
    input      BLOB,
    PRIMARY KEY (shard, id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX schedule_name ON schedule (name);
-- Without the name: another index in order of names would cost those who create many as much as the first.
CREATE INDEX schedule_task ON schedule (task);
CREATE INDEX schedule_paused ON schedule (name) WHERE paused_at IS NOT NULL;

-- The ledger: one row for a schedule and a planned time. That it can be there once makes firing twice impossible.
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
    reason     TEXT,
    PRIMARY KEY (schedule, at)
) STRICT, WITHOUT ROWID;

-- 2 is queued: what is queued waits for its final verdict, and does not grow old.
CREATE INDEX occurrence_queued ON occurrence (shard, schedule, at) WHERE verdict = 2;
CREATE INDEX occurrence_decided ON occurrence (at) WHERE verdict <> 2;

-- What was done to schedules, in this order. Stays when a schedule goes.
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

-- Dates that schedules refer to by a name. No revision is given twice, not even that of a calendar that is gone.
CREATE TABLE calendar (
    revision   INTEGER PRIMARY KEY AUTOINCREMENT,
    name       TEXT NOT NULL UNIQUE,
    -- A list as JSON.
    dates      TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL
) STRICT;

-- Which schedule refers to which calendar, also to one that is not there. A schedule never changes its name.
CREATE TABLE calendar_use (
    calendar TEXT NOT NULL,
    schedule BLOB NOT NULL,
    shard    INTEGER NOT NULL,
    name     TEXT NOT NULL,
    PRIMARY KEY (calendar, schedule)
) STRICT, WITHOUT ROWID;

CREATE INDEX calendar_use_name ON calendar_use (calendar, name);
CREATE INDEX calendar_use_schedule ON calendar_use (schedule);

-- All planned times of the shard up to here have their verdicts.
ALTER TABLE shard ADD COLUMN watermark INTEGER NOT NULL DEFAULT 0;

-- The schedule that made the job. The first bit says that the schedule's owner has to know when it ends.
ALTER TABLE job ADD COLUMN source BLOB;
ALTER TABLE history ADD COLUMN source BLOB;

CREATE INDEX job_tracked ON job (shard, id) WHERE source >= x'80';
