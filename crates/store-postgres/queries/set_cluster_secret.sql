-- The rotation of the cluster's secret is in another stage.
-- Index: the primary key.
-- Concurrency: after lock_count.
UPDATE cluster_secret
SET revision = $1, stage = $2, stage_since = $3, made_at = $4, next_made_at = $5, overlap = $6, cluster = $7
WHERE id = 1
