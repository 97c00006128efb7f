-- Stores an authority, if its generation is new.
-- Guarantees: the first of a generation stays as it is.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO authority (generation, certificate, sealed_key, created_at, retired_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (generation) DO NOTHING
