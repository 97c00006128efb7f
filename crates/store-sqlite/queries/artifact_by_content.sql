-- The artifact of a namespace with this content that was not refused.
-- Guarantees: there is at most one.
-- Index: artifact_content; the condition is its own, or it would not be used.
-- Concurrency: in the writer.
SELECT id, name, size, sha256, state, at, detail, created_at, kind, namespace FROM artifact WHERE namespace = ?4 AND sha256 = ?1 AND size = ?2 AND kind = ?3 AND state <> 3
