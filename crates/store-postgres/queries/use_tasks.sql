-- Remembers until when tasks are used, where that is more than a step later than what is remembered.
-- Guarantees: never earlier than before; the answer is what is remembered now.
-- Index: the primary key; task_unlisted follows.
-- Concurrency: rows are locked in the order given, which is by number, so that two servers do not wait for each other.
UPDATE task SET used_until = CASE WHEN task.used_until < used.until - $3::bigint THEN used.until ELSE task.used_until END
FROM unnest($1::bigint[], $2::bigint[]) AS used (number, until)
WHERE task.number = used.number
RETURNING task.number, task.used_until
