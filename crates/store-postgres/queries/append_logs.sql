-- Stores pieces of logs; one that is there already is left as it is.
-- Index: the primary key.
-- Concurrency: not fenced: a log decides nothing. Of two equal pieces at once the first stays.
INSERT INTO log (job, begins, attempt, bytes)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bytea[])
ON CONFLICT (job, attempt, begins) DO NOTHING
