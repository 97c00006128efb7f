-- Hides a task and frees its name.
-- Guarantees: only the expected revision is hidden, if one is expected. The row stays, for jobs that wait and for history, and for a while for who has just read it.
-- Index: UNIQUE (id).
-- Concurrency: of two who delete at once the second finds nothing to delete.
UPDATE task SET deleted = true,
    used_until = greatest(used_until, coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint))
WHERE id = $1 AND NOT deleted AND name IS NOT NULL AND ($3::bigint IS NULL OR revision = $3)
