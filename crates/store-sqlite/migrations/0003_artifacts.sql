-- Uploaded files. `state` is 1 pending, 2 ready, 3 refused; `at` is until when it may be
-- uploaded, or since when it is so; `detail` is the machine of a program, or the reason.
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
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX artifact_content ON artifact (sha256, size) WHERE state <> 3;
CREATE INDEX artifact_pending ON artifact (id) WHERE state = 1;
CREATE INDEX artifact_used ON artifact (used_at, id);

-- The file that a task refers to, and whether it waits for it.
ALTER TABLE task ADD COLUMN artifact BLOB;
ALTER TABLE task ADD COLUMN waits INTEGER NOT NULL DEFAULT 0;
CREATE INDEX task_artifact ON task (artifact, id) WHERE artifact IS NOT NULL;
