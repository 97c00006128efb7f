-- Gives numbers to workers and servers that have none.
-- Index: UNIQUE (id).
-- Concurrency: of two who insert the same at once, the second waits for the first and inserts nothing.
INSERT INTO node (id, used_at) SELECT id, $2 FROM unnest($1::uuid[]) AS new (id) ON CONFLICT (id) DO NOTHING
