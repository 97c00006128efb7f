-- Sets the end of the authorities before a generation that have none yet.
-- Guarantees: an end that was set stays.
-- Index: the primary key.
-- Concurrency: only the writer runs it, in the transaction that adds the generation.
UPDATE authority SET retired_at = ?2 WHERE generation < ?1 AND retired_at IS NULL
