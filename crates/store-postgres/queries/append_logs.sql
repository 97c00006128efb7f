-- Stores pieces of logs; one that is there already is left as it is.
-- Index: the primary key.
-- Concurrency: not fenced: a log decides nothing. Of two equal pieces at once the first stays.
INSERT INTO log (job, begins, attempt, bytes, marks)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::integer[], $4::bytea[], $5::bytea[])
ON CONFLICT (job, attempt, begins) DO NOTHING
