-- All authorities that there ever were.
-- Guarantees: in order of generation; one for each time that somebody replaced the authority.
-- Index: the primary key.
-- Concurrency: only the writer writes; a reader sees what was committed.
SELECT generation, certificate, sealed_key, created_at, retired_at FROM authority ORDER BY generation
