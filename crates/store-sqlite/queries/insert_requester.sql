-- Gives a number to a requester that has none.
-- Guarantees: one row or none.
-- Index: requester_name.
-- Concurrency: only the writer runs it.
INSERT INTO requester (kind, name, person) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
