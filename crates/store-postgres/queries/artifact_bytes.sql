-- The declared bytes of the artifacts of a namespace that were not refused.
-- Index: artifact_content, which has all that is read; the condition is its own, or it would not be used.
-- Concurrency: a snapshot; exact for whoever has locked the namespace.
SELECT coalesce(sum(size), 0)::bigint FROM artifact WHERE namespace = $1 AND state <> 3
