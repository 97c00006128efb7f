-- A secret has another value now.
-- Index: the primary key.
-- Concurrency: after lock_count and secret_revision.
UPDATE secret SET revision = $3, changed_at = $4, changed_by = $5, sealed = $6 WHERE namespace = $1 AND name = $2
