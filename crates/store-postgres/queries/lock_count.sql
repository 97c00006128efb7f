-- Holds off others who would add to what there can be only so many of: `rules`, `backfills` or `secrets`; or who would change `calendars`.
-- Index: the primary key.
-- Concurrency: until the transaction has ended; what is counted after this stays true until then.
SELECT 1 FROM meta WHERE key = $1 FOR UPDATE
