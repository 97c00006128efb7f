-- API keys, people and their sessions. `changed` is the number of a row's last change: servers read what changed since
-- the number that they know. Transactions that change any of them lock the row of `meta`, so that the numbers become
-- visible in their order.
CREATE TABLE identity_key (
    id           bigint PRIMARY KEY,
    changed      bigint NOT NULL,
    owner        bigint,
    created_at   bigint NOT NULL,
    expires_at   bigint,
    last_used_at bigint,
    replaced_by  bigint,
    revoked_at   bigint,
    -- The SHA-256 of the secret.
    digest       bytea NOT NULL,
    name         text COLLATE "C" NOT NULL,
    namespace    text COLLATE "C" NOT NULL,
    -- A role or a list of rights, as JSON.
    rights       text NOT NULL,
    created_by   text NOT NULL,
    revoked_by   text
);
CREATE UNIQUE INDEX identity_key_name ON identity_key (name) WHERE revoked_at IS NULL AND replaced_by IS NULL;
CREATE INDEX identity_key_changed ON identity_key (changed);
CREATE INDEX identity_key_owner ON identity_key (owner) WHERE owner IS NOT NULL AND revoked_at IS NULL;

CREATE TABLE identity_user (
    id         bigint PRIMARY KEY,
    changed    bigint NOT NULL,
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    deleted_at bigint,
    revision   integer NOT NULL,
    disabled   boolean NOT NULL,
    name       text COLLATE "C" NOT NULL,
    mail       text,
    role       text NOT NULL,
    -- What argon2id made of it, with its parameters and salt.
    password   text,
    created_by text NOT NULL,
    changed_by text NOT NULL
);
CREATE UNIQUE INDEX identity_user_name ON identity_user (name) WHERE deleted_at IS NULL;
CREATE INDEX identity_user_changed ON identity_user (changed);

CREATE TABLE identity_session (
    id           bigint PRIMARY KEY,
    changed      bigint NOT NULL,
    user_id      bigint NOT NULL,
    created_at   bigint NOT NULL,
    expires_at   bigint NOT NULL,
    last_used_at bigint NOT NULL,
    ended_at     bigint,
    digest       bytea NOT NULL,
    address      text
);
CREATE INDEX identity_session_user ON identity_session (user_id, created_at) WHERE ended_at IS NULL;
CREATE INDEX identity_session_changed ON identity_session (changed);

INSERT INTO meta (key, value) VALUES ('identities', '0');
