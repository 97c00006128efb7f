-- Namespaces whose history is gone, so many at once.
-- Index: namespace_deleted.
-- Concurrency: only the writer runs it.
DELETE FROM namespace WHERE id IN (
    SELECT id FROM namespace WHERE deleted_at < ?1 ORDER BY deleted_at LIMIT ?2
)
