-- Tenants. What was there before is in the namespace that always exists, whose number is 0.
CREATE TABLE namespace (
    id         integer PRIMARY KEY,
    revision   integer NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    deleted_at bigint,
    name       text COLLATE "C" NOT NULL,
    created_by text NOT NULL,
    changed_by text NOT NULL,
    spec       text NOT NULL
);
CREATE UNIQUE INDEX namespace_name ON namespace (name) WHERE deleted_at IS NULL;
CREATE INDEX namespace_deleted ON namespace (deleted_at) WHERE deleted_at IS NOT NULL;
INSERT INTO namespace VALUES (0, 1, 0, 0, NULL, 'default', 'punctual', 'punctual', '{}');
-- The revision of all changes, and the last number that was given. Who changes a namespace holds its lock.
CREATE TABLE namespace_counter (
    id       integer PRIMARY KEY CHECK (id = 1),
    last_id  integer NOT NULL,
    revision bigint NOT NULL
);
INSERT INTO namespace_counter VALUES (1, 0, 1);

-- Jobs of the default namespace say nothing, and are in no index of it.
ALTER TABLE job ADD COLUMN namespace integer;
CREATE INDEX job_namespace ON job (namespace, id) WHERE namespace IS NOT NULL;
ALTER TABLE history ADD COLUMN namespace integer;
CREATE INDEX history_namespace ON history (namespace, id) WHERE namespace IS NOT NULL;

-- The same name and the same content may be in each namespace.
ALTER TABLE task ADD COLUMN namespace integer NOT NULL DEFAULT 0;
DROP INDEX task_live_name;
CREATE UNIQUE INDEX task_live_name ON task (namespace, name) WHERE NOT deleted AND name IS NOT NULL;
ALTER TABLE task DROP CONSTRAINT task_digest_key;
CREATE UNIQUE INDEX task_digest_key ON task (namespace, digest) WHERE digest IS NOT NULL;

ALTER TABLE idempotency ADD COLUMN namespace integer NOT NULL DEFAULT 0;
ALTER TABLE idempotency DROP CONSTRAINT idempotency_pkey;
ALTER TABLE idempotency ADD PRIMARY KEY (namespace, key);

ALTER TABLE artifact ADD COLUMN namespace integer NOT NULL DEFAULT 0;
DROP INDEX artifact_content;
CREATE UNIQUE INDEX artifact_content ON artifact (namespace, sha256, size, kind) WHERE state <> 3;
CREATE INDEX artifact_namespace ON artifact (namespace, id);

ALTER TABLE schedule ADD COLUMN namespace integer NOT NULL DEFAULT 0;
DROP INDEX schedule_name;
CREATE UNIQUE INDEX schedule_name ON schedule (namespace, name);

ALTER TABLE calendar ADD COLUMN namespace integer NOT NULL DEFAULT 0;
ALTER TABLE calendar DROP CONSTRAINT calendar_pkey;
ALTER TABLE calendar ADD PRIMARY KEY (namespace, name);
ALTER TABLE calendar_use ADD COLUMN namespace integer NOT NULL DEFAULT 0;
ALTER TABLE calendar_use DROP CONSTRAINT calendar_use_pkey;
ALTER TABLE calendar_use ADD PRIMARY KEY (namespace, calendar, schedule);
DROP INDEX calendar_use_name;
CREATE INDEX calendar_use_name ON calendar_use (namespace, calendar, name);
CREATE INDEX calendar_use_schedule ON calendar_use (schedule);

ALTER TABLE notification_rule ADD COLUMN namespace integer NOT NULL DEFAULT 0;
ALTER TABLE notification_rule DROP CONSTRAINT notification_rule_pkey;
ALTER TABLE notification_rule ADD PRIMARY KEY (namespace, name);
ALTER TABLE delivery ADD COLUMN namespace integer NOT NULL DEFAULT 0;
DROP INDEX delivery_rule;
CREATE INDEX delivery_rule ON delivery (namespace, rule, at, job);
CREATE INDEX delivery_namespace ON delivery (namespace, at, job);
ALTER TABLE ailing ADD COLUMN namespace integer NOT NULL DEFAULT 0;
CREATE INDEX ailing_namespace ON ailing (namespace, last, task);
ALTER TABLE backfill ADD COLUMN namespace integer NOT NULL DEFAULT 0;
CREATE INDEX backfill_namespace ON backfill (namespace, id);

-- Secrets named their namespace, and there was one.
ALTER TABLE secret ALTER COLUMN namespace TYPE integer USING 0;
ALTER TABLE secret_use ALTER COLUMN namespace TYPE integer USING 0;
