-- A server acts by a revision of the cluster's secret.
-- Guarantees: only if that is the revision now, and the first time stays.
-- Index: the primary keys.
-- Concurrency: a stage that changes meanwhile leaves a row of the former revision, which nobody reads.
INSERT INTO cluster_secret_server (server, revision, confirmed_at)
SELECT $1::uuid, revision, $3::bigint FROM cluster_secret WHERE id = 1 AND revision = $2
ON CONFLICT (server) DO UPDATE SET revision = excluded.revision, confirmed_at = excluded.confirmed_at
WHERE cluster_secret_server.revision < excluded.revision
