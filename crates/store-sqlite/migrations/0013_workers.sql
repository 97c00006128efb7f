-- Workers that were seen: who ran an attempt stays known when the worker is gone.
CREATE TABLE worker (
    id            BLOB NOT NULL PRIMARY KEY,
    name          TEXT NOT NULL,
    host          TEXT,
    version       TEXT NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at  INTEGER NOT NULL,
    -- When it said that it leaves.
    left_at       INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX worker_last_seen ON worker (last_seen_at, id);
