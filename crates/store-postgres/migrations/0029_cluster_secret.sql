-- How far the rotation of the cluster's secret is. The secrets themselves are sealed keys.
CREATE TABLE cluster_secret (
    revision     bigint NOT NULL,
    -- NULL: there never was a rotation.
    stage_since  bigint,
    made_at      bigint,
    next_made_at bigint,
    overlap      bigint,
    id           smallint NOT NULL PRIMARY KEY CHECK (id = 1),
    -- 0 settled, 1 announced, 2 signing
    stage        smallint NOT NULL,
    -- What the cluster is called in certificates. NULL: the name follows from the secret.
    cluster      text
);
INSERT INTO cluster_secret (id, revision, stage) VALUES (1, 0, 0);

-- The servers that act by a revision of it.
CREATE TABLE cluster_secret_server (
    server       uuid NOT NULL PRIMARY KEY,
    revision     bigint NOT NULL,
    confirmed_at bigint NOT NULL
);
