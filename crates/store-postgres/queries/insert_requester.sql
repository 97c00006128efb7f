-- Gives a number to a requester that has none.
-- Guarantees: one row or none.
-- Index: requester_name.
-- Concurrency: of two who insert the same at once, the second waits for the first and inserts nothing.
INSERT INTO requester (kind, name, person) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
