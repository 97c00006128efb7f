-- All authorities that there ever were, in order of generation.
-- Index: the primary key; one row for each time that somebody replaced the authority.
-- Concurrency: reads what was committed.
SELECT generation, certificate, sealed_key, created_at, retired_at FROM authority ORDER BY generation
