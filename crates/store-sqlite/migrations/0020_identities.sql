-- API keys, people and their sessions. `changed` is the number of a row's last change: servers read what changed since
-- the number that they know.
CREATE TABLE identity_key (
    id           INTEGER PRIMARY KEY,
    changed      INTEGER NOT NULL,
    -- The SHA-256 of the secret.
    digest       BLOB NOT NULL,
    name         TEXT NOT NULL,
    namespace    TEXT NOT NULL,
    -- A role or a list of rights, as JSON.
    rights       TEXT NOT NULL,
    owner        INTEGER,
    created_at   INTEGER NOT NULL,
    created_by   TEXT NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    replaced_by  INTEGER,
    revoked_at   INTEGER,
    revoked_by   TEXT
) STRICT;

CREATE UNIQUE INDEX identity_key_name ON identity_key (name) WHERE revoked_at IS NULL AND replaced_by IS NULL;
CREATE INDEX identity_key_changed ON identity_key (changed);
CREATE INDEX identity_key_owner ON identity_key (owner) WHERE owner IS NOT NULL AND revoked_at IS NULL;

CREATE TABLE identity_user (
    id         INTEGER PRIMARY KEY,
    changed    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    mail       TEXT,
    role       TEXT NOT NULL,
    -- What argon2id made of it, with its parameters and salt.
    password   TEXT,
    disabled   INTEGER NOT NULL,
    revision   INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    changed_at INTEGER NOT NULL,
    changed_by TEXT NOT NULL,
    deleted_at INTEGER
) STRICT;

CREATE UNIQUE INDEX identity_user_name ON identity_user (name) WHERE deleted_at IS NULL;
CREATE INDEX identity_user_changed ON identity_user (changed);

CREATE TABLE identity_session (
    id           INTEGER PRIMARY KEY,
    changed      INTEGER NOT NULL,
    digest       BLOB NOT NULL,
    user_id      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,
    ended_at     INTEGER,
    address      TEXT
) STRICT;

CREATE INDEX identity_session_user ON identity_session (user_id, created_at) WHERE ended_at IS NULL;
CREATE INDEX identity_session_changed ON identity_session (changed);

INSERT INTO meta (key, value) VALUES ('identities', 0);
