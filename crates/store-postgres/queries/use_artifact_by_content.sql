-- The artifact with this content that was not refused; it counts as used, and its upload may take longer.
-- Guarantees: there is at most one. Neither time goes back.
-- Index: artifact_content; the condition is its own, or it would not be used.
-- Concurrency: waits for a change that is under way, and then looks again whether it was refused or removed.
UPDATE artifact SET used_at = greatest(used_at, $3), at = CASE WHEN state = 1 THEN greatest(at, $4) ELSE at END
WHERE namespace = $6 AND sha256 = $1 AND size = $2 AND kind = $5 AND state <> 3
RETURNING id, name, size, sha256, state, at, detail, created_at, kind, namespace
