-- Removes servers that were not seen since a moment.
-- Index: none; there are few.
-- Concurrency: only the writer runs it.
DELETE FROM member WHERE seen_at < ?1
