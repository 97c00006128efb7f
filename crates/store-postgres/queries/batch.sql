-- One batch.
-- Guarantees: no row if there is none.
-- Index: the primary key.
-- Concurrency: a snapshot.
SELECT id, namespace, name, made_at, made_by, requester, due_at, tasks, members, status, state FROM batch WHERE id = $1
