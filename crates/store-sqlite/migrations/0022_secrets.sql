-- Keys that were sealed with a root key, which is never in the database.
CREATE TABLE sealed_key (
    label    TEXT PRIMARY KEY,
    root_key BLOB NOT NULL,
    sealed   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Secrets, sealed with the key of their namespace.
CREATE TABLE secret (
    namespace  TEXT NOT NULL,
    name       TEXT NOT NULL,
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    changed_by TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

-- The secrets that tasks refer to. Rows of tasks that are gone say nothing, and are removed a little later.
CREATE TABLE secret_use (
    namespace TEXT NOT NULL,
    secret    TEXT NOT NULL,
    task      BLOB NOT NULL,
    PRIMARY KEY (namespace, secret, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX secret_use_task ON secret_use (task);
