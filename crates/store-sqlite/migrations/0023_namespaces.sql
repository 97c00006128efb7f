-- Tenants. What was there before is in the namespace that always exists, whose number is 0.
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
INSERT INTO namespace VALUES (0, 'default', 1, 0, 'punctual', 0, 'punctual', NULL, '{}');
-- The revision of all changes, and the last number that was given.
CREATE TABLE namespace_counter (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL,
    last_id  INTEGER NOT NULL
) STRICT;
INSERT INTO namespace_counter VALUES (1, 1, 0);

-- Jobs of the default namespace say nothing, and are in no index of it.
ALTER TABLE job ADD COLUMN namespace INTEGER;
CREATE INDEX job_namespace ON job (namespace, id) WHERE namespace IS NOT NULL;
ALTER TABLE history ADD COLUMN namespace INTEGER;
CREATE INDEX history_namespace ON history (namespace, id) WHERE namespace IS NOT NULL;

-- The same name and the same content may be in each namespace. A constraint of a table cannot be changed, so tables
-- that have one are made anew.
CREATE TABLE task_new (
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
) STRICT;
INSERT INTO task_new
SELECT number, id, 0, name, revision, deleted, digest, kind, queue, spec, created_at, updated_at, used_until, artifact, waits
FROM task;
DROP TABLE task;
ALTER TABLE task_new RENAME TO task;
CREATE UNIQUE INDEX task_live_name ON task (namespace, name) WHERE deleted = 0 AND name IS NOT NULL;
CREATE UNIQUE INDEX task_digest ON task (namespace, digest) WHERE digest IS NOT NULL;
CREATE INDEX task_unlisted ON task (used_until) WHERE deleted = 1 OR name IS NULL;
CREATE INDEX task_artifact ON task (artifact, id) WHERE artifact IS NOT NULL;

CREATE TABLE idempotency_new (
    namespace   INTEGER NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    answer      BLOB NOT NULL,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT;
INSERT INTO idempotency_new SELECT 0, key, fingerprint, answer, expires_at FROM idempotency;
DROP TABLE idempotency;
ALTER TABLE idempotency_new RENAME TO idempotency;
CREATE INDEX idempotency_expiry ON idempotency (expires_at);

ALTER TABLE artifact ADD COLUMN namespace INTEGER NOT NULL DEFAULT 0;
DROP INDEX artifact_content;
CREATE UNIQUE INDEX artifact_content ON artifact (namespace, sha256, size, kind) WHERE state <> 3;
CREATE INDEX artifact_namespace ON artifact (namespace, id);

ALTER TABLE schedule ADD COLUMN namespace INTEGER NOT NULL DEFAULT 0;
DROP INDEX schedule_name;
CREATE UNIQUE INDEX schedule_name ON schedule (namespace, name);
DROP INDEX schedule_paused;
CREATE INDEX schedule_paused ON schedule (namespace, name) WHERE paused_at IS NOT NULL;

-- The revision of a calendar that is gone is not given again.
CREATE TABLE calendar_new (
    revision   INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace  INTEGER NOT NULL,
    name       TEXT NOT NULL,
    -- A list as JSON.
    dates      TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    UNIQUE (namespace, name)
) STRICT;
INSERT INTO sqlite_sequence (name, seq) SELECT 'calendar_new', seq FROM sqlite_sequence WHERE name = 'calendar';
INSERT INTO calendar_new SELECT revision, 0, name, dates, changed_at, changed_by FROM calendar;
DROP TABLE calendar;
ALTER TABLE calendar_new RENAME TO calendar;

CREATE TABLE calendar_use_new (
    namespace INTEGER NOT NULL,
    calendar  TEXT NOT NULL,
    schedule  BLOB NOT NULL,
    shard     INTEGER NOT NULL,
    name      TEXT NOT NULL,
    PRIMARY KEY (namespace, calendar, schedule)
) STRICT, WITHOUT ROWID;
INSERT INTO calendar_use_new SELECT 0, calendar, schedule, shard, name FROM calendar_use;
DROP TABLE calendar_use;
ALTER TABLE calendar_use_new RENAME TO calendar_use;
CREATE INDEX calendar_use_name ON calendar_use (namespace, calendar, name);
CREATE INDEX calendar_use_schedule ON calendar_use (schedule);

CREATE TABLE notification_rule_new (
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
INSERT INTO notification_rule_new
SELECT 0, name, spec, revision, created_at, created_by, changed_at, changed_by, version, state FROM notification_rule;
DROP TABLE notification_rule;
ALTER TABLE notification_rule_new RENAME TO notification_rule;

ALTER TABLE delivery ADD COLUMN namespace INTEGER NOT NULL DEFAULT 0;
DROP INDEX delivery_rule;
CREATE INDEX delivery_rule ON delivery (namespace, rule, at, job);
CREATE INDEX delivery_namespace ON delivery (namespace, at, job);

ALTER TABLE ailing ADD COLUMN namespace INTEGER NOT NULL DEFAULT 0;
CREATE INDEX ailing_namespace ON ailing (namespace, last, task);

ALTER TABLE backfill ADD COLUMN namespace INTEGER NOT NULL DEFAULT 0;
CREATE INDEX backfill_namespace ON backfill (namespace, id);

-- Secrets named their namespace, and there was one.
CREATE TABLE secret_new (
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
INSERT INTO secret_new SELECT 0, name, revision, created_at, changed_at, created_by, changed_by, sealed FROM secret;
DROP TABLE secret;
ALTER TABLE secret_new RENAME TO secret;
CREATE TABLE secret_use_new (
    namespace INTEGER NOT NULL,
    secret    TEXT NOT NULL,
    task      BLOB NOT NULL,
    PRIMARY KEY (namespace, secret, task)
) STRICT, WITHOUT ROWID;
INSERT INTO secret_use_new SELECT 0, secret, task FROM secret_use;
DROP TABLE secret_use;
ALTER TABLE secret_use_new RENAME TO secret_use;
CREATE INDEX secret_use_task ON secret_use (task);
