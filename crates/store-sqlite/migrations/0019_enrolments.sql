-- What workers on other hosts join with. Of its secret only the digest is here.
CREATE TABLE join_token (
    id            BLOB NOT NULL PRIMARY KEY,
    secret_sha256 BLOB NOT NULL,
    -- Namespace, queues, labels and kinds, as JSON.
    scope         TEXT NOT NULL,
    uses_max      INTEGER NOT NULL,
    uses          INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    expires_at    INTEGER NOT NULL,
    revoked_at    INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX join_token_expires ON join_token (expires_at, id);

-- Workers on other hosts, and what each may do.
CREATE TABLE enrolment (
    id          BLOB NOT NULL PRIMARY KEY,
    join_token  BLOB NOT NULL,
    name        TEXT NOT NULL,
    scope       TEXT NOT NULL,
    -- Of its public key.
    key_sha256  BLOB NOT NULL,
    enrolled_at INTEGER NOT NULL,
    renewed_at  INTEGER NOT NULL,
    -- Its latest certificate's.
    expires_at  INTEGER NOT NULL,
    revoked_at  INTEGER,
    revision    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX enrolment_key ON enrolment (join_token, key_sha256);
CREATE UNIQUE INDEX enrolment_revision ON enrolment (revision);
CREATE INDEX enrolment_expires ON enrolment (expires_at, id);

-- The latest revision of any enrolment.
CREATE TABLE enrolment_counter (
    id       INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO enrolment_counter (id, revision) VALUES (1, 0);
