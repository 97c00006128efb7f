-- Replaces the spec of a live named task that has the revision before.
-- Guarantees: changes one row or none.
-- Index: UNIQUE (id).
-- Concurrency: of two updates of one revision the second finds it gone. Jobs follow at once: they refer to the row.
UPDATE task SET revision = $2::bigint, kind = $3, queue = $4, spec = $5, updated_at = $6,
    artifact = $7, waits = $8, changed_by = $9
WHERE id = $1 AND NOT deleted AND name IS NOT NULL AND revision = $2::bigint - 1
