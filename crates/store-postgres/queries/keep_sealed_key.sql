-- Stores a sealed key, unless there is one with its label.
-- Guarantees: the first one stays.
-- Index: the primary key.
-- Concurrency: after lock_count, so that the keys are not sealed with another root key meanwhile.
INSERT INTO sealed_key (label, root_key, sealed) VALUES ($1, $2, $3) ON CONFLICT (label) DO NOTHING
