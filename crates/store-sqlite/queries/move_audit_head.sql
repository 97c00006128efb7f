-- Moves the head of the audit log from one place to another.
-- Guarantees: changes nothing if the head is elsewhere.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction that inserts the lines.
UPDATE audit_ends SET head_seq = ?3, head_hash = ?4, signature = ?5
WHERE id = 1 AND head_seq = ?1 AND head_hash = ?2
