-- Moves the begin of the audit log forward.
-- Guarantees: never back, and not beyond the head.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction that removes the lines.
UPDATE audit_ends SET base_seq = ?1, base_hash = ?2 WHERE id = 1 AND base_seq < ?1 AND head_seq >= ?1
