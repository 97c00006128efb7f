-- Where the audit log begins and ends.
-- Guarantees: there is always one row.
-- Index: the primary key.
-- Concurrency: only reads.
SELECT base_seq, base_hash, head_seq, head_hash, signature FROM audit_ends WHERE id = 1
