-- Remembers that an artifact was used.
-- Index: the primary key; artifact_used follows.
-- Concurrency: in a transaction that has locked the row.
UPDATE artifact SET used_at = greatest(used_at, $2) WHERE id = $1
