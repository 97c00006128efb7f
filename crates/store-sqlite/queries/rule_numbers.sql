-- The revision of a rule's spec, and the version of its state.
-- Index: the primary key.
-- Concurrency: run by the writer in the transaction that changes it.
SELECT revision, version FROM notification_rule WHERE namespace = ?2 AND name = ?1
