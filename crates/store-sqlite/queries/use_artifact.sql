-- Remembers that an artifact was used, and prolongs the time for its upload if it is pending.
-- Guarantees: neither goes back.
-- Index: the primary key; artifact_used follows.
-- Concurrency: in the writer.
UPDATE artifact SET used_at = max(used_at, ?2), at = CASE WHEN state = 1 THEN max(at, ?3) ELSE at END WHERE id = ?1
