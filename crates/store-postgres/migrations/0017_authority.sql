-- The authorities of the cluster's certificates. The key is sealed with the cluster's secret.
CREATE TABLE authority (
    generation integer NOT NULL PRIMARY KEY,
    certificate bytea NOT NULL,
    sealed_key bytea NOT NULL,
    created_at bigint NOT NULL,
    retired_at bigint
);
