-- The declared bytes of the artifacts of a namespace that were not refused.
-- Index: artifact_namespace, all of the namespace.
-- Concurrency: a snapshot, or in the writer.
SELECT coalesce(sum(size), 0) FROM artifact WHERE namespace = ?1 AND state <> 3
