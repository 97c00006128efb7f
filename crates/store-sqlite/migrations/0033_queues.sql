-- Queues that somebody has paused or described. Others are names in tasks.
CREATE TABLE queue (
    namespace  INTEGER NOT NULL,
    name       TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    -- 0 active, 1 paused, 2 draining
    state      INTEGER NOT NULL,
    state_at   INTEGER NOT NULL,
    state_by   TEXT NOT NULL,
    note       TEXT,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    spec       TEXT NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
-- The revision of all changes.
CREATE TABLE queue_counter (
    id       INTEGER PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO queue_counter (id, revision) VALUES (1, 0);

-- The queues that tasks name, each read once.
CREATE INDEX task_queue ON task (namespace, queue) WHERE deleted = 0 AND name IS NOT NULL;
