-- The servers that use this store. One at a time here; the table is the same as in a cluster.
CREATE TABLE member (
    id         BLOB NOT NULL PRIMARY KEY,
    address    TEXT NOT NULL,
    version    TEXT NOT NULL,
    roles      TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    workers    INTEGER NOT NULL,
    running    INTEGER NOT NULL,
    lag        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What one server does for all.
CREATE TABLE duty (
    name        TEXT NOT NULL PRIMARY KEY,
    owner       BLOB NOT NULL,
    epoch       INTEGER NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
