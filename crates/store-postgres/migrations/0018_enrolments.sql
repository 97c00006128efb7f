-- What workers on other hosts join with. Of its secret only the digest is here.
CREATE TABLE join_token (
    id            uuid PRIMARY KEY,
    secret_sha256 bytea NOT NULL,
    -- Namespace, queues, labels and kinds, as JSON.
    scope         text NOT NULL,
    uses_max      bigint NOT NULL,
    uses          bigint NOT NULL,
    created_at    bigint NOT NULL,
    created_by    text NOT NULL,
    expires_at    bigint NOT NULL,
    revoked_at    bigint
);
CREATE INDEX join_token_expires ON join_token (expires_at, id);

-- Workers on other hosts, and what each may do.
CREATE TABLE enrolment (
    id          uuid PRIMARY KEY,
    join_token  uuid NOT NULL,
    name        text NOT NULL,
    scope       text NOT NULL,
    -- Of its public key.
    key_sha256  bytea NOT NULL,
    enrolled_at bigint NOT NULL,
    renewed_at  bigint NOT NULL,
    -- Its latest certificate's.
    expires_at  bigint NOT NULL,
    revoked_at  bigint,
    revision    bigint NOT NULL
);
CREATE UNIQUE INDEX enrolment_key ON enrolment (join_token, key_sha256);
CREATE UNIQUE INDEX enrolment_revision ON enrolment (revision);
CREATE INDEX enrolment_expires ON enrolment (expires_at, id);

-- The latest revision of any enrolment. Whoever changes an enrolment locks it first.
CREATE TABLE enrolment_counter (
    id       integer PRIMARY KEY CHECK (id = 1),
    revision bigint NOT NULL
);
INSERT INTO enrolment_counter (id, revision) VALUES (1, 0);
