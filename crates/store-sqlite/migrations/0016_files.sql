-- What a file is for: 1 a program, 2 anything that a task reads. The same content may be both.
ALTER TABLE artifact ADD COLUMN kind INTEGER NOT NULL DEFAULT 1;
DROP INDEX artifact_content;
CREATE UNIQUE INDEX artifact_content ON artifact (sha256, size, kind) WHERE state <> 3;

-- The files that tasks read. Rows of tasks that are gone say nothing, and are removed a little later.
CREATE TABLE task_file (
    artifact BLOB NOT NULL,
    task     BLOB NOT NULL,
    PRIMARY KEY (artifact, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX task_file_task ON task_file (task);
