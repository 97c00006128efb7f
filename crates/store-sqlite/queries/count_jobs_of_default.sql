-- How many jobs of the default namespace wait or run, up to so many.
-- Index: none has them. The table is read until so many were found; whoever asks waits the longer for the next count.
-- Concurrency: a snapshot.
SELECT count(*) FROM (SELECT 1 FROM job WHERE namespace IS NULL LIMIT ?1)
