-- Keys that were sealed with a root key, which is never in the database.
CREATE TABLE sealed_key (
    label    text COLLATE "C" PRIMARY KEY,
    root_key bytea NOT NULL,
    sealed   bytea NOT NULL
);

-- Secrets, sealed with the key of their namespace.
CREATE TABLE secret (
    created_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    revision   integer NOT NULL,
    namespace  text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    created_by text NOT NULL,
    changed_by text NOT NULL,
    sealed     bytea NOT NULL,
    PRIMARY KEY (namespace, name)
);

-- The secrets that tasks refer to. Rows of tasks that are gone say nothing, and are removed a little later.
CREATE TABLE secret_use (
    task      uuid NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    secret    text COLLATE "C" NOT NULL,
    PRIMARY KEY (namespace, secret, task)
);
CREATE INDEX secret_use_task ON secret_use (task);

INSERT INTO meta (key, value) VALUES ('secrets', '');
