-- How far the rotation of the cluster's secret is.
-- Index: the primary key.
-- Concurrency: a snapshot; after lock_count, so that it stays true, where it is changed.
SELECT revision, stage, stage_since, made_at, next_made_at, overlap, cluster FROM cluster_secret WHERE id = 1
