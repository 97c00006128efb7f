-- The authorities of the cluster's certificates. The key is sealed with the cluster's secret.
CREATE TABLE authority (
    generation INTEGER PRIMARY KEY,
    certificate BLOB NOT NULL,
    sealed_key BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    retired_at INTEGER
) STRICT;
