-- The last report of each server about namespaces whose running attempts are limited: the shards that it owned.
CREATE TABLE running_server (
    server BLOB NOT NULL PRIMARY KEY,
    seq    INTEGER NOT NULL,
    shards BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- How many attempts of a namespace each server may have running, and how many it said are running.
CREATE TABLE running_place (
    namespace INTEGER NOT NULL,
    server    BLOB NOT NULL,
    running   INTEGER NOT NULL,
    places    INTEGER NOT NULL,
    waiting   INTEGER NOT NULL,
    served_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, server)
) STRICT, WITHOUT ROWID;
