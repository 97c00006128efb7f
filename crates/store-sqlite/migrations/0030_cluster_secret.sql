-- How far the rotation of the cluster's secret is. The secrets themselves are sealed keys.
CREATE TABLE cluster_secret (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    revision     INTEGER NOT NULL,
    -- 0 settled, 1 announced, 2 signing
    stage        INTEGER NOT NULL,
    -- NULL: there never was a rotation.
    stage_since  INTEGER,
    made_at      INTEGER,
    next_made_at INTEGER,
    overlap      INTEGER,
    -- What the cluster is called in certificates. NULL: the name follows from the secret.
    cluster      TEXT
) STRICT;
INSERT INTO cluster_secret (id, revision, stage) VALUES (1, 0, 0);

-- The servers that act by a revision of it.
CREATE TABLE cluster_secret_server (
    server       BLOB PRIMARY KEY,
    revision     INTEGER NOT NULL,
    confirmed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
