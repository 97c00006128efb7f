-- Remembers until when a task is used, if that is more than a step later than what is remembered.
-- Guarantees: never earlier than before; the answer is what is remembered now.
-- Index: the primary key; task_unlisted follows.
-- Concurrency: only the writer runs it.
UPDATE task SET used_until = CASE WHEN used_until < ?3 THEN ?2 ELSE used_until END WHERE number = ?1 RETURNING used_until
