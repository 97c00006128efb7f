-- What people may want to be told, until it is taken. No number is given twice: whoever takes one means that one.
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

-- Who is told of what.
CREATE TABLE notification_rule (
    name       TEXT NOT NULL PRIMARY KEY,
    spec       TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    version    INTEGER NOT NULL,
    -- Last: a long one does not get between the others.
    state      TEXT
) STRICT, WITHOUT ROWID;

-- Tasks that have failed and not succeeded since. By their ids: a task may go before its row here.
CREATE TABLE ailing (
    task     BLOB NOT NULL PRIMARY KEY,
    since    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    failures INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX ailing_last ON ailing (last);

-- Messages that were handed to jobs. Stays when a rule goes.
CREATE TABLE delivery (
    at      INTEGER NOT NULL,
    job     BLOB NOT NULL,
    rule    TEXT NOT NULL,
    events  INTEGER NOT NULL,
    summary TEXT NOT NULL,
    PRIMARY KEY (at, job)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_rule ON delivery (rule, at, job);

-- Past times of schedules that are run after all. Stays when a schedule goes.
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
) STRICT, WITHOUT ROWID;

CREATE INDEX backfill_schedule ON backfill (schedule, id);
-- 1 is running: what runs does not grow old.
CREATE INDEX backfill_running ON backfill (id) WHERE state = 1;
CREATE INDEX backfill_ended ON backfill (ended_at) WHERE state <> 1;

-- The times of a backfill that got a job. The state is that in which the job ended, when that has been seen.
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
