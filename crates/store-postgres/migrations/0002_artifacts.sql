-- Uploaded files. `state` is 1 pending, 2 ready, 3 refused; `at` is until when it may be
-- uploaded, or since when it is so; `detail` is the machine of a program, or the reason.
CREATE TABLE artifact (
    id         uuid PRIMARY KEY,
    size       bigint NOT NULL,
    at         bigint NOT NULL,
    created_at bigint NOT NULL,
    used_at    bigint NOT NULL,
    state      smallint NOT NULL,
    sha256     bytea NOT NULL,
    name       text,
    detail     text
);
CREATE UNIQUE INDEX artifact_content ON artifact (sha256, size) WHERE state <> 3;
CREATE INDEX artifact_pending ON artifact (id) WHERE state = 1;
CREATE INDEX artifact_used ON artifact (used_at, id);

-- The file that a task refers to, and whether it waits for it.
ALTER TABLE task ADD COLUMN artifact uuid, ADD COLUMN waits boolean NOT NULL DEFAULT false;
CREATE INDEX task_artifact ON task (artifact, id) WHERE artifact IS NOT NULL;
