-- The last report of each server about namespaces whose running attempts are limited: the shards that it owned.
CREATE TABLE running_server (
    server uuid PRIMARY KEY,
    seq    bigint NOT NULL,
    shards bytea NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

-- How many attempts of a namespace each server may have running, and how many it said are running.
CREATE TABLE running_place (
    namespace integer NOT NULL,
    server    uuid NOT NULL,
    running   bigint NOT NULL,
    places    bigint NOT NULL,
    waiting   bigint NOT NULL,
    served_at bigint NOT NULL,
    PRIMARY KEY (namespace, server)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);

-- Locked by whoever changes them: one report at a time.
INSERT INTO meta (key, value) VALUES ('running_places', '');
