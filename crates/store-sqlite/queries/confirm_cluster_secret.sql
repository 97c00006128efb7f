-- A server acts by a revision of the cluster's secret.
-- Guarantees: only if that is the revision now, and the first time stays.
-- Index: the primary keys.
-- Concurrency: only the writer runs it.
INSERT INTO cluster_secret_server (server, revision, confirmed_at)
SELECT ?1, revision, ?3 FROM cluster_secret WHERE id = 1 AND revision = ?2
ON CONFLICT (server) DO UPDATE SET revision = excluded.revision, confirmed_at = excluded.confirmed_at
WHERE cluster_secret_server.revision < excluded.revision
