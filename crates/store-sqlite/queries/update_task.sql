-- Replaces the spec of a live named task.
-- Guarantees: changes one row or none; the caller has read its revision in this transaction.
-- Index: UNIQUE (id).
-- Concurrency: only the writer runs it. Jobs follow at once: they refer to the row.
UPDATE task SET revision = ?2, kind = ?3, queue = ?4, spec = ?5, updated_at = ?6, artifact = ?7, waits = ?8,
                changed_by = ?9
WHERE id = ?1 AND deleted = 0 AND name IS NOT NULL
