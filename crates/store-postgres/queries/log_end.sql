-- Where the last piece of a log ends.
-- Index: the primary key, backwards.
-- Concurrency: a snapshot.
SELECT begins + octet_length(bytes) FROM log WHERE job = $1 AND attempt = $2 ORDER BY begins DESC LIMIT 1
