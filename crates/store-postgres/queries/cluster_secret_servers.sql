-- The servers that act by a revision of the cluster's secret, in order of id.
-- Index: the primary key, in its order; there are few.
-- Concurrency: a snapshot.
SELECT server, confirmed_at FROM cluster_secret_server WHERE revision = $1 ORDER BY server
