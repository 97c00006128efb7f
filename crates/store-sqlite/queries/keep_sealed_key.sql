-- Stores a sealed key, unless there is one with its label.
-- Guarantees: the first one stays.
-- Index: the primary key.
-- Concurrency: only the writer runs it.
INSERT INTO sealed_key (label, root_key, sealed) VALUES (?1, ?2, ?3) ON CONFLICT (label) DO NOTHING
